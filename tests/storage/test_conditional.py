"""Replacing an object that nobody else may have changed meanwhile."""

from __future__ import annotations

import pytest

from singerlake.errors import TooManyConflictsError
from singerlake.storage.conditional import replace_if_unchanged, replace_what_was_seen
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


def operations(place: MemoryStorage) -> list[str]:
    """Gets what is asked for from now on."""
    asked: list[str] = []
    place.hook = lambda step: None if step.done else asked.append(step.operation)
    return asked


@pytest.mark.parametrize("there", [None, b"old"])
def test_what_is_still_as_it_was_seen_is_not_read_again(there: bytes | None) -> None:
    place = storage()
    if there is not None:
        place.put("k", there)
    seen = place.get("k")
    asked = operations(place)
    assert replace_what_was_seen(place, "k", longer, seen)
    assert asked == ["put"]
    assert body_of(place) == (there or b"") + b"x"


@pytest.mark.parametrize("options", [{}, {"ignore_conditions": True}, {"refuse_conditions": True}])
@pytest.mark.parametrize("there", [None, b"old"])
def test_what_somebody_else_wrote_since_is_changed_in_its_turn(there: bytes | None, options: dict[str, bool]) -> None:
    place = storage(**options)
    if there is not None:
        place.put("k", there)
    seen = place.get("k")
    place.put("k", b"new")
    assert replace_what_was_seen(place, "k", longer, seen)
    assert body_of(place) == b"newx"


def test_what_would_not_change_is_looked_at_before_it_is_left() -> None:
    place = storage()
    place.put("k", b"done")
    seen = place.get("k")
    place.put("k", b"undone")

    def finished(stored: Stored | None) -> bytes | None:
        return None if stored is not None and stored.body == b"done" else b"done"

    assert replace_what_was_seen(place, "k", finished, seen)
    assert body_of(place) == b"done"
    assert not replace_what_was_seen(place, "k", finished, place.get("k"))
    assert not replace_what_was_seen(place, "k", lambda _: b"done", place.get("k"))


@pytest.mark.parametrize("options", [{}, {"ignore_conditions": True}, {"refuse_conditions": True}])
def test_what_was_removed_since_it_was_seen_is_not_there_for_the_change(options: dict[str, bool]) -> None:
    place = storage(**options)
    place.put("k", b"old")
    seen = place.get("k")
    place.delete("k")
    assert replace_what_was_seen(place, "k", longer, seen)
    assert body_of(place) == b"x"


def body_of(place: MemoryStorage) -> bytes:
    found = place.get("k")
    assert found is not None
    return found.body
