"""Processes that do the same at once, the same files among them, with clocks that are wrong (cases 7, 17 to 20)."""

from __future__ import annotations

import shutil

import msgspec
import pytest

from tests.faults.support.crew import Crew
from tests.faults.support.files import prepare
from tests.faults.support.places import of_kinds
from tests.faults.support.worker import Job, Point, Prepared

pytestmark = pytest.mark.in_turn("kind")


@pytest.mark.in_turn("kind", "writers")
@pytest.mark.parametrize("writers", [2, 8])
def test_7_commits_at_the_same_moment_all_find_a_place(crew: Crew, writers: int) -> None:
    at_once(crew, writers)


@of_kinds(lambda kind: kind.on != "dynamodb")
def test_7_so_do_those_of_more_writers_than_a_stream_should_have(crew: Crew) -> None:
    at_once(crew, 32)


def at_once(crew: Crew, writers: int) -> None:
    barrier = crew.barrier(writers)
    crew.publish("before", files=1)
    # Each writer has a schema of its own, so that no lock keeps them apart.
    meet = Point(r"^store\.commit", "meet")
    started = [
        crew.start(f"writer{number}", meet, files=1, schema=number, barrier=barrier) for number in range(writers)
    ]
    for worker in started:
        worker.wait()
    state = crew.check()
    assert len(state.files) == writers + 1
    assert len(state.versions) == writers


def test_7_births_at_the_same_moment_are_one(crew: Crew) -> None:
    writers = 8
    barrier = crew.barrier(writers)
    meet = Point(r"^store\.create", "meet")
    started = [
        crew.start(f"writer{number}", meet, files=1, schema=number, barrier=barrier) for number in range(writers)
    ]
    for worker in started:
        worker.wait()
    assert crew.count() == writers


@of_kinds(lambda kind: kind.on != "lake")
def test_7_a_lake_that_several_begin_at_the_same_moment_has_one_name_in_the_database(crew: Crew) -> None:
    barrier = crew.barrier(4)
    meet = Point(r"^storage\.put raw/singerlake\.json", "meet")
    started = [crew.start(f"writer{number}", meet, files=1, schema=number, barrier=barrier) for number in range(4)]
    for worker in started:
        worker.wait()
    assert crew.count() == 4


def test_17_the_same_file_sent_by_two_processes_at_once_is_one(crew: Crew) -> None:
    barrier = crew.barrier(2)
    job = Job(place=crew.place, name="ada", folder=crew.folder)
    made = [prepare(job, number, 0) for number in range(2)]
    for name in ("ada", "bea"):
        copies = []
        for each in made:
            spool = f"{each.spool}-{name}"
            shutil.copy(each.spool, spool)
            copies.append(Prepared(spool, each.file, each.schema))
        path = crew.folder / f"{name}.plan"
        path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in copies))
    meet = Point(r"^worker\.open", "meet")
    started = [crew.start(name, meet, barrier=barrier) for name in ("ada", "bea")]
    for worker in started:
        worker.wait()
    assert crew.count() == 2


def test_17_another_file_under_a_listed_id_is_refused(crew: Crew) -> None:
    first = crew.publish("ada", files=1)
    job = Job(place=crew.place, name="eve", folder=crew.folder)
    other = prepare(job, 0, 0, id=first.files[0], records=5)
    job.file("plan").write_bytes(msgspec.json.encode(other))
    assert first.files[0] in crew.start("eve").failed()
    crew.check()


SKEWS = {
    "18-an-hour-apart": [(3600.0,), (-3600.0,)],
    "19-almost-ten-seconds-apart": [(4.9,), (-4.9,)],
    "20-stepping-back": [(0.0, -5.0, -3600.0), (0.0, 1.5, -1.5)],
}


@pytest.mark.in_turn("kind", "skew")
@pytest.mark.parametrize("skew", SKEWS)
def test_clocks_that_are_wrong_lose_nothing(crew: Crew, skew: str) -> None:
    barrier = crew.barrier(2)
    meet = Point(r"^worker\.open", "meet")
    started = [
        crew.start(f"writer{number}", meet, files=3, shifts=shifts, schema=number, barrier=barrier)
        for number, shifts in enumerate(SKEWS[skew])
    ]
    for worker in started:
        worker.wait()
    state = crew.check()
    assert len(state.files) == 6
    for worker in started:
        assert [file.id for file in state.files if file.id in worker.files] == worker.files


@pytest.mark.thorough
@of_kinds(lambda kind: kind.settles)
def test_20_a_writer_of_more_commits_than_one_session_can_name_loses_none(crew: Crew) -> None:
    written = crew.publish("ada", files=1030).files
    assert [file.id for file in crew.check().files] == written


def test_20_clocks_that_stand_still_at_one_moment_lose_nothing(crew: Crew) -> None:
    barrier = crew.barrier(3)
    meet = Point(r"^worker\.open", "meet")
    started = [
        crew.start(f"writer{number}", meet, files=4, frozen=True, schema=number, barrier=barrier) for number in range(3)
    ]
    for worker in started:
        worker.wait()
    assert crew.count() == 12
