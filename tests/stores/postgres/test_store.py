"""The PostgreSQL store: its tables hold what the fold says, whatever is committed and whatever a tap sends."""

from __future__ import annotations

from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from singerlake.clock import random_id
from singerlake.errors import CorruptObjectError
from singerlake.format import layout
from singerlake.format.state.additions import Conflict
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest, Position, Retired, Run, StreamSchema
from singerlake.format.state.transactions import (
    AddFiles,
    Change,
    Close,
    CollectFiles,
    Rebase,
    RecordRun,
    ReplaceFiles,
    RetireFiles,
)
from singerlake.stores.port import Loaded, Outdated
from singerlake.stores.postgres import change as postgres_change
from singerlake.stores.postgres import read as postgres_read
from singerlake.stores.postgres import store as postgres_module
from singerlake.stores.postgres.schema import create_schema
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import MemoryStorage
from tests.stores.postgres.place import PostgresPlace, consistent, place
from tools.postgres import Server

__all__ = ["place"]
KEY = layout.manifest_key("t", "s")
ODD = "a\u0000b\ud800c'\"\\ü😀\udfff\n%s{}"


def test_a_birth_an_addition_a_replacement_and_a_retirement_are_in_the_tables(place: PostgresPlace) -> None:
    assert place.store().load() is None
    base = place.born()
    assert base == place.store().load()
    base = place.committed(
        base,
        add(new_file("a", 3), new_file("b", 2), new_file("c", 1)),
        ReplaceFiles(old=("a", "b"), new=(new_file("d", 1), new_file("e", 4))),
        RetireFiles(files=(("orphan", "x/orphan"),)),
        RecordRun(run=Run(id="r", writer="w", started="2026")),
    )
    assert consistent(place) == base.manifest
    assert [(file.id, file.offset) for file in base.manifest.files] == [("d", 0), ("e", 1), ("c", 5)]
    kinds = place.query("SELECT number, kind, body IS NULL FROM transactions WHERE table_id = %s ORDER BY number")
    assert kinds == [
        (0, "rebase", True),
        (1, "add_files", False),
        (2, "replace_files", False),
        (3, "retire_files", False),
        (4, "record_run", False),
    ]


@st.composite
def changes(draw: st.DrawFn, state: Manifest, fresh: Any) -> Change:
    """A change that fits ``state``, or nearly."""
    kinds = ["add", "add", "add", "retire", "run", "rebase", "again", "collect"]
    if len(state.files):
        kinds += ["replace", "replace", "rebase"]
    kind = draw(st.sampled_from(kinds))
    if kind == "add":
        files = [
            new_file(fresh(), draw(st.integers(1, 3)), draw(st.integers(0, 2))) for _ in range(draw(st.integers(1, 3)))
        ]
        run = Run(id=draw(st.sampled_from(["r1", "r2"])), writer=ODD, started="2026")
        return add(*files, run=draw(st.sampled_from([None, run])))
    if kind == "again":
        known = [file.id for file in (*state.files, *state.retired)]
        return add(new_file(draw(st.sampled_from([*known, "x"])), 3), new_file(fresh(), 1))
    if kind == "retire":
        return RetireFiles(files=tuple((fresh(), "x/y") for _ in range(draw(st.integers(1, 3)))))
    if kind == "collect":
        chosen = [file for file in state.retired if draw(st.booleans())]
        return CollectFiles(
            shown=tuple(file.id for file in chosen if file.shown is None),
            deleted=tuple(file.id for file in chosen if file.shown and not file.deleted),
            forgotten=(*(file.id for file in chosen if file.deleted), *draw(st.sampled_from([(), ("unknown",)]))),
        )
    if kind == "run":
        return RecordRun(run=Run(id="r1", writer="w", started="2026", status=draw(st.sampled_from(["done", "failed"]))))
    if kind == "replace":
        start = draw(st.integers(0, len(state.files) - 1))
        old = state.files[start : start + draw(st.integers(1, 3))]
        messages = sum(file.messages for file in old)
        parts = [messages] if messages == 1 else draw(st.sampled_from([[messages], [1, messages - 1]]))
        new = tuple(new_file(fresh(), part, version=old[0].version) for part in parts)
        return ReplaceFiles(old=tuple(file.id for file in old), new=new)
    kept = [file for file in state.files if draw(st.booleans())]
    offset, files = 0, []
    for file in kept:
        files.append(msgspec.structs.replace(file, offset=offset))
        offset = files[-1].end
    gone = [file for file in state.retired if draw(st.booleans())]
    dropped = [Retired(id=f.id, path=f.path, by=None, since="2026-03") for f in state.files if f not in kept]
    based = msgspec.structs.replace(
        state, lineage=fresh(), files=files, retired=[*dropped, *gone], next_offset=offset, runs=()
    )
    return Rebase(manifest=based)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_committed_the_tables_hold_what_the_fold_says(place: PostgresPlace, data: st.DataObject) -> None:
    place = place.but(table_id=f"lake/t/{random_id()}", storage=MemoryStorage(clock=place.clock, ids=random_id))
    loaded, behind = place.born(), place.store()
    seen = loaded
    for _ in range(data.draw(st.integers(1, 7))):
        change = data.draw(changes(loaded.manifest, random_id))
        expected = apply(loaded.manifest, transaction := place.transaction(change))
        outcome = place.store().commit(loaded, transaction)
        if isinstance(expected, Conflict):
            assert outcome == expected
        else:
            assert isinstance(outcome, Loaded)
            assert outcome.manifest == expected
            loaded = outcome
        assert consistent(place) == loaded.manifest
        if data.draw(st.booleans()):
            caught = behind.catch_up(seen)
            assert caught == loaded
            seen = caught
    place.committed(loaded, Close(successor="log"))
    assert consistent(place).closed == "log"


def test_a_file_that_stays_retired_keeps_its_time_when_the_state_is_replaced(place: PostgresPlace) -> None:
    base = place.committed(place.born(), RetireFiles(files=(("a", "x/a"),)))
    place.change("UPDATE files SET updated = '2020-01-01' WHERE table_id = %s")
    place.committed(base, Rebase(manifest=msgspec.structs.replace(base.manifest, lineage="other")))
    assert place.query("SELECT updated < '2021-01-01' FROM files WHERE table_id = %s") == [(True,)]


def test_a_state_that_lists_what_it_calls_retired_is_refused(place: PostgresPlace) -> None:
    base = place.committed(place.born(), add(new_file("a")))
    both = msgspec.structs.replace(base.manifest, retired=[Retired(id="a", path="x/a", by=None, since="2026")])
    assert isinstance(place.commit(base, Rebase(manifest=both)), Conflict)
    with pytest.raises(CorruptObjectError, match="calls retired"):
        place.but(table_id="lake/t/never").store().create(both)
    assert consistent(place) == base.manifest
    assert place.but(table_id="lake/t/never").store().load() is None


@pytest.mark.parametrize("text", [ODD, "ü😀\u2028"], ids=["with lone surrogates", "without"])
@pytest.mark.parametrize("encoding", ["UTF8", "LATIN1", "SQL_ASCII"])
def test_whatever_a_tap_sends_comes_back_as_it_was(postgres: Server, encoding: str, text: str) -> None:
    name = f"db_{encoding.lower()}_{random_id()}"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")  # type: ignore[call-overload]
    url = postgres.dsn.rpartition("/")[0] + f"/{name}"
    create_schema(url, "odd")
    schema = StreamSchema(
        schema={"z": text, "a": [1.5, 10**30, -0.0, None, True, {text: text}]},
        key_properties=(text,),
        bookmark_properties=(),
    )
    place = PostgresPlace(url, "odd", tap=text, stream=text)
    change = AddFiles(
        files=(new_file("a", version="1234567"),),
        schemas={"1234567": schema},
        run=Run(id=random_id(), writer=text, started="2026"),
    )
    base = place.committed(place.born(), change)
    found = consistent(place)
    assert found == base.manifest
    assert (found.tap, found.stream) == (text, text)
    (version,) = found.schemas.values()
    assert list(version.schema) == ["z", "a"]
    assert place.store().catch_up(base) == base
    for rows in place.rows().values():
        assert all(row.isascii() for (row,) in rows)


def test_large_offsets_and_pages_of_files_are_read_in_order(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_read, "_PAGE", 3)
    monkeypatch.setattr(postgres_change, "_PAGE", 2)
    files = [new_file(f"f{number}", 10**number + 1) for number in (0, 17, 3, 9, 1, 5, 2)]
    base = place.committed(place.born(), add(*files), RetireFiles(files=tuple((f"o{n}", "x") for n in (5, 1, 4, 2, 3))))
    assert consistent(place) == base.manifest
    whole = msgspec.structs.replace(place.first(), transaction=Position(7, "t7"), files=base.manifest.files,
        retired=base.manifest.retired, next_offset=base.manifest.next_offset, versions=base.manifest.versions,
        schemas=base.manifest.schemas)  # fmt: skip
    other = place.another()
    assert other.store().create(whole).manifest == whole
    assert consistent(other) == whole


def test_a_commit_sends_no_more_for_a_long_stream_than_for_a_short_one(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    execute = psycopg.Cursor.execute

    def counting(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
        sent.append(len(str(params)))
        return execute(self, query, params, **options)

    costs = []
    for count in (1, 3000):
        stream = place.another()
        base = stream.committed(stream.born(), add(*(new_file(f"f{number}") for number in range(count))))
        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Cursor, "execute", counting)
            stream.committed(base, add(new_file("one more")))
        costs.append((len(sent), sum(sent)))
        sent.clear()
    (few, small), (many, large) = costs
    assert few == many
    assert large < small + 100


def test_an_addition_to_an_old_state_goes_behind_what_came_between(place: PostgresPlace) -> None:
    base = place.born()
    place.committed(base, add(new_file("a", 3)))
    outcome = place.store().commit(base, place.transaction(add(new_file("b", 2))))
    assert isinstance(outcome, Loaded)
    assert outcome.manifest == consistent(place)
    assert [(file.id, file.offset) for file in outcome.manifest.files] == [("a", 0), ("b", 3)]


def test_files_that_another_try_added_already_are_not_added_again(place: PostgresPlace) -> None:
    base = place.born()
    once = place.committed(base, add(new_file("a", 3)))
    outcome = place.store().commit(base, place.transaction(add(new_file("a", 3))))
    assert outcome == once
    assert consistent(place).transaction.number == 1


@pytest.mark.parametrize("kind", ["rebase", "close"])
def test_what_replaces_or_ends_a_state_is_meant_for_the_one_its_author_saw(place: PostgresPlace, kind: str) -> None:
    base = place.born()
    place.committed(base, add(new_file("a")))
    change = Close(successor="log") if kind == "close" else Rebase(manifest=base.manifest)
    assert place.store().commit(base, place.transaction(change)) == Outdated()
    assert place.listed() == ["a"]


def test_a_writer_far_behind_catches_up_before_it_holds_up_others(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_module, "_LONGEST_TAIL", 3)
    base = place.born()
    place.committed(base, *(add(new_file(f"f{number}")) for number in range(4)))
    assert place.store().commit(base, place.transaction(add(new_file("late")))) == Outdated()
    place.committed(base, add(new_file("late")))
    assert place.listed() == ["f0", "f1", "f2", "f3", "late"]


def test_a_stream_that_was_lost_and_born_again_is_not_taken_for_the_old_one(place: PostgresPlace) -> None:
    base = place.committed(place.born(), add(new_file("a")))
    for table in ("streams", "file_references", "files", "transactions"):
        place.change(f"DELETE FROM {table} WHERE table_id = %s")
    assert place.store().catch_up(base) is None
    assert place.store().commit(base, place.transaction(add(new_file("b")))) == Outdated()
    place.storage.delete(KEY)
    again = place.born()
    for name in "cde":
        again = place.committed(again, add(new_file(name)))
        assert place.store().catch_up(base) == again
        assert place.store().commit(base, place.transaction(add(new_file("b")))) == Outdated()
    assert place.listed() == ["c", "d", "e"]
