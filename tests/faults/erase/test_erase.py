"""Erasures that are killed, put to sleep, raced and refused: nothing else is lost, and a rerun finishes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from singerlake.conditions import parse_condition
from singerlake.format import layout
from singerlake.format.lines.holes import HOLE
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.erase.erase import erase_messages
from tests.faults.support.crew import Crew
from tests.faults.support.network import Network
from tests.faults.support.places import TAP, Kind, of_kinds
from tests.faults.support.worker import MEANT, Point
from tests.faults.test_network import MINE, STORMS
from tests.faults.test_vacuum import ANY, EFFECT, filled, messages

pytestmark = pytest.mark.in_turn("kind")

WRITTEN = r"\.singer\.gz"


def is_meant(line: bytes) -> bool:
    return any(f'"{value}"'.encode() in line for value in MEANT)


def erased(text: list[bytes]) -> list[bytes]:
    """The messages without those that are meant."""
    assert sum(map(is_meant, text)) == len(MEANT)
    return [HOLE[:-1] if is_meant(line) else line for line in text]


def is_between(crew: Crew, before: list[bytes]) -> bool:
    """Whether every message is in its place, some of those that are meant perhaps gone."""
    after = messages(crew)
    return len(after) == len(before) and all(
        line in (was, HOLE[:-1]) if is_meant(was) else line == was for line, was in zip(after, before, strict=True)
    )


def is_finished(crew: Crew) -> bool:
    """Whether an erasure finds nothing left, and nothing that no state knows."""
    place = crew.place
    lake = place.lake()
    context = StreamContext(place.storage, TAP, place.stream, lake.clock, lake.ids, place.store())
    told = erase_messages(context, parse_condition(f"n in {MEANT}", str), who="", dry_run=True)
    return told.records == 0 and all(trace.id is not None for trace in told.left)


def at_each_step(crew: Crew, calls: str, scenario: Callable[[Crew, int, list[bytes]], bool]) -> None:
    def steps(here: Crew) -> int:
        filled(here)
        return here.start("erase", Point(calls, "count"), task="erase").counted

    crew.at_each_step(steps, lambda here, step: scenario(here, step, filled(here)))


def killed_everywhere(crew: Crew, calls: str) -> None:
    def at(here: Crew, step: int, before: list[bytes]) -> bool:
        met = here.start("erase", Point(calls, "kill", nth=step), task="erase").met_its_point()
        assert is_between(here, before)
        here.start("again", task="erase").wait()
        assert messages(here) == erased(before)
        assert is_finished(here)
        return met

    at_each_step(crew, calls, at)


def test_an_erasure_killed_before_any_effect_has_lost_nothing_and_is_run_again(crew: Crew) -> None:
    killed_everywhere(crew, EFFECT)


@pytest.mark.thorough
@of_kinds(lambda kind: kind.name in ("lockfile", "log"))
def test_so_has_one_that_is_killed_at_any_call(crew: Crew) -> None:
    killed_everywhere(crew, ANY)


@pytest.mark.in_turn("kind", "call", "after")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", [rf"^storage\.upload .*{WRITTEN}", r"^store\.commit", r"^store\.publish"])
def test_an_erasure_killed_at_its_turning_points_is_run_again(crew: Crew, kind: Kind, call: str, after: bool) -> None:
    before = filled(crew)
    crew.start("erase", Point(call, "kill", after=after), task="erase").killed()
    assert is_between(crew, before)
    crew.start("again", task="erase").wait()
    assert messages(crew) == erased(before)
    assert is_finished(crew)


@pytest.mark.thorough
@of_kinds(lambda kind: kind.name in ("lockfile", "log", "merge"))
def test_a_writer_and_a_trim_that_come_while_an_erasure_sleeps_at_any_call_lose_nothing(crew: Crew) -> None:
    def at(here: Crew, step: int, before: list[bytes]) -> bool:
        asleep = here.start("erase", Point(r"^storage\.", "stop", nth=step), task="erase")
        met = asleep.met_its_point()
        written = here.publish("writer", files=2, schema=1)
        here.trim()
        if met:
            asleep.go_on().wait()
        after = messages(here)
        assert after[: len(before)] == erased(before)
        assert len(after) >= len(before) + 6 * len(written.files)
        return met

    at_each_step(crew, r"^storage\.", at)


def test_a_vacuum_that_comes_while_an_erasure_sleeps_before_its_commit_takes_nothing_back(crew: Crew) -> None:
    before = filled(crew)
    asleep = crew.start("erase", Point(r"^store\.commit", "stop"), task="erase")
    assert asleep.met_its_point()
    crew.start("vacuum", task="vacuum").wait()
    assert messages(crew) == before
    asleep.go_on().wait()
    assert messages(crew) == erased(before)
    assert is_finished(crew)


def test_an_erasure_that_comes_while_a_vacuum_sleeps_before_its_commit_stays(crew: Crew) -> None:
    before = filled(crew)
    asleep = crew.start("vacuum", Point(r"^store\.commit", "stop"), task="vacuum")
    assert asleep.met_its_point()
    crew.start("erase", task="erase").wait()
    assert messages(crew) == erased(before)
    asleep.go_on().wait()
    assert messages(crew) == erased(before)


def test_erasures_vacuums_and_writers_at_once_agree(crew: Crew) -> None:
    before = filled(crew)
    barrier = crew.barrier(5)
    upkeep = [
        crew.start("vacuum", Point(rf"^storage\.compose .*{WRITTEN}", "meet"), task="vacuum", barrier=barrier),
        *(
            crew.start(f"erase{number}", Point(rf"^storage\.upload .*{WRITTEN}", "meet"), task="erase", barrier=barrier)
            for number in range(2)
        ),
    ]
    writers = [
        crew.start(f"writer{number}", Point(r"^worker\.open", "meet"), files=3, schema=number, barrier=barrier)
        for number in range(2)
    ]
    for worker in (*upkeep, *writers):
        worker.wait()
    after = messages(crew)
    assert after[: len(before)] == erased(before)
    assert len(after) == len(before) + 36
    assert not any(map(is_meant, after))


def test_a_commit_whose_reply_is_lost_counts_once(network: Network, kind: Kind) -> None:
    before = filled(network.crew)
    fault = network.proxy.drop(kind.request, after=True)
    network.start("erase", task="erase").wait()
    assert (fault.hits, fault.done) == (1, 1)
    assert messages(network.crew) == erased(before)
    assert is_finished(network.crew)


def test_storms_of_refusals_are_weathered(network: Network, kind: Kind) -> None:
    before = filled(network.crew)
    storm = [
        network.proxy.error(MINE[kind.on], times=4, seed=seed, **each) for seed, each in enumerate(STORMS[kind.on])
    ]
    network.start("erase", task="erase").wait()
    assert sum(fault.hits for fault in storm) > 0
    assert messages(network.crew) == erased(before)
    assert is_finished(network.crew)


@of_kinds(lambda kind: kind.on == "lake")
def test_a_file_that_arrives_short_is_not_listed(bucket: Network) -> None:
    before = filled(bucket.crew)
    fault = bucket.proxy.truncate(r"^PUT .*\.singer\.gz$")
    assert "storage reports another size than was uploaded" in bucket.start("erase", task="erase").failed()
    assert fault.hits == 1
    assert messages(bucket.crew) == before
    bucket.start("again", task="erase").wait()
    assert messages(bucket.crew) == erased(before)
    assert is_finished(bucket.crew)


def test_what_was_replaced_is_collected_and_leaves_nothing(crew: Crew) -> None:
    before = filled(crew)
    crew.start("erase", task="erase").wait()
    for number in range(3):
        crew.start(f"gc{number}", task="gc").wait()
    assert messages(crew) == erased(before)
    state = crew.place.state()
    assert state is not None
    paths = (entry.key[len(crew.place.prefix) :] for entry in crew.place.storage.list(crew.place.prefix))
    assert {path for path in paths if layout.is_data_file(path)} == {file.path for file in state.files}
