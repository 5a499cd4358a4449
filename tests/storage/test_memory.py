"""What the storage for simulations adds to the contract: faults between any two effects, stores that break rules."""

from __future__ import annotations

import pytest

from singerlake.clock import SystemClock, random_id
from singerlake.storage.port import Capabilities, Written
from tests.storage.memory import MemoryStorage, Step


class Lost(Exception):
    """A fault a simulation raises."""


def storage(**options: bool) -> MemoryStorage:
    return MemoryStorage(clock=SystemClock(), ids=random_id, **options)


def test_the_hook_sees_both_sides_of_every_operation() -> None:
    made = storage()
    steps: list[Step] = []
    made.hook = steps.append
    made.put("a", b"1")
    made.get("a")
    list(made.list(""))
    made.delete("a")
    assert [(step.operation, step.key, step.done) for step in steps] == [
        (operation, key, done)
        for operation, key in (("put", "a"), ("get", "a"), ("list", ""), ("delete", "a"))
        for done in (False, True)
    ]


@pytest.mark.parametrize("done", [False, True])
def test_a_fault_before_an_effect_prevents_it_and_one_after_it_hides_it(done: bool) -> None:
    made = storage()

    def fault(step: Step) -> None:
        if step == Step("put", "a", done):
            raise Lost

    made.hook = fault
    with pytest.raises(Lost):
        made.put("a", b"1")
    assert (made.get("a") is not None) == done


def test_an_etag_is_never_given_twice_for_the_same_bytes() -> None:
    made = storage()
    outcomes = [made.put("a", b"same") for _ in range(3)]
    assert len({outcome.etag for outcome in outcomes if isinstance(outcome, Written)}) == 3


def test_a_store_that_ignores_conditions_answers_success_and_says_what_it_is() -> None:
    made = storage(ignore_conditions=True)
    made.put("a", b"1")
    assert isinstance(made.put("a", b"2", if_absent=True), Written)
    assert isinstance(made.put("a", b"3", if_match="wrong"), Written)
    assert made.delete("a", if_match="wrong") is True
    assert made.get("a") is None
    assert made.capabilities() == Capabilities(conditional_put=False, conditional_delete=False)


def test_a_store_may_ignore_the_condition_of_a_delete_alone() -> None:
    made = storage(ignore_delete_conditions=True)
    made.put("a", b"1")
    assert not isinstance(made.put("a", b"2", if_absent=True), Written)
    assert made.delete("a", if_match="wrong") is True
    assert made.capabilities() == Capabilities(conditional_put=True, conditional_delete=False)
