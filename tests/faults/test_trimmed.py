"""A log that is trimmed under writers and readers that were asleep, and trims that die (cases 21 to 24)."""

from __future__ import annotations

import pytest

from tests.faults.support.crew import Crew
from tests.faults.support.places import Kind, of_kinds
from tests.faults.support.worker import Point

pytestmark = [of_kinds(lambda kind: bool(kind.tail)), pytest.mark.in_turn("kind")]

EFFECT = r"^storage\.(put|delete|upload) |^dynamodb\.(Put|Update|Delete|Transact|Batch)|^postgres\.(?!SELECT)"
"""What a trim changes something with."""


@pytest.mark.in_turn("kind", "moment")
@pytest.mark.parametrize("moment", ["before-it-commits", "on-the-way"])
def test_21_a_writer_that_slept_while_its_number_was_trimmed_is_refused(crew: Crew, kind: Kind, moment: str) -> None:
    call = r"^store\.commit" if moment == "before-it-commits" else kind.call
    asleep = crew.start("asleep", Point(call, "stop", nth=2)).stopped()
    crew.publish("awake", files=3)
    crew.trim()
    crew.check(orphans=1)
    asleep.go_on().wait()
    assert crew.count() == 5


def test_21_sleepers_of_several_ages_leave_a_log_that_can_be_followed(crew: Crew, kind: Kind) -> None:
    crew.publish("birth", files=1)
    oldest = crew.start("oldest", Point(kind.numbering, "stop"), files=1).stopped()
    reader = crew.start("reader", Point(r"^store\.commit", "stop"), files=1).stopped()
    crew.publish("first", files=1)
    younger = crew.start("younger", Point(kind.numbering, "stop"), files=1).stopped()
    crew.publish("last", files=3)
    crew.trim()
    for each in (oldest, younger, reader):
        each.go_on().wait()
    assert crew.count() == 8
    crew.trim()
    assert crew.count() == 8


def test_22_a_trim_that_dies_at_any_step_leaves_a_log_that_can_be_read_and_trimmed(crew: Crew) -> None:
    def steps(here: Crew) -> int:
        here.publish("ada")
        here.ripen()
        return here.start("trimmer", Point(EFFECT, "count"), task="trim").counted

    def at(here: Crew, step: int) -> bool:
        here.publish("ada")
        here.ripen()
        met = here.start("trimmer", Point(EFFECT, "kill", nth=step), task="trim").met_its_point()
        assert here.count() == 2
        here.publish("bea")
        here.trim()
        assert here.count() == 4
        return met

    crew.at_each_step(steps, at)


@pytest.mark.in_turn("kind", "keep")
@pytest.mark.parametrize("keep", [0, 3])
def test_22_trims_and_writers_at_once_agree(crew: Crew, keep: int) -> None:
    crew.publish("before", files=3)
    barrier = crew.barrier(4)
    writers = [
        crew.start(f"writer{number}", Point(r"^worker\.open", "meet"), files=6, schema=number, barrier=barrier)
        for number in range(2)
    ]
    trimmers = [
        crew.start(f"trimmer{number}", Point(r"^store\.trim", "meet"), task="trim", keep=keep, barrier=barrier)
        for number in range(2)
    ]
    for worker in (*writers, *trimmers):
        worker.wait()
    assert crew.count() == 15


def test_23_a_reader_that_slept_while_its_tail_was_trimmed_sees_everything(crew: Crew, kind: Kind) -> None:
    written = crew.publish("first", files=2).files
    asleep = crew.start("asleep", Point(kind.tail, "stop"), task="read").stopped()
    written += crew.publish("second", files=3).files
    crew.trim()
    assert [id for id in asleep.go_on().read() if id not in crew.ballast] == written
    crew.check()
