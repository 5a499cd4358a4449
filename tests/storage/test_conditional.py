"""Replacing an object that nobody else may have changed meanwhile."""

from __future__ import annotations

import pytest

from singerlake.errors import TooManyConflictsError
from singerlake.storage.conditional import replace_if_unchanged
from singerlake.storage.port import Stored
from tests.fakes import FakeClock, counting_ids
from tests.storage.memory import MemoryStorage, Step


def storage(**options: bool) -> MemoryStorage:
    return MemoryStorage(clock=FakeClock(), ids=counting_ids(), **options)


def longer(stored: Stored | None) -> bytes:
    return (stored.body if stored else b"") + b"x"


@pytest.mark.parametrize("options", [{}, {"ignore_conditions": True}, {"refuse_conditions": True}])
def test_an_object_is_made_changed_and_left(options: dict[str, bool]) -> None:
    place = storage(**options)
    assert replace_if_unchanged(place, "k", longer)
    assert replace_if_unchanged(place, "k", longer)
    assert not replace_if_unchanged(place, "k", lambda _: None)
    assert not replace_if_unchanged(place, "k", lambda _: b"xx")
    found = place.get("k")
    assert found is not None
    assert found.body == b"xx"


def test_a_change_is_made_again_of_what_somebody_else_left() -> None:
    place, rivals = storage(), [b"1", b"2"]

    def rival(step: Step) -> None:
        if step == Step("get", "k", True) and rivals:
            place.put("k", rivals.pop(0))

    place.hook = rival
    assert replace_if_unchanged(place, "k", longer)
    found = place.get("k")
    assert found is not None
    assert found.body == b"2x"


def test_who_never_comes_first_gives_up_and_changes_nothing() -> None:
    place = storage()
    made: list[Stored | None] = []

    def rival(step: Step) -> None:
        if step == Step("get", "k", True):
            place.put("k", b"%d" % len(made))

    def change(stored: Stored | None) -> bytes:
        made.append(stored)
        return longer(stored)

    place.hook = rival
    with pytest.raises(TooManyConflictsError):
        replace_if_unchanged(place, "k", change, attempts=3)
    place.hook = lambda _: None
    found = place.get("k")
    assert found is not None
    assert (found.body, len(made)) == (b"2", 3)
