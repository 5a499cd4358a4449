"""Expiring messages with attached files at every manifest store."""

from __future__ import annotations

import pytest

from singerlake.upkeep.gc.expire import Expired
from tests.stores.stores import Place
from tests.upkeep.attached.photos import THREE, begun, check, digest, key, retired
from tests.upkeep.expire.expiring import expire
from tests.upkeep.vacuum.test_stores import PREFIX

pytestmark = pytest.mark.in_turn("place")


def alone(done: Expired) -> tuple[int, int]:
    return done.attached.files, done.attached.bytes


def test_the_photos_that_no_younger_record_has_are_retired(place: Place) -> None:
    before = begun(place)
    told = expire(place, 2, dry_run=True)
    done = expire(place, 2)
    check(place, THREE)
    assert (done.files, done.attached, done.ids, done.keys) == (told.files, told.attached, told.ids, told.keys)
    assert retired(place) == {"b": "retired"}
    assert alone(done) == (1, 1)
    assert done.ids == (before.files[0].id, digest("b"))
    assert done.keys == (PREFIX + before.files[0].path, key("b"))
    more = expire(place, 6)
    assert (alone(more), retired(place)) == ((3, 3), dict.fromkeys("abcd", "retired"))
    assert more.keys == (*(PREFIX + file.path for file in before.files[1:]), key("a"), key("c"), key("d"))
