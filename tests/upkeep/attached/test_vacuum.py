"""Vacuuming streams with attached files at every manifest store."""

from __future__ import annotations

import pytest

from tests.stores.stores import Place
from tests.upkeep.attached.photos import THREE, add, begun, check, retired, stored
from tests.upkeep.erase.erasing import erase
from tests.upkeep.vacuum.test_stores import messages, vacuum

pytestmark = pytest.mark.in_turn("place")


def test_a_join_keeps_each_photo_with_its_record_and_retires_none(place: Place) -> None:
    begun(place)
    text = messages(place)
    done = vacuum(place)
    assert (done.into.files, done.findings) == (1, ())
    assert messages(place) == text
    check(place, THREE)
    assert retired(place) == {}
    assert stored(place) == ["a", "b", "c", "d"]


def test_vacuum_erasure_and_vacuum_in_turn_keep_the_right_photos(place: Place) -> None:
    begun(place)
    vacuum(place)
    erase(place, 0, 4)
    check(place, THREE, 0, 4)
    add(place, [["e"], ["b"]])
    vacuum(place)
    photos = [*THREE, ["e"], ["b"]]
    check(place, photos, 0, 4)
    erase(place, 3, 6)
    check(place, photos, 0, 3, 4, 6)
    assert set(retired(place)) == {"a", "c", "d", "e"}
