"""Expiring messages through whichever manifest store keeps the stream."""

from __future__ import annotations

import pytest

from singerlake.errors import ExpiredMessagesError, StreamClosedError
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.features import features_of
from singerlake.format.state.selection import first_offset, offset_left
from singerlake.format.state.transactions import Close
from tests.stores.stores import Place
from tests.upkeep.expire.expiring import expire, messages, problems
from tests.upkeep.gc.test_stores import collect, days, is_there
from tests.upkeep.vacuum.test_stores import PREFIX, begun

pytestmark = pytest.mark.in_turn("place")


def test_the_first_files_are_listed_no_more_and_go_a_grace_time_apart(place: Place) -> None:
    before, text = begun(place), messages(place)
    done = expire(place, 9)
    assert (done.files.files, done.records, done.floor, done.undated) == (2, 8, 8, None)
    assert done.keys == tuple(PREFIX + file.path for file in before.files[:2])
    assert set(done.ids) == {file.id for file in before.files[:2]}
    after = place.state()
    assert (after.files, after.floor, features_of(after)) == (before.files[2:], 8, ("expired",))
    assert (after.versions, after.schemas, after.lineage) == (before.versions, before.schemas, before.lineage)
    assert messages(place) == {offset: line for offset, line in text.items() if offset >= 8}
    assert problems(place) == []
    assert all(is_there(place, file) for file in before.files)
    for _ in range(4):
        assert not [finding for finding in collect(place).findings if finding.problem]
        days(place, 8)
    assert [is_there(place, file) for file in before.files] == [False, False, True, True, True]
    assert not place.state().retired
    assert problems(place) == []


def test_bookmarks_at_the_floor_and_above_it_lead_on(place: Place) -> None:
    before = begun(place)
    expire(place, 8)
    stream = place.lake.stream("t", "s")
    state = stream.snapshot()
    for offset in (8, 10, 20):
        bookmark = Bookmark(lineage=before.lineage, offset=offset, file=before.files[1].id, line=4)
        assert offset_left(state, stream.resume(state, bookmark), skip_expired=False) == offset
    behind = Bookmark(lineage=before.lineage, offset=7, file=before.files[1].id, line=3)
    with pytest.raises(ExpiredMessagesError, match="from offset 7 to 7 expired"):
        offset_left(state, stream.resume(state, behind), skip_expired=False)
    assert first_offset(state, "v1") == 8


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_stream_on_its_way_to_another_store_is_refused(place: Place, dry_run: bool) -> None:
    begun(place)
    loaded = place.loaded()
    place.committed(loaded, Close(successor="log" if place.kind != "log" else "lockfile"))
    before = place.state()
    with pytest.raises(StreamClosedError):
        expire(place, 8, dry_run=dry_run)
    assert place.state() == before


# With what else maintains a stream
