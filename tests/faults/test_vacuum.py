"""Vacuums that are killed, put to sleep, raced and refused: nothing is lost, and a rerun finishes."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable

import pytest

from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.vacuum.plan import VacuumPlan
from singerlake.upkeep.vacuum.vacuum import vacuum_stream
from singerlake.upkeep.verify import verify_stream
from tests.faults.support.crew import Crew
from tests.faults.support.network import Network
from tests.faults.support.places import TAP, Kind, of_kinds
from tests.faults.support.worker import THREE_FILES, Point
from tests.faults.test_network import MINE, STORMS

pytestmark = pytest.mark.in_turn("kind")

EFFECT = r"^storage\.(put|upload|compose|delete) |^dynamodb\.(?!Get|Query)|^postgres\.\s*(INSERT|UPDATE|COMMIT)"
ANY = r"^storage\.|^store\.|^dynamodb\.|^postgres\."
JOINED = r"\.singer\.gz"


def messages(crew: Crew) -> list[bytes]:
    """Every message by its offset; what the manifest says of each file is so."""
    place = crew.place
    state = place.state()
    assert state is not None
    found: list[bytes] = []
    for file in state.files:
        stored = place.storage.get(place.prefix + file.path)
        assert stored is not None
        lines = [line for line in gzip.decompress(stored.body).splitlines() if b'"SCHEMA"' not in line]
        assert (file.offset, file.messages, file.bytes) == (len(found), len(lines), len(stored.body))
        found += lines
    problems = verify_stream(place.storage, TAP, place.stream, lambda: state).findings
    assert [finding for finding in problems if finding.kind != "unlisted"] == []
    return found


def is_finished(crew: Crew) -> bool:
    """Whether a vacuum finds nothing left to join."""
    return not plan(crew).groups


def plan(crew: Crew) -> VacuumPlan:
    place = crew.place
    lake = place.lake()
    return vacuum_stream(
        StreamContext(place.storage, TAP, place.stream, lake.clock, lake.ids, place.store()),
        target_bytes=THREE_FILES,
        dry_run=True,
    ).plan


def filled(crew: Crew) -> list[bytes]:
    """A stream of six small files, which make two; its messages."""
    crew.publish("first", files=6)
    found = messages(crew)
    assert len(plan(crew).groups) == 2
    return found


def at_each_step(crew: Crew, calls: str, scenario: Callable[[Crew, int, list[bytes]], bool]) -> None:
    def steps(here: Crew) -> int:
        filled(here)
        return here.start("vacuum", Point(calls, "count"), task="vacuum").counted

    crew.at_each_step(steps, lambda here, step: scenario(here, step, filled(here)))


def test_a_vacuum_killed_before_any_effect_has_lost_nothing_and_is_run_again(crew: Crew) -> None:
    killed_everywhere(crew, EFFECT)


@pytest.mark.thorough
@of_kinds(lambda kind: kind.name in ("lockfile", "log"))
def test_so_has_one_that_is_killed_at_any_call(crew: Crew) -> None:
    killed_everywhere(crew, ANY)


def killed_everywhere(crew: Crew, calls: str) -> None:
    def at(here: Crew, step: int, before: list[bytes]) -> bool:
        met = here.start("vacuum", Point(calls, "kill", nth=step), task="vacuum").met_its_point()
        assert messages(here) == before
        here.start("again", task="vacuum").wait()
        assert messages(here) == before
        assert is_finished(here)
        return met

    at_each_step(crew, calls, at)


@pytest.mark.in_turn("kind", "call", "after")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", [rf"^storage\.compose .*{JOINED}", r"^store\.commit", r"^store\.publish"])
def test_a_vacuum_killed_at_its_turning_points_is_run_again(crew: Crew, kind: Kind, call: str, after: bool) -> None:
    before = filled(crew)
    crew.start("vacuum", Point(call, "kill", after=after), task="vacuum").killed()
    assert messages(crew) == before
    crew.start("again", task="vacuum").wait()
    assert messages(crew) == before
    assert is_finished(crew)


@pytest.mark.thorough
@of_kinds(lambda kind: kind.name in ("lockfile", "log", "merge"))
def test_a_writer_and_a_trim_that_come_while_a_vacuum_sleeps_at_any_call_lose_nothing(crew: Crew) -> None:
    def at(here: Crew, step: int, before: list[bytes]) -> bool:
        asleep = here.start("vacuum", Point(r"^storage\.", "stop", nth=step), task="vacuum")
        met = asleep.met_its_point()
        written = here.publish("writer", files=2, schema=1)
        here.trim()
        if met:
            asleep.go_on().wait()
        after = messages(here)
        assert after[: len(before)] == before
        assert len(after) >= len(before) + 6 * len(written.files)
        return met

    at_each_step(crew, r"^storage\.", at)


def test_a_reader_that_slept_through_a_vacuum_finds_the_files_of_its_snapshot(crew: Crew, kind: Kind) -> None:
    before = filled(crew)
    snapshot = crew.place.state()
    assert snapshot is not None
    crew.start("vacuum", task="vacuum").wait()
    stored = [crew.place.storage.get(crew.place.prefix + file.path) for file in snapshot.files]
    lines = [line for each in stored if each for line in gzip.decompress(each.body).splitlines()]
    assert [line for line in lines if b'"SCHEMA"' not in line] == before


def test_vacuums_and_writers_at_once_agree(crew: Crew) -> None:
    before = filled(crew)
    barrier = crew.barrier(4)
    vacuums = [
        crew.start(f"vacuum{number}", Point(rf"^storage\.compose .*{JOINED}", "meet"), task="vacuum", barrier=barrier)
        for number in range(2)
    ]
    writers = [
        crew.start(f"writer{number}", Point(r"^worker\.open", "meet"), files=3, schema=number, barrier=barrier)
        for number in range(2)
    ]
    for worker in (*vacuums, *writers):
        worker.wait()
    after = messages(crew)
    assert after[: len(before)] == before
    assert sorted(after[len(before) :]) == sorted(
        line for line in after if re.search(rb'"n":"writer[01]-[0-2]-[01]-[0-2]"', line)
    )
    assert len(after) == len(before) + 36


def test_8_a_commit_whose_reply_is_lost_counts_once(network: Network, kind: Kind) -> None:
    before = filled(network.crew)
    fault = network.proxy.drop(kind.request, after=True)
    network.start("vacuum", task="vacuum").wait()
    assert (fault.hits, fault.done) == (1, 1)
    assert messages(network.crew) == before
    assert is_finished(network.crew)


def test_11_storms_of_refusals_are_weathered(network: Network, kind: Kind) -> None:
    before = filled(network.crew)
    storm = [
        network.proxy.error(MINE[kind.on], times=4, seed=seed, **each) for seed, each in enumerate(STORMS[kind.on])
    ]
    network.start("vacuum", task="vacuum").wait()
    assert sum(fault.hits for fault in storm) > 0
    assert messages(network.crew) == before
    assert is_finished(network.crew)


@of_kinds(lambda kind: kind.on == "lake")
def test_a_joined_file_that_arrives_short_is_not_listed(bucket: Network) -> None:
    before = filled(bucket.crew)
    fault = bucket.proxy.truncate(r"^PUT .*\.singer\.gz$")
    assert "storage reports another size than was uploaded" in bucket.start("vacuum", task="vacuum").failed()
    assert fault.hits == 1
    assert messages(bucket.crew) == before
    bucket.start("again", task="vacuum").wait()
    assert messages(bucket.crew) == before
    assert is_finished(bucket.crew)
