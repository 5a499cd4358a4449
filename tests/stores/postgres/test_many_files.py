"""Where a stream in PostgreSQL lists many files: what is read from where, and what happens if that is not there."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec
import pytest

from singerlake.clock import random_id
from singerlake.errors import CorruptObjectError
from singerlake.format import layout
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.manifest import to_json
from singerlake.format.state.model import Manifest, Position
from singerlake.format.state.transactions import Rebase, ReplaceFiles, RetireFiles
from singerlake.stores.port import Loaded
from singerlake.stores.postgres import newest
from singerlake.stores.segments.stored import named_in
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from tests.format.state.test_fold import add, new_file
from tests.stores.postgres.place import PostgresPlace, consistent, place
from tests.stores.segments.sizes import few_files_make_segments

__all__ = ["few_files_make_segments", "place"]
KEY = layout.manifest_key("t", "s")
SEGMENTS = layout.segments_prefix("t", "s")
SPOILED = "UPDATE file_references SET body = '{}' WHERE table_id = %s"


def filled(place: PostgresPlace, files: int = 11) -> Loaded:
    """A stream whose published state has segments."""
    base = place.committed(place.born(), *(add(new_file(f"f{number:02}", 2)) for number in range(files)))
    place.store().publish(base, run_ended=True)
    assert named_in(published_body(place))
    return base


def published_body(place: PostgresPlace) -> bytes:
    stored = place.storage.get(KEY)
    assert stored is not None
    return stored.body


def keys_of_segments(place: PostgresPlace) -> list[str]:
    return [entry.key for entry in place.storage.list(SEGMENTS)]


def in_rows(place: PostgresPlace, manifest: Manifest) -> list[Segment]:
    """The segments that are no objects."""
    stored = keys_of_segments(place)
    return [each for each in manifest.files.segments if layout.segment_key("t", "s", each.name) not in stored]


def test_no_row_of_a_file_is_read_where_the_state_is_published(place: PostgresPlace) -> None:
    base = filled(place)
    base = place.committed(base, add(new_file("later")), RetireFiles(files=(("o", "x/o"),)))
    place.change(SPOILED)
    assert place.state() == base.manifest
    after = place.committed(place.store().load() or base, add(new_file("more")))
    assert place.state() == after.manifest
    assert place.listed()[-2:] == ["later", "more"]


def test_a_file_that_was_listed_long_ago_is_not_listed_again(place: PostgresPlace) -> None:
    base = filled(place)
    place.change(SPOILED)
    again = place.store().load()
    assert again == base
    assert again is not None
    assert place.commit(again, add(new_file("f00", 2))) == base
    assert place.listed().count("f00") == 1


def of_another_lineage(place: PostgresPlace, shown: Manifest) -> None:
    place.storage.put(KEY, to_json(msgspec.structs.replace(shown, lineage="other")))


def of_another_transaction(place: PostgresPlace, shown: Manifest) -> None:
    place.storage.put(KEY, to_json(msgspec.structs.replace(shown, transaction=Position(shown.transaction.number, "x"))))


def of_later(place: PostgresPlace, shown: Manifest) -> None:
    """A backup of the database was restored."""
    place.storage.put(KEY, to_json(msgspec.structs.replace(shown, transaction=Position(99, "x"))))


def of_another_store(place: PostgresPlace, shown: Manifest) -> None:
    place.storage.put(KEY, to_json(msgspec.structs.replace(shown, store="log", closed="postgres")))


def of_another_version(place: PostgresPlace, shown: Manifest) -> None:
    place.storage.put(KEY, to_json(msgspec.structs.replace(shown, versions={**shown.versions, "other": "2"})))


def lost(place: PostgresPlace, _: Manifest) -> None:
    place.storage.delete(KEY)


def damaged(place: PostgresPlace, _: Manifest) -> None:
    place.storage.put(KEY, published_body(place)[:-9])


def behind_a_trim(place: PostgresPlace, _: Manifest) -> None:
    place.change("DELETE FROM transactions WHERE table_id = %s")


def behind_what_cannot_be_read(place: PostgresPlace, _: Manifest) -> None:
    place.change("UPDATE transactions SET body = '{}' WHERE table_id = %s")


def behind_a_whole_state(place: PostgresPlace, _: Manifest) -> None:
    place.change("UPDATE transactions SET body = NULL WHERE table_id = %s")


UNUSABLE = [of_another_lineage, of_another_transaction, of_later, of_another_store, of_another_version, lost, damaged,
    behind_a_trim, behind_what_cannot_be_read, behind_a_whole_state]  # fmt: skip


@pytest.mark.parametrize("spoil", UNUSABLE)
def test_what_is_published_is_believed_only_where_it_is_of_the_rows_past(
    place: PostgresPlace, spoil: Callable[[PostgresPlace, Manifest], None]
) -> None:
    base = filled(place)
    shown = base.manifest
    base = place.committed(base, add(new_file("later")))
    spoil(place, msgspec.structs.replace(shown, files=tuple(shown.files)))
    manifest = consistent(place)
    assert manifest == base.manifest
    assert len(in_rows(place, manifest)) >= 3


@pytest.mark.parametrize(("most", "read"), [(2, False), (1, True)])
def test_far_behind_the_rows_are_read(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch, most: int, read: bool
) -> None:
    base = place.committed(filled(place), add(new_file("more")), add(new_file("later")))
    monkeypatch.setattr(newest, "_MOST_BEHIND", most)
    manifest = consistent(place)
    assert manifest == base.manifest
    assert bool(in_rows(place, manifest)) == read


def test_a_state_of_the_rows_alone_is_published_with_segments_of_its_own(place: PostgresPlace) -> None:
    base = filled(place)
    for key in (KEY, *keys_of_segments(place)):
        place.storage.delete(key)
    store = place.store()
    loaded = store.load()
    assert loaded is not None
    assert in_rows(place, loaded.manifest)
    store.publish(loaded, run_ended=True)
    named = named_in(published_body(place))
    assert named
    assert {layout.segment_key("t", "s", segment.name) for segment in named} == set(keys_of_segments(place))
    store.publish(place.committed(loaded, add(new_file("more"))), run_ended=True)
    assert named_in(published_body(place))[: len(named) - 1] == named[:-1]
    place.change(SPOILED)
    assert place.listed() == [*(file.id for file in base.manifest.files), "more"]


def test_a_state_of_the_rows_stays_as_it_was_though_they_change(place: PostgresPlace) -> None:
    base = filled(place)
    place.storage.delete(KEY)
    loaded = place.store().load()
    assert loaded is not None
    place.committed(base, ReplaceFiles(old=("f00", "f01"), new=(new_file("joined", 4),)))
    assert list(loaded.manifest.files) == list(base.manifest.files)
    assert place.listed()[:2] == ["joined", "f02"]


def test_nobody_reads_the_rows_behind_a_whole_state(place: PostgresPlace) -> None:
    base = filled(place)
    based = msgspec.structs.replace(base.manifest, lineage="new")
    after = place.committed(base, Rebase(manifest=based))
    place.change(SPOILED)
    assert place.state() == after.manifest


def test_a_segment_that_is_lost_is_read_from_the_rows_and_a_rebuild_brings_it_back(
    place: PostgresPlace, caplog: pytest.LogCaptureFixture
) -> None:
    base = filled(place)
    first, second, *_ = keys_of_segments(place)
    place.storage.delete(first)
    place.storage.put(second, b"nothing")
    with caplog.at_level(logging.WARNING):
        assert [file.id for file in place.state().files] == [file.id for file in base.manifest.files]
    assert "the database has its files" in caplog.text
    context = StreamContext(place.storage, "t", "s", place.clock, random_id, place.store())
    repair_stream(context, RepairOptions(dry_run=True))
    assert first not in keys_of_segments(place)
    place.change(SPOILED.replace("'{}'", "body"))
    repair_stream(context, RepairOptions(adopt=False))
    caplog.clear()
    place.change(SPOILED)
    assert place.state() == base.manifest
    assert list(place.state().files) == list(base.manifest.files)
    assert not caplog.records


def test_a_segment_that_neither_has_is_named(place: PostgresPlace) -> None:
    filled(place)
    first = keys_of_segments(place)[0]
    place.storage.delete(first)
    place.change(SPOILED.replace("'{}'", "replace(body, '20', '21')"))
    with pytest.raises(CorruptObjectError, match="gone") as raised:
        list(place.state().files)
    assert raised.value.context["key"] == first


def test_a_whole_new_state_changes_the_rows_that_differ(place: PostgresPlace) -> None:
    base = filled(place)
    kept = [file for file in base.manifest.files if file.id not in ("f03", "f04", "f10")]
    offset, files = 0, []
    for file in kept:
        files.append(msgspec.structs.replace(file, offset=offset))
        offset = files[-1].end
    place.change("UPDATE files SET since = 'untouched' WHERE table_id = %s AND file_id <= 'f02'")
    based = msgspec.structs.replace(base.manifest, lineage="new", files=files, next_offset=offset)
    after = place.committed(place.store().load() or base, Rebase(manifest=based))
    assert consistent(place) == after.manifest
    assert after.manifest.files == files
    untouched = place.query("SELECT file_id FROM files WHERE since = 'untouched' AND table_id = %s ORDER BY 1")
    assert untouched == [("f00",), ("f01",), ("f02",)]
