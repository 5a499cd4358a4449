"""Collections that are killed, put to sleep, raced and refused: nothing listed is ever gone, and a rerun finishes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from singerlake.format import layout
from singerlake.format.state.model import Retired
from tests.faults.support.crew import Crew, Worker
from tests.faults.support.network import Network
from tests.faults.support.places import Kind, of_kinds
from tests.faults.support.worker import Point
from tests.faults.test_network import MINE, STORMS
from tests.faults.test_vacuum import ANY, EFFECT, filled, messages

pytestmark = pytest.mark.in_turn("kind")


def data_files(crew: Crew) -> set[str]:
    """The paths of the data files that are on storage."""
    paths = (entry.key[len(crew.place.prefix) :] for entry in crew.place.storage.list(crew.place.prefix))
    return {path for path in paths if layout.is_data_file(path)}


Start = Callable[..., Worker]
"""Starts a process: a crew's, or one behind a network."""


def due(crew: Crew, start: Start | None = None) -> list[bytes]:
    """A stream whose small files were joined and noted as retired, so that they are deleted next; its messages."""
    before = filled(crew)
    crew.start("vacuum", task="vacuum").wait()
    (start or crew.start)("showing", task="gc").wait()
    assert len(data_files(crew)) == 8
    return before


def left(crew: Crew) -> tuple[set[str], list[Retired]]:
    """What is left beside what is listed: data files on storage, and retired files of the state."""
    state = crew.place.state()
    assert state is not None
    return data_files(crew) - {file.path for file in state.files}, list(state.retired)


NOTHING: tuple[set[str], list[Retired]] = (set(), [])


def finish(start: Start) -> None:
    for number in range(3):
        start(f"again{number}", task="gc").wait()


def killed_everywhere(crew: Crew, calls: str) -> None:
    def at(here: Crew, step: int) -> bool:
        before = due(here)
        met = here.start("gc", Point(calls, "kill", nth=step), task="gc").met_its_point()
        assert messages(here) == before
        finish(here.start)
        assert messages(here) == before
        assert left(here) == NOTHING
        return met

    def steps(here: Crew) -> int:
        due(here)
        return here.start("gc", Point(calls, "count"), task="gc").counted

    crew.at_each_step(steps, at)


def test_a_collection_killed_before_any_effect_has_lost_nothing_and_is_run_again(crew: Crew) -> None:
    killed_everywhere(crew, EFFECT)


@pytest.mark.thorough
@of_kinds(lambda kind: kind.name in ("lockfile", "log"))
def test_so_has_one_that_is_killed_at_any_call(crew: Crew) -> None:
    killed_everywhere(crew, ANY)


@pytest.mark.in_turn("kind", "call", "after")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", [r"^storage\.delete_all", r"^store\.commit"])
def test_a_collection_killed_at_its_turning_points_is_run_again(crew: Crew, call: str, after: bool) -> None:
    before = due(crew)
    crew.start("gc", Point(call, "kill", after=after), task="gc").killed()
    assert messages(crew) == before
    finish(crew.start)
    assert messages(crew) == before
    assert left(crew) == NOTHING


@pytest.mark.thorough
@of_kinds(lambda kind: kind.name in ("lockfile", "log", "merge"))
def test_a_writer_and_a_vacuum_that_come_while_a_collection_sleeps_at_any_call_lose_nothing(crew: Crew) -> None:
    def at(here: Crew, step: int) -> bool:
        before = due(here)
        asleep = here.start("gc", Point(r"^storage\.", "stop", nth=step), task="gc")
        met = asleep.met_its_point()
        written = here.publish("writer", files=3)
        here.start("other", task="vacuum").wait()
        if met:
            asleep.go_on().wait()
        after = messages(here)
        assert after[: len(before)] == before
        assert len(after) >= len(before) + 6 * len(written.files)
        finish(here.start)
        assert messages(here) == after
        assert left(here) == NOTHING
        return met

    def steps(here: Crew) -> int:
        due(here)
        return here.start("gc", Point(r"^storage\.", "count"), task="gc").counted

    crew.at_each_step(steps, at)


def test_collections_and_writers_at_once_agree(crew: Crew) -> None:
    before = due(crew)
    barrier = crew.barrier(4)
    collections = [
        crew.start(f"gc{number}", Point(r"^storage\.list ", "meet"), task="gc", barrier=barrier) for number in range(2)
    ]
    writers = [
        crew.start(f"writer{number}", Point(r"^worker\.open", "meet"), files=3, schema=number, barrier=barrier)
        for number in range(2)
    ]
    for worker in (*collections, *writers):
        worker.wait()
    after = messages(crew)
    assert after[: len(before)] == before
    assert len(after) == len(before) + 36


def test_a_commit_whose_reply_is_lost_counts_once(network: Network, kind: Kind) -> None:
    before = due(network.crew, network.start)
    fault = network.proxy.drop(kind.request, after=True)
    network.start("gc", task="gc").wait()
    assert (fault.hits, fault.done) == (1, 1)
    finish(network.start)
    assert messages(network.crew) == before
    assert left(network.crew) == NOTHING


def test_storms_of_refusals_are_weathered(network: Network, kind: Kind) -> None:
    before = due(network.crew, network.start)
    storm = [
        network.proxy.error(MINE[kind.on], times=4, seed=seed, **each) for seed, each in enumerate(STORMS[kind.on])
    ]
    network.start("gc", task="gc").wait()
    assert sum(fault.hits for fault in storm) > 0
    finish(network.start)
    assert messages(network.crew) == before
    assert left(network.crew) == NOTHING
