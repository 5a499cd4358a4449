"""A large stream in PostgreSQL some of whose segments are gone: writers go on from the rows, and readers are helped."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import quote

import msgspec
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier

from singerlake.clock import SystemClock, random_id
from singerlake.format import layout
from singerlake.format.state.files import cut
from singerlake.format.state.manifest import from_json, to_json
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Change, ExpireFiles, Rebase, ReplaceFiles
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded, Outdated
from singerlake.stores.postgres import session
from singerlake.stores.postgres.connection import PostgresSettings
from singerlake.stores.postgres.store import PostgresStore
from singerlake.stores.segments.stored import named_in, read_manifest
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import Step
from tests.stores.postgres.place import PostgresPlace, consistent, place
from tests.stores.postgres.test_many_files import KEY, filled, in_rows, keys_of_segments, published_body
from tests.stores.segments.sizes import few_files_make_segments

__all__ = ["few_files_make_segments", "place"]
JOINED = ReplaceFiles(old=("f00", "f01"), new=(new_file("j", 4),))


def shown(place: PostgresPlace) -> list[str]:
    """What readers see, who have ``manifest.json`` and its segments alone."""
    return [file.id for file in read_manifest(published_body(place), key=KEY, storage=place.storage).files]


def ids(loaded: Loaded | None) -> list[str]:
    assert loaded is not None
    return [file.id for file in loaded.manifest.files]


def lose_the_first(place: PostgresPlace) -> None:
    place.storage.delete(keys_of_segments(place)[0])


def test_a_rebuild_helps_readers_though_manifest_json_is_behind(place: PostgresPlace) -> None:
    base = place.committed(filled(place), add(new_file("later", 2)))
    lose_the_first(place)
    context = StreamContext(place.storage, "t", "s", place.clock, random_id, place.store())
    repair_stream(context, RepairOptions(dry_run=True))
    assert from_json(published_body(place), key=KEY).transaction.number == base.manifest.transaction.number - 1
    repair_stream(context, RepairOptions())
    assert shown(place) == ids(base)


def test_a_writer_that_saw_a_segment_to_be_gone_names_it_no_more(place: PostgresPlace) -> None:
    filled(place)
    lose_the_first(place)
    loaded = place.store().load()
    assert len(ids(loaded)) == 11
    assert loaded is not None
    loaded = place.committed(loaded, add(new_file("later", 2)))
    place.store().publish(loaded, run_ended=True)
    assert shown(place) == ids(loaded)


def test_a_whole_new_state_names_none_of_the_segments_before_it(place: PostgresPlace) -> None:
    """A rebuild has found the files anew. A writer came since ``manifest.json`` was written."""
    base = place.committed(filled(place), add(new_file("later", 2)))
    before = named_in(published_body(place))
    lose_the_first(place)
    files = tuple(base.manifest.files)
    place.committed(base, Rebase(manifest=msgspec.structs.replace(base.manifest, lineage="new", files=files)))
    assert from_json(published_body(place), key=KEY).lineage == "new"
    assert not {segment.name for segment in named_in(published_body(place))} & {segment.name for segment in before}
    assert shown(place) == [file.id for file in files]


def test_a_writer_whose_segment_was_collected_and_whose_rows_changed_reads_the_newest_state(
    place: PostgresPlace,
) -> None:
    writer = place.store()
    filled(place)
    old = writer.load()
    assert old is not None
    newer = place.committed(old, JOINED)
    place.store().publish(newer, run_ended=True)
    named = {layout.segment_key("t", "s", segment.name) for segment in named_in(published_body(place))}
    for key in keys_of_segments(place):
        if key not in named:
            place.storage.delete(key)
    assert ids(writer.catch_up(old)) == ids(newer)
    assert isinstance(writer.commit(old, place.transaction(add(new_file("last")))), Outdated)


def alone(place: PostgresPlace) -> PostgresPlace:
    """Its user of the database may have one connection."""
    role, parts = random_id(), conninfo_to_dict(place.url)
    with psycopg.connect(place.url, autocommit=True) as admin:
        admin.execute(SQL("CREATE ROLE {} LOGIN PASSWORD 'x' CONNECTION LIMIT 1").format(Identifier(role)))
        names = Identifier(place.schema), Identifier(role)
        admin.execute(SQL("GRANT USAGE ON SCHEMA {} TO {}").format(*names))
        admin.execute(SQL("GRANT ALL ON ALL TABLES IN SCHEMA {} TO {}").format(*names))
    where = f"host={quote(str(parts['host']), safe='')}&port={parts.get('port') or 5432}"
    return place.but(url=f"postgresql://{role}:x@/{parts['dbname']}?{where}")


def test_one_connection_is_enough_where_a_segment_is_gone(place: PostgresPlace) -> None:
    base = place.committed(filled(place), add(new_file("later", 2)))
    lose_the_first(place)
    one = alone(place)
    store = one.store()
    loaded = store.load()
    assert ids(loaded) == ids(base)
    assert loaded is not None
    after = one.committed(loaded, add(new_file("last", 2)), JOINED)
    after = one.committed(after, rebase(after.manifest))
    store.close()
    assert consistent(place) == after.manifest


def rebase(base: Manifest) -> Rebase:
    return Rebase(manifest=msgspec.structs.replace(base, lineage="new"))


def expire(base: Manifest) -> ExpireFiles:
    return ExpireFiles(before=50, lineage=base.lineage or "")


@pytest.fixture
def hurried(place: PostgresPlace, monkeypatch: pytest.MonkeyPatch) -> PostgresStore:
    """A store whose server ends a transaction that idles for a second, in real time, and that gives up then."""
    for name in ("_READ", "_WRITE"):
        monkeypatch.setattr(session, name, getattr(session, name).replace("'60s'", "'1s'"))
    where = StreamPlace(place.storage, place.tap, place.stream, SystemClock(), random_id)
    settings = PostgresSettings(url=place.url, schema=place.schema, patience_seconds=1)
    return PostgresStore(where, settings, table_id=place.table_id)


def slow(place: PostgresPlace, seconds: float) -> None:
    def wait(step: Step) -> None:
        if step.operation == "get" and "_segments" in step.key and not step.done:
            time.sleep(seconds)

    place.storage.hook = wait


@pytest.mark.parametrize(("change", "seconds"), [(rebase, 0.5), (expire, 0.2)])
def test_a_long_list_is_read_before_the_stream_s_row_is_locked(
    place: PostgresPlace, hurried: PostgresStore, change: Callable[[Manifest], Change], seconds: float
) -> None:
    filled(place, 30)
    base = hurried.load()
    assert base is not None
    slow(place, seconds)
    after = hurried.commit(base, place.transaction(change(base.manifest)))
    place.storage.hook = lambda _: None
    assert isinstance(after, Loaded)
    assert consistent(place) == after.manifest


@pytest.mark.thorough
def test_a_long_list_is_read_outside_the_transaction_that_reads_the_rows(
    place: PostgresPlace, hurried: PostgresStore
) -> None:
    """Though what was read turns out to be of no use."""
    base = place.committed(filled(place), JOINED)
    spoilt = from_json(published_body(place), key=KEY)
    spoilt = msgspec.structs.replace(spoilt, versions={**spoilt.versions, "other": "9"})
    place.storage.put(KEY, to_json(spoilt))
    slow(place, 0.6)
    loaded = hurried.load()
    place.storage.hook = lambda _: None
    assert ids(loaded) == ids(base)


def test_a_list_of_rows_that_is_cut_otherwise_is_published_a_few_files_at_a_time(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = place.committed(filled(place, 60), JOINED)
    place.store().publish(base, run_ended=True)
    base = place.committed(base, add(new_file("later", 2)))
    place.change("DELETE FROM transactions WHERE table_id = %s")
    loaded = place.store().load()
    assert loaded is not None
    assert in_rows(place, loaded.manifest)
    held = [0]
    matched = cut._matched

    def noted(region: cut.Files, *more: object) -> object:
        held.append(len(region))
        return matched(region, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(cut, "_matched", noted)
    for id in ("later still", "last"):
        place.store().publish(loaded, run_ended=True)
        assert shown(place) == ids(loaded)
        loaded = place.committed(loaded, add(new_file(id, 2)))
    assert max(held) < 10
