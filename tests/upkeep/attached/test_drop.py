"""Dropping streams with attached files at every manifest store."""

from __future__ import annotations

import pytest

from singerlake.format.state.features import features_of
from tests.stores.stores import Place
from tests.upkeep.attached.photos import begun, key, retired, stored
from tests.upkeep.erase.erasing import erase
from tests.upkeep.gc.test_stores import collect, days
from tests.upkeep.test_drop_stream import drop
from tests.upkeep.vacuum.test_stores import is_sound, vacuum

pytestmark = pytest.mark.in_turn("place")


def test_all_photos_go_listed_or_not(place: Place) -> None:
    begun(place)
    erase(place, 1)
    vacuum(place)
    place.storage.put(key("h"), b"h")
    dry = drop(place, dry_run=True)
    done = drop(place)
    assert (done.attached, done.keys, done.left) == (dry.attached, dry.keys, ())
    assert (done.attached.files, done.attached.bytes) == (5, 5)
    assert {key(name) for name in "abcdh"} < set(done.keys)
    assert retired(place) == dict.fromkeys("abcdh", "retired")
    assert is_sound(place)
    state = place.state()
    assert (features_of(state), state.files) == (("attached",), [])
    for _ in range(2):
        collected = collect(place)
        days(place, 8)
    assert collected.deleted_attached.files == 5
    assert stored(place) == []
    days(place, 8)
    collect(place)
    assert retired(place) == {}


def test_how_far_the_collection_of_a_photo_was_stays(place: Place) -> None:
    begun(place)
    erase(place, 1)
    collect(place)
    days(place, 8)
    collect(place)
    drop(place)
    assert retired(place) == {"a": "retired", "b": "deleted", "c": "retired", "d": "retired"}
