"""Dropping a stream through whichever manifest store keeps it: nothing goes that is not named, no writer loses what it
commits later."""

from __future__ import annotations

import itertools
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import (
    CommitRefusedError,
    LostBookmarkError,
    LostStateError,
    SingerlakeError,
    StreamClosedError,
)
from singerlake.format import layout
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Close, RetireFiles
from singerlake.upkeep.drop import Drop, delete_now, drop_stream
from singerlake.upkeep.gc.apply import collect_stream
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from tests.storage.memory import Step
from tests.stores.stores import KINDS, ON_THE_LAKE, Place, make_place
from tests.upkeep.gc.test_stores import collect, days, dump, is_there, orphan
from tests.upkeep.migrate.moving import Killed, a_file, at, kill_at, unanswered, writer_of
from tests.upkeep.vacuum.test_stores import PREFIX, add, begun, is_sound, messages, vacuum

pytestmark = pytest.mark.in_turn("place")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Place:
    return make_place(request.param, request)


def drop(place: Place, *, dry_run: bool = False) -> Drop:
    return drop_stream(place.context(), dry_run=dry_run)


def is_empty(manifest: Manifest) -> bool:
    return not (manifest.versions or manifest.schemas or manifest.files)


def test_a_dropped_stream_is_empty_to_readers_and_its_files_go_a_grace_time_apart(place: Place) -> None:
    before = begun(place)
    key = orphan(place)
    done = drop(place)
    assert (done.files.files, done.records, done.unlisted.files, done.left) == (5, 20, 1, ())
    assert set(done.keys) == {key, *(PREFIX + file.path for file in before.files)}
    assert is_empty(place.state())
    assert is_empty(place.lake.stream("t", "s").snapshot())
    assert is_sound(place)
    assert all(is_there(place, file) for file in before.files)
    for _ in range(3):
        collect(place)
        assert place.storage.head(key) is None or all(is_there(place, file) for file in before.files)
        days(place, 8)
    assert not any(is_there(place, file) for file in before.files)
    assert place.storage.head(key) is None
    assert not place.state().retired


def test_a_dry_run_changes_nothing_and_says_the_same(place: Place) -> None:
    begun(place)
    vacuum(place)
    add(place, 2)
    orphan(place)
    before, objects = place.state(), dump(place)
    told = drop(place, dry_run=True)
    assert (place.state(), dump(place)) == (before, objects)
    made = drop(place)
    assert (told.files, told.records, told.unlisted, told.keys) == (made.files, made.records, made.unlisted, made.keys)
    # What a vacuum replaced goes, too.
    assert len(told.keys) == 1 + 2 + 5 + 1


def test_a_second_drop_finds_nothing_and_changes_nothing(place: Place) -> None:
    begun(place)
    drop(place)
    before = place.state()
    assert drop(place).after is None
    assert place.state() == before


def test_a_stream_without_state_and_files_is_nothing_to_drop(place: Place) -> None:
    assert drop(place) == Drop()
    assert place.store().load() is None


def test_a_stream_that_lost_its_state_is_refused(place: Place) -> None:
    orphan(place)
    with pytest.raises(LostStateError, match="data files and no state; run 'singerlake rebuild' first"):
        drop(place)


def test_a_stream_on_its_way_to_another_store_is_refused(place: Place) -> None:
    begun(place)
    loaded = place.store().load()
    assert loaded is not None
    place.committed(loaded, Close(successor="log" if place.kind != "log" else "lockfile"))
    before = place.state()
    with pytest.raises(StreamClosedError):
        drop(place)
    assert place.state() == before


def test_a_stream_begins_anew_after_it(place: Place) -> None:
    before = begun(place)
    drop(place)
    after = add(place, 2)
    assert [file.offset for file in after.files] == [0, 4]
    assert after.lineage != before.lineage
    assert len(after.retired) == 5
    text = messages(place)
    for _ in range(4):
        collect(place)
        days(place, 8)
    assert messages(place) == text
    assert is_sound(place)
    stream = place.lake.stream("t", "s")
    with pytest.raises(LostBookmarkError, match="rebuilt or dropped since"):
        stream.resume(stream.snapshot(), Bookmark(lineage=before.lineage, offset=2, file=before.files[0].id, line=2))


def test_its_files_are_there_for_a_rebuild_until_they_are_collected(place: Place) -> None:
    before = begun(place)
    text = messages(place)
    drop(place)
    repair_stream(place.context(), RepairOptions(discard=True))
    assert messages(place) == text
    assert [file.id for file in place.state().files] == [file.id for file in before.files]
    assert is_sound(place)


def test_delete_now_leaves_none_of_its_files(place: Place) -> None:
    begun(place)
    vacuum(place)
    orphan(place)
    foreign = PREFIX + "notes.txt"
    place.storage.put(foreign, b"mine")
    done = drop(place)
    deleted = delete_now(place.context())
    assert set(deleted.keys) == set(done.keys)
    assert deleted.deleted.files == 7
    left = [each.key for each in place.storage.list(PREFIX) if not each.key.startswith(PREFIX + layout.LOG)]
    assert {*left} <= {PREFIX + layout.MANIFEST, foreign}
    assert foreign in left
    state = place.state()
    assert is_empty(state)
    assert all(file.deleted for file in state.retired)
    add(place, 1)
    assert is_sound(place)


# Beside others


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_writer_that_commits_at_any_step_is_dropped_whole_or_kept_whole(kind: str, tmp_path: Path) -> None:
    kept = gone = 0
    for number in itertools.count():
        place = Place(kind)
        begun(place, 2)
        writer = writer_of(place)
        writer.open()
        upload = a_file(place, tmp_path)

        def publish(writer: Any = writer, upload: Any = upload) -> None:
            writer.publish(upload.spool, upload.file, upload.schema)

        met = at(place, number, publish)
        drop(place)
        place.storage.hook = lambda _: None
        if not met:
            break
        state, id = place.state(), upload.file.id
        assert (id in state.by_id) != (id in state.retired_by_id), (number, met)
        assert is_sound(place)
        kept, gone = kept + (id in state.by_id), gone + (id in state.retired_by_id)
        for _ in range(3):
            collect(place)
            days(place, 8)
        assert is_there(place, upload.file) == (id in state.by_id), number  # type: ignore[arg-type]
        assert is_sound(place)
    assert kept
    assert gone


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_drop_at_any_step_of_a_writer_never_takes_what_it_acknowledges_later(kind: str, tmp_path: Path) -> None:
    reasons = []
    for number in itertools.count():
        place = Place(kind)
        begun(place, 2)
        writer = writer_of(place)
        writer.open()
        upload = a_file(place, tmp_path)
        met = at(place, number, lambda place=place: drop(place))
        try:
            writer.publish(upload.spool, upload.file, upload.schema)
        except CommitRefusedError as error:
            # Its file was on storage and listed nowhere: it was dropped, and its STATE never goes out.
            reasons.append(str(error))
            assert upload.file.id in place.state().retired_by_id
        place.storage.hook = lambda _: None
        if not met:
            break
        state, id = place.state(), upload.file.id
        assert (id in state.by_id) != (id in state.retired_by_id), (number, met)
        assert is_sound(place)
    # Both ways are met.
    assert reasons
    assert all("upload it again under a new id" in reason for reason in reasons)


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_drop_that_was_killed_at_any_step_is_ended_by_the_next(kind: str) -> None:
    for number in itertools.count():
        place = Place(kind)
        before = begun(place, 2)
        orphan(place)
        kill_at(place, number)
        try:
            drop(place)
        except Killed:
            place.storage.hook = lambda _: None
        else:
            place.storage.hook = lambda _: None
            break
        state = place.state()
        assert is_empty(state) or state.files == before.files, number
        place.clock.sleep(1000)
        drop(place)
        assert is_empty(place.state()), number
        assert len(place.state().retired) == 3, number
        assert is_empty(place.lake.stream("t", "s").snapshot()), number
    assert number > 3


@pytest.mark.crossed("kind", "operation")
@pytest.mark.parametrize("finished", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("operation", ["put", "get", "list"])
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_request_without_answer_leaves_it_whole_or_dropped(kind: str, operation: str, finished: bool) -> None:
    for number in itertools.count():
        place = Place(kind)
        before = begun(place, 2)
        failed = unanswered(place, number, operation, finished=finished)
        try:
            drop(place)
        except SingerlakeError:
            place.storage.hook = lambda _: None
            state = place.state()
            assert is_empty(state) or state.files == before.files, number
            drop(place)
        place.storage.hook = lambda _: None
        state = place.state()
        assert is_empty(state), number
        assert set(state.retired_by_id) == {file.id for file in before.files}, number
        # It was dropped once: a second life would have another lineage each time.
        assert [run.kind for run in state.runs] == ["drop"]
        if not failed:
            break


def test_a_collector_at_work_meanwhile_does_no_harm(place: Place) -> None:
    begun(place)
    vacuum(place)
    collect(place)
    days(place, 8)
    met: list[Step] = []

    def collecting(step: Step) -> None:
        if step.operation == "list" and step.done and not met:
            met.append(step)
            collect(place)

    place.storage.hook = collecting
    drop(place)
    place.storage.hook = lambda _: None
    assert met
    state = place.state()
    assert is_empty(state)
    assert len(state.retired) == 6
    for _ in range(3):
        collect(place)
        days(place, 8)
    assert not place.state().retired
    assert not any(each.key.endswith(".gz") for each in place.storage.list(PREFIX))


def test_what_is_retired_already_needs_no_drop_to_be_collected(place: Place) -> None:
    loaded = place.born()
    place.committed(loaded, RetireFiles(files=(("x", "x/x"),)))
    assert drop(place).after is None
    assert collect_stream(place.context(), grace=timedelta(0), delete=True).plan.shown == ("x",)


def test_a_kept_schema_goes_and_one_that_was_written_since_stays(place: Place) -> None:
    begun(place)
    version = place.state().files[-1].version
    key = PREFIX + layout.schema_path(version)
    place.storage.put(key, b"{}")
    changed: list[Step] = []

    def change(step: Step) -> None:
        # After the drop has looked, and before it deletes.
        if step.operation == "list" and step.key == PREFIX and step.done and not changed:
            changed.append(step)
            place.storage.put(key, b'{"newer": 1}')

    place.storage.hook = change
    assert [each.key for each in drop(place).schemas] == [key]
    place.storage.hook = lambda _: None
    assert changed
    assert place.storage.head(key) is not None
    assert drop(place).schemas
    assert place.storage.head(key) is None
