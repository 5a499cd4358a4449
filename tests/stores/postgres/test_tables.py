"""The PostgreSQL store: what it refuses to believe, what it publishes, what it trims."""

from __future__ import annotations

import msgspec
import pytest

from singerlake.clock import random_id
from singerlake.errors import CorruptObjectError, ForeignManifestError, LostStateError, UnsupportedFormatError
from singerlake.format import layout
from singerlake.format.state.manifest import to_json
from singerlake.format.state.model import Position
from singerlake.format.state.transactions import (
    Close,
    CollectFiles,
    Rebase,
    ReplaceFiles,
    RetireFiles,
)
from singerlake.stores.postgres import store as postgres
from singerlake.stores.publish import SnapshotSettings
from singerlake.stores.segments import stored
from tests.fakes import FakeClock
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import MemoryStorage
from tests.stores.postgres.place import PostgresPlace, consistent, place, published
from tests.stores.segments.sizes import TINY

__all__ = ["place"]
KEY = layout.manifest_key("t", "s")


@pytest.mark.parametrize(("field", "value"), [("tap", "T"), ("stream", "S"), ("store", "log")])
def test_another_s_manifest_json_stops_a_birth(place: PostgresPlace, field: str, value: str) -> None:
    body = to_json(msgspec.structs.replace(place.first(), **{field: value}))
    place.storage.put(KEY, body)
    with pytest.raises(ForeignManifestError, match=field):
        place.born()
    assert place.store().load() is None


def test_another_s_row_is_refused(place: PostgresPlace) -> None:
    place.born()
    with pytest.raises(ForeignManifestError, match="stream"):
        place.but(stream="S").store().load()


BROKEN = {
    "files": "UPDATE file_references SET body = left(body, 9) WHERE table_id = %s",
    "schemas": "UPDATE streams SET schemas = '[]' WHERE table_id = %s",
    "name": "UPDATE streams SET tap = 'x' WHERE table_id = %s",
}


@pytest.mark.parametrize("what", BROKEN)
def test_rows_that_cannot_be_believed_stop_everything_and_stay(place: PostgresPlace, what: str) -> None:
    place.committed(place.born(), add(new_file("a")))
    place.change(BROKEN[what])
    before = place.rows()
    with pytest.raises(CorruptObjectError, match="restore the database"):
        place.store().load()
    assert place.rows() == before


def test_a_transaction_that_cannot_be_believed_stops_whoever_is_behind(place: PostgresPlace) -> None:
    base = place.born()
    place.committed(base, add(new_file("a")))
    place.change("UPDATE transactions SET body = '{}' WHERE number = 1 AND table_id = %s")
    before = place.rows()
    for act in (
        lambda: place.store().catch_up(base),
        lambda: place.store().commit(base, place.transaction(add(new_file("b")))),
    ):
        with pytest.raises(CorruptObjectError, match="transactions"):
            act()
    assert place.rows() == before


def test_a_row_that_does_not_fit_its_transactions_stops_a_commit(place: PostgresPlace) -> None:
    base = place.born()
    place.change("UPDATE streams SET next_offset = 7 WHERE table_id = %s")
    with pytest.raises(CorruptObjectError, match="row does not fit"):
        place.commit(base, add(new_file("a")))
    assert place.query("SELECT count(*) FROM transactions WHERE table_id = %s") == [(1,)]


def test_a_file_that_the_tables_know_and_the_state_does_not_is_never_listed_twice(place: PostgresPlace) -> None:
    base = place.born()
    place.change("INSERT INTO files (table_id, file_id, path, \"offset\") VALUES (%s, 'a', 'x', 0)")
    before = place.rows()
    with pytest.raises(CorruptObjectError, match="do not match"):
        place.commit(base, add(new_file("a")))
    assert place.rows() == before


LOST = {
    "a reference": "DELETE FROM file_references WHERE file_id = 'a' AND table_id = %s",
    "a file": "DELETE FROM files WHERE file_id = 'a' AND table_id = %s",
    "a retired file": "DELETE FROM files WHERE file_id = 'o' AND table_id = %s",
}


@pytest.mark.parametrize("what", LOST)
def test_rows_that_are_gone_behind_the_store_s_back_stop_what_changes_them(place: PostgresPlace, what: str) -> None:
    base = place.committed(place.born(), add(new_file("a", 3)), RetireFiles(files=(("o", "x/o"),)))
    place.change(LOST[what])
    before = place.rows()
    noted, joined = CollectFiles(shown=("o",)), ReplaceFiles(old=("a",), new=(new_file("b", 3),))
    change = noted if "retired" in what else joined
    with pytest.raises(CorruptObjectError, match="do not match"):
        place.commit(base, change)
    assert place.rows() == before


@pytest.mark.parametrize("what", LOST)
@pytest.mark.parametrize("many", [False, True])
def test_a_whole_new_state_takes_the_place_of_rows_that_are_not_all_there(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch, what: str, many: bool
) -> None:
    """So that a rebuild helps, as the error says. What stays retired keeps its time."""
    if many:
        monkeypatch.setattr(stored, "SIZES", TINY)
    retired = RetireFiles(files=(("o", "x/o"), ("p", "x/p")))
    base = place.committed(place.born(), add(new_file("a", 3)), *(add(new_file(f"f{n}", 2)) for n in range(9)), retired)
    place.store().publish(base, run_ended=True)
    loaded = place.store().load()
    assert loaded is not None
    assert bool(loaded.manifest.files.segments) == many
    place.change("UPDATE files SET updated = '2020-01-01' WHERE file_id = 'p' AND table_id = %s")
    place.change(LOST[what])
    anew = msgspec.structs.replace(base.manifest, lineage="new", retired=base.manifest.retired[1:])
    after = place.committed(loaded, Rebase(manifest=anew))
    assert consistent(place) == after.manifest
    assert place.query("SELECT updated < '2021-01-01' FROM files WHERE file_id = 'p' AND table_id = %s") == [(True,)]
    joined = place.committed(after, ReplaceFiles(old=("a",), new=(new_file("b", 3),)), CollectFiles(shown=("p",)))
    assert consistent(place) == joined.manifest


def test_a_newer_format_is_refused(place: PostgresPlace) -> None:
    place.born()
    place.change(f"UPDATE streams SET format = {6} WHERE table_id = %s")
    with pytest.raises(UnsupportedFormatError, match=f"format {6}"):
        place.store().load()


def test_readers_get_every_run_s_end_and_nothing_that_is_old(place: PostgresPlace) -> None:
    assert isinstance(place.clock, FakeClock)
    place = place.but(storage=MemoryStorage(clock=place.clock, ids=random_id))
    base = place.committed(place.born(), add(*(new_file(f"f{number}") for number in range(50))))
    assert published(place) == 0
    place.store().publish(base)
    assert published(place) == 0
    place.store().publish(base, run_ended=True)
    assert published(place) == 1
    base = place.committed(base, add(new_file("a")))
    place.clock.seconds += SnapshotSettings().age.total_seconds() + 1
    place.store().publish(base)
    assert published(place) == 2


@pytest.mark.parametrize("at_once", [1, 3, 10_000])
def test_trimming_leaves_the_last_transactions_and_the_state(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(postgres, "_TRIMMED_AT_ONCE", at_once)
    store, base = place.store(), place.born()
    assert place.but(table_id="lake/t/none").store().trim(keep=2).transactions == 0
    last = place.committed(base, *(add(new_file(f"f{number}")) for number in range(5)))
    assert store.trim(keep=9).transactions == 0
    would = store.trim(keep=2)
    assert (would.floor, would.transactions, would.keys) == (3, 4, 4)
    assert published(place) == 0
    assert store.trim(keep=2, dry_run=False) == would
    assert published(place) == 5
    assert place.query("SELECT number FROM transactions WHERE table_id = %s ORDER BY 1") == [(4,), (5,)]
    assert store.trim(keep=2, dry_run=False).transactions == 0
    assert consistent(place) == last.manifest
    assert place.store().catch_up(base) == last
    assert [file.id for file in place.committed(base, add(new_file("late"))).manifest.files][-2:] == ["f4", "late"]
    assert store.trim(keep=0, dry_run=False).floor == 6
    assert place.committed(last, add(new_file("later"))).manifest.transaction.number == 7


def test_the_store_declares_what_it_is(place: PostgresPlace) -> None:
    store = place.store()
    assert store.kind == "postgres"
    assert not store.exclusive
    assert not store.abilities.followable
    assert not store.abilities.locks
    assert not store.abilities.settles


def test_the_tables_of_one_stream_are_no_other_s(place: PostgresPlace) -> None:
    other = place.another()
    one = place.committed(place.born(), add(new_file("a"), new_file("b")), RetireFiles(files=(("o", "x"),)))
    two = other.committed(other.born(), add(new_file("a"), new_file("b")), RetireFiles(files=(("o", "x"),)))
    before = other.rows()
    place.committed(one, ReplaceFiles(old=("a", "b"), new=(new_file("ab", 6),)))
    ids = ("a", "b", "o")
    for step in (CollectFiles(shown=ids), CollectFiles(deleted=ids), CollectFiles(forgotten=ids)):
        place.committed(one, step)
    assert not place.state().retired
    assert place.store().trim(keep=0, dry_run=False).transactions == 7
    place.committed(place.store().load() or one, Rebase(manifest=msgspec.structs.replace(place.first(), lineage="new")))
    assert other.rows() == before
    assert consistent(other) == two.manifest


@pytest.mark.parametrize("others", [0, 1, 2])
def test_a_database_put_back_behind_a_writer_s_own_commits_stops_it(place: PostgresPlace, others: int) -> None:
    before = place.committed(place.born(), add(new_file("a")))
    base = place.committed(before, add(new_file("b")))
    for text in (
        "DELETE FROM transactions WHERE number = 2 AND table_id = %s",
        "DELETE FROM file_references WHERE file_id = 'b' AND table_id = %s",
        "DELETE FROM files WHERE file_id = 'b' AND table_id = %s",
    ):
        place.change(text)
    old, offset = before.manifest.transaction.id, before.manifest.next_offset
    move = "UPDATE streams SET number = 1, transaction_id = %s, next_offset = %s WHERE table_id = %s"
    place.change(move, old, offset)
    place.committed(before, *(add(new_file(f"other{number}")) for number in range(others)))
    rows = place.rows()
    for act in (
        lambda: place.store().catch_up(base),
        lambda: place.store().commit(base, place.transaction(add(new_file("c")))),
    ):
        with pytest.raises(LostStateError, match="lost transactions"):
            act()
    assert place.rows() == rows


def test_a_closed_stream_comes_back_with_a_newer_state_only(place: PostgresPlace) -> None:
    base = place.committed(place.born(), add(new_file("a", 3)))
    ahead = msgspec.structs.replace(place.first(), transaction=Position(9, "t9"))
    assert place.store().create(ahead) == base
    base = place.committed(base, Close(successor="log"))
    old = msgspec.structs.replace(base.manifest, closed=None)
    assert place.store().create(old).manifest.closed == "log"
    newer = msgspec.structs.replace(
        old, transaction=Position(9, "t9"), files=(), next_offset=0, versions={}, schemas={}
    )
    assert place.store().create(newer).manifest == newer
    assert consistent(place) == newer
    caught = place.store().catch_up(base)
    assert caught is not None
    assert caught.manifest == newer
