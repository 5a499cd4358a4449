"""Writes to the lake that fail before or after their effect: what was committed is there exactly once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from singerlake.errors import UnknownOutcomeError
from singerlake.stores.port import Loaded
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import MemoryStorage, Step
from tests.stores.stores import ON_THE_LAKE, Place


@pytest.fixture(params=ON_THE_LAKE)
def place(request: pytest.FixtureRequest) -> Place:
    return Place(request.param)


def faults(storage: MemoryStorage, *, done: bool, times: int) -> None:
    """Lets the next writes to the store's own objects fail, before their effect or after it."""
    left: Iterator[int] = iter(range(times))

    def hook(step: Step) -> None:
        if step.operation == "put" and step.done is done and next(left, None) is not None:
            raise UnknownOutcomeError("no answer", key=step.key)

    storage.hook = hook


@pytest.mark.parametrize("done", [False, True], ids=["before its effect", "after its effect"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_commit_whose_reply_is_lost_is_there_exactly_once(place: Place, done: bool, times: int) -> None:
    base = place.born()
    faults(place.storage, done=done, times=times)
    outcome = place.commit(base, add(new_file("a")))
    assert isinstance(outcome, Loaded)
    assert place.listed() == ["a"]


def test_a_refusal_that_answers_one_s_own_success_counts_as_success(place: Place) -> None:
    base = place.born()
    original = place.storage.put

    def retried(key: str, body: bytes, **conditions: object) -> object:
        original(key, body, **conditions)  # type: ignore[arg-type]
        return original(key, body, **conditions)  # type: ignore[arg-type]

    place.storage.put = retried  # type: ignore[method-assign,assignment]
    outcome = place.committed(base, add(new_file("a")))
    assert place.listed() == ["a"]
    place.committed(outcome, add(new_file("b")))
    assert place.listed() == ["a", "b"]


def test_an_outcome_that_cannot_be_known_is_an_error_of_its_own(place: Place) -> None:
    base = place.born()
    faults(place.storage, done=False, times=1000)
    with pytest.raises(UnknownOutcomeError):
        place.commit(base, add(new_file("a")), attempts=5)
    place.storage.hook = lambda step: None
    assert place.listed() == []
