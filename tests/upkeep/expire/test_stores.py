"""Expiring messages through whichever manifest store keeps the stream."""

from __future__ import annotations

from datetime import timedelta

import pytest

from singerlake.errors import ExpiredMessagesError, LostStateError, SettingError, StreamClosedError
from singerlake.format.lines.times import known_span
from singerlake.format.metadata.retention import Retention
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.features import features_of
from singerlake.format.state.selection import first_offset, offset_left
from singerlake.format.state.transactions import Close
from singerlake.upkeep.drop import drop_stream
from singerlake.upkeep.gc.apply import collect_now
from singerlake.upkeep.gc.expire import Cut, Expired, expire_messages
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from tests.stores.stores import KINDS, Place, make_place
from tests.upkeep.expire.expiring import expire, messages, problems, published
from tests.upkeep.gc.test_stores import collect, days, dump, is_there, orphan
from tests.upkeep.shelf import OTHER
from tests.upkeep.vacuum.test_stores import PREFIX, add, begun, vacuum

pytestmark = pytest.mark.in_turn("place")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Place:
    return make_place(request.param, request)


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


def test_manifest_json_says_so_at_once(place: Place) -> None:
    begun(place)
    expire(place, 8)
    assert published(place) == place.state() == place.lake.stream("t", "s").snapshot()
    assert (published(place).floor, features_of(published(place))) == (8, ("expired",))


def test_a_dry_run_changes_nothing_and_says_the_same(place: Place) -> None:
    begun(place)
    before, objects = place.state(), dump(place)
    told = expire(place, 8, dry_run=True)
    assert (place.state(), dump(place)) == (before, objects)
    made = expire(place, 8)
    assert (told.files, told.records, told.floor, told.keys) == (made.files, made.records, made.floor, made.keys)


def test_a_second_time_there_is_nothing_to_expire(place: Place) -> None:
    begun(place)
    expire(place, 8)
    before, objects = place.state(), dump(place)
    for again in (0, 3, 8, 11):
        done = expire(place, again)
        assert (done.files.files, done.floor, done.keys) == (0, 8, ())
    assert (place.state(), dump(place)) == (before, objects)
    assert expire(place, 12).floor == 12


def test_after_all_has_expired_a_capture_goes_on_with_offsets_versions_and_labels(place: Place) -> None:
    begun(place, 2)
    before = add(place, 1, OTHER)
    done = expire(place, before.next_offset)
    assert (done.files.files, done.floor) == (3, 12)
    empty = place.state()
    assert (len(empty.files), empty.next_offset, empty.floor) == (0, 12, 12)
    assert problems(place) == []
    for _ in range(4):
        collect(place)
        days(place, 8)
    assert not any(each.key.endswith(".gz") for each in place.storage.list(PREFIX))
    after = add(place, 2)
    assert [file.offset for file in after.files] == [12, 16]
    assert (after.lineage, after.versions) == (before.lineage, before.versions)
    assert [each.first_offset for each in after.schemas.values()] == [0, 8]
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


def test_by_age_it_is_the_last_message_of_each_file_that_counts(place: Place) -> None:
    begun(place, 2)
    days(place, 10)
    add(place, 2)
    days(place, 5)
    cut = Cut(retention=Retention(older_than="12d"), now=place.clock.now())
    spans = [known_span(file.first, file.last) for file in place.state().files]
    assert None not in spans
    done = expire_messages(place.context(), cut, dry_run=False)
    assert (done.files.files, done.floor, done.undated) == (2, 8, None)
    assert expire_messages(place.context(), cut, dry_run=False).files.files == 0


def test_an_offset_beyond_the_end_is_refused(place: Place) -> None:
    begun(place, 1)
    before = place.state()
    with pytest.raises(SettingError, match="offset 5 is beyond the stream's end, 4"):
        expire(place, 5)
    assert place.state() == before


def test_a_stream_that_is_not_there_has_nothing_to_expire(place: Place) -> None:
    assert expire(place, 0) == Expired()
    assert place.store().load() is None
    place.born()
    assert expire(place, 0) == Expired()


def test_a_stream_that_lost_its_state_is_refused(place: Place) -> None:
    orphan(place)
    with pytest.raises(LostStateError, match="data files and no state; run 'singerlake rebuild' first"):
        expire(place, 0)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_stream_on_its_way_to_another_store_is_refused(place: Place, dry_run: bool) -> None:
    begun(place)
    loaded = place.store().load()
    assert loaded is not None
    place.committed(loaded, Close(successor="log" if place.kind != "log" else "lockfile"))
    before = place.state()
    with pytest.raises(StreamClosedError):
        expire(place, 8, dry_run=dry_run)
    assert place.state() == before


# With what else maintains a stream


def test_what_a_vacuum_joined_expires_as_a_whole_and_all_of_its_files_are_collected(place: Place) -> None:
    before = begun(place)
    vacuum(place)
    assert expire(place, 19).files.files == 0
    done = expire(place, 20)
    (joined,) = done.keys
    assert len(done.ids) == 6
    for _ in range(4):
        assert not [finding for finding in collect(place).findings if finding.problem]
        days(place, 8)
    assert not any(is_there(place, file) for file in before.files)
    assert place.storage.head(joined) is None
    assert not place.state().retired


def test_what_was_joined_twice_is_collected_too(place: Place) -> None:
    begun(place, 3)
    vacuum(place)
    add(place, 3)
    vacuum(place)
    text = messages(place)
    kept = add(place, 1).files[-1]
    expire(place, 24)
    assert sorted(messages(place)) == [24, 25, 26, 27]
    assert len(text) == 24
    for _ in range(5):
        assert not [finding for finding in collect(place).findings if finding.problem]
        days(place, 8)
    assert [each.key for each in place.storage.list(PREFIX) if each.key.endswith(".gz")] == [PREFIX + kept.path]
    assert not place.state().retired


def test_a_vacuum_joins_what_is_left(place: Place) -> None:
    begun(place)
    expire(place, 8)
    text = messages(place)
    assert vacuum(place).into.files == 1
    (file,) = place.state().files
    assert (file.offset, file.messages) == (8, 12)
    assert messages(place) == text
    assert problems(place) == []
    assert expire(place, 19).files.files == 0
    assert expire(place, 20).floor == 20


def test_delete_now_takes_what_expired_and_what_a_vacuum_had_made_it_of(place: Place) -> None:
    before = begun(place, 3)
    vacuum(place)
    after = add(place, 2)
    other = orphan(place)
    done = expire(place, 12)
    collected = collect_now(place.context(), frozenset(done.ids))
    assert collected.deleted.files == 4
    left = {each.key for each in place.storage.list(PREFIX) if each.key.endswith(".gz")}
    assert left == {other, *(PREFIX + file.path for file in after.files[1:])}
    assert not any(is_there(place, file) for file in before.files)
    assert all(file.deleted for file in place.state().retired)
    # The orphan is told of, and stays.
    assert len(problems(place)) == 1


def test_what_expired_is_collected_beside_what_was_dropped(place: Place) -> None:
    begun(place, 3)
    expire(place, 4)
    drop_stream(place.context(), dry_run=False)
    assert (place.state().floor, place.state().next_offset) == (0, 0)
    after = add(place, 2)
    assert [file.offset for file in after.files] == [0, 4]
    assert expire(place, 4).floor == 4
    for _ in range(4):
        assert not [finding for finding in collect(place).findings if finding.problem]
        days(place, 8)
    assert len([each for each in place.storage.list(PREFIX) if each.key.endswith(".gz")]) == 1
    assert not place.state().retired


def test_a_repair_keeps_the_floor_and_lists_no_expired_file(place: Place) -> None:
    begun(place)
    expire(place, 8)
    before, text = place.state(), messages(place)
    for adopt in (False, True):
        repaired = repair_stream(place.context(), RepairOptions(adopt=adopt))
        assert repaired.findings == ()
        assert place.state().files == before.files
        assert features_of(place.state()) == ("expired",)
    assert messages(place) == text


def test_a_rebuild_from_files_alone_lists_what_is_not_collected_yet_and_it_expires_again(place: Place) -> None:
    before = begun(place)
    text = messages(place)
    expire(place, 8)
    repair_stream(place.context(), RepairOptions(discard=True))
    state = place.state()
    assert messages(place) == text
    assert (state.floor, features_of(state)) == (0, ())
    assert state.lineage != before.lineage
    assert expire(place, 8).floor == 8
    for _ in range(4):
        collect(place)
        days(place, 8)
    repair_stream(place.context(), RepairOptions(discard=True))
    assert list(messages(place).values()) == [text[offset] for offset in range(8, 20)]
    assert (place.state().floor, place.state().next_offset) == (0, 12)
    assert problems(place) == []


def test_a_collector_without_grace_takes_no_file_that_is_left(place: Place) -> None:
    begun(place)
    text = messages(place)
    expire(place, 8)
    for _ in range(4):
        collect(place, grace=timedelta(0), orphans=True)
    assert messages(place) == {offset: line for offset, line in text.items() if offset >= 8}
    assert problems(place) == []
