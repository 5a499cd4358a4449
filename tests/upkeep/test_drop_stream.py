"""Dropping a stream through whichever manifest store keeps it: nothing goes that is not named, no writer loses what it
commits later."""

from __future__ import annotations

import pytest

from singerlake.errors import (
    LostBookmarkError,
    StreamClosedError,
)
from singerlake.format import layout
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Close
from singerlake.upkeep.drop import Drop, drop_stream
from tests.storage.memory import Step
from tests.stores.stores import Place
from tests.upkeep.gc.test_stores import collect, days, is_there, orphan
from tests.upkeep.vacuum.test_stores import PREFIX, add, begun, is_sound, messages

pytestmark = pytest.mark.in_turn("place")


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


def test_a_stream_on_its_way_to_another_store_is_refused(place: Place) -> None:
    begun(place)
    loaded = place.loaded()
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


# Beside others


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
