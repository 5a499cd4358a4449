"""Erasing before, after and while collectors, rebuilds, drops and migrations are at work on the same stream."""

from __future__ import annotations

import itertools

import pytest

from singerlake.errors import ForeignManifestError, LostBookmarkError, StreamClosedError
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.features import features_of
from tests.stores.stores import KINDS, Place
from tests.upkeep.erase.erasing import (
    check,
    erase,
    erase_alone,
    place_of,
    read,
)
from tests.upkeep.gc.test_stores import collect, days, is_there
from tests.upkeep.migrate.moving import LAKE_PAIRS, PAIRS, at, content, lives_in, migrate, newest
from tests.upkeep.test_drop_stream import drop
from tests.upkeep.vacuum.test_stores import PREFIX, add, begun, messages, vacuum

pytestmark = pytest.mark.in_turn("place")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Place:
    return place_of(request.param, request)


# Collection


def test_nothing_is_deleted_whose_replacement_with_holes_is_not_whole(place: Place) -> None:
    before = begun(place, 2)
    erase(place, 1)
    collect(place)
    days(place, 8)
    (file, _) = place.state().files
    place.storage.put(PREFIX + file.path, b"x" * file.bytes)
    done = collect(place)
    assert [finding.kind for finding in done.findings] == ["differs"]
    assert is_there(place, before.files[0])


# Rebuild


# Drop


def test_a_stream_that_begins_anew_after_a_drop_is_erased_from(place: Place) -> None:
    before = begun(place, 2)
    erase(place, 1)
    drop(place)
    add(place, 2)
    text = messages(place)
    erase(place, 2)
    check(place, text, 2)
    stream = place.lake.stream("t", "s")
    with pytest.raises(LostBookmarkError):
        stream.resume(stream.snapshot(), Bookmark(lineage=before.lineage, offset=2, file=before.files[0].id, line=2))


# Migration


@pytest.mark.crossed("source", "target")
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_stream_with_holes_is_moved_as_it_is(source: str, target: str, request: pytest.FixtureRequest) -> None:
    place = lives_in(source, target, request=request)
    begun(place)
    text = messages(place)
    erase(place, 1)
    before = place.state()
    migrate(place, target)
    after = newest(place)
    assert (after.store, features_of(after), content(after)) == (target, ("erased",), content(before))
    place.kind = target
    assert place.state() == after
    check(place, text, 1)
    erase(place, 2, 9)
    vacuum(place)
    erase(place, 10)
    check(place, text, 1, 2, 9, 10)
    assert [offset for offset, _ in read(place.lake)] == [n for n in range(20) if n not in (1, 2, 9, 10)]


@pytest.mark.crossed("source", "target")
@pytest.mark.parametrize(("source", "target"), LAKE_PAIRS)
def test_a_migration_at_any_step_stops_an_erasure_and_a_new_one_ends_it(
    source: str, target: str, request: pytest.FixtureRequest, stride: int
) -> None:
    stopped = 0
    for number in itertools.count(0, stride):
        place = lives_in(source, target, request=request)
        begun(place, 3)
        text = messages(place)
        met = at(place, number, lambda place=place: migrate(place, target))
        try:
            erase_alone(place, 1, 9)
        except (StreamClosedError, ForeignManifestError):
            # The old store says where the stream goes on, or has nothing of it any more.
            stopped += 1
        place.storage.hook = lambda _: None
        if not met:
            break
        place.kind = target
        erase(place, 1, 9)
        check(place, text, 1, 9)
    assert stopped
