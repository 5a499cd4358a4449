"""The worst moment is the one nobody thought of: a writer is killed, or put to sleep, at each of its calls in turn."""

from __future__ import annotations

import pytest

from tests.faults.support.crew import Crew
from tests.faults.support.files import LARGE
from tests.faults.support.places import of_kinds
from tests.faults.support.worker import Point

pytestmark = pytest.mark.in_turn("kind")

EFFECT = r"^storage\.(put|upload|delete) |^dynamodb\.(?!Get|Query)|^postgres\.\s*(INSERT|UPDATE|COMMIT)"
ANY = r"^storage\."


def test_1_to_3_a_writer_killed_before_any_effect_is_run_again(crew: Crew) -> None:
    killed_everywhere(crew, 0)


@pytest.mark.thorough
@of_kinds(lambda kind: kind.name == "dynamodb")
def test_1_to_3_so_is_one_whose_transactions_are_objects(crew: Crew) -> None:
    killed_everywhere(crew, LARGE)


def killed_everywhere(crew: Crew, schema: int) -> None:
    def steps(here: Crew) -> int:
        return here.start("ada", Point(EFFECT, "count"), schema=schema).counted

    def at(here: Crew, step: int) -> bool:
        met = here.start("ada", Point(EFFECT, "kill", nth=step), schema=schema).met_its_point()
        here.rerun("ada").wait()
        here.trim()
        assert here.count() == 2
        return met

    crew.start("first").wait()
    crew.at_each_step(steps, at)


@pytest.mark.thorough
def test_5_and_21_a_writer_asleep_at_any_call_finds_its_place(crew: Crew) -> None:
    refused = {}

    def steps(here: Crew) -> int:
        return here.start("asleep", Point(ANY, "count"), files=1).counted

    def at(here: Crew, step: int) -> bool:
        sleeper = here.start("asleep", Point(ANY, "stop", nth=step), files=1)
        met = sleeper.met_its_point()
        # With another schema, since a lock that nobody lets go is waited for elsewhere.
        here.publish("awake", schema=1)
        here.trim()
        if met and sleeper.go_on().ended() != 0:
            refused[step] = sleeper.log.splitlines()[0]
        else:
            assert here.count() == 3
        return met

    crew.start("first").wait()
    crew.at_each_step(steps, at)
    assert refused == {}
