"""One stream in PostgreSQL, as the tests of that store alone see it: many writers, and a look at the tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from singerlake.clock import Clock, random_id
from singerlake.format import layout
from singerlake.format.state import fold
from singerlake.format.state.additions import Conflict
from singerlake.format.state.manifest import from_json
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Change, Transaction
from singerlake.stores.commit import commit_transaction
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded
from singerlake.stores.postgres.connection import PostgresSettings
from singerlake.stores.postgres.store import PostgresStore
from tests.fakes import FakeClock
from tests.format.state.test_fold import check_log
from tests.storage.memory import MemoryStorage

TABLES = ("streams", "file_references", "files", "transactions")


@dataclass(frozen=True)
class PostgresPlace:
    """A stream of its own in a schema that many share. Every ``store()`` is another writer's or reader's."""

    url: str = field(repr=False)
    schema: str
    tap: str = "t"
    stream: str = "s"
    table_id: str = field(default_factory=lambda: f"lake/t/{random_id()}")
    clock: Clock = field(default_factory=FakeClock)
    storage: MemoryStorage = field(default_factory=lambda: MemoryStorage(clock=FakeClock(), ids=random_id))

    def store(self) -> PostgresStore:
        place = StreamPlace(self.storage, self.tap, self.stream, self.clock, random_id)
        return PostgresStore(place, PostgresSettings(url=self.url, schema=self.schema), table_id=self.table_id)

    def but(self, **changes: Any) -> PostgresPlace:
        return replace(self, **changes)

    def another(self) -> PostgresPlace:
        """Another stream in the same tables."""
        return PostgresPlace(self.url, self.schema, self.tap, self.stream, clock=self.clock)

    def first(self) -> Manifest:
        return fold.empty(
            tap=self.tap,
            stream=self.stream,
            store="postgres",
            lineage=random_id(),
            created="2026-01-01T00:00:00.000000Z",
            transaction_id=random_id(),
        )

    def born(self) -> Loaded:
        return self.store().create(self.first())

    def transaction(self, change: Change) -> Transaction:
        return Transaction(id=random_id(), at="2026-02-01T00:00:00.000000Z", change=change)

    def commit(self, base: Loaded, change: Change) -> Loaded | Conflict:
        outcome = commit_transaction(self.store(), base, self.transaction(change), clock=self.clock)
        assert isinstance(outcome, (Loaded, Conflict))
        return outcome

    def committed(self, base: Loaded, *changes: Change) -> Loaded:
        for change in changes:
            outcome = self.commit(base, change)
            assert isinstance(outcome, Loaded), outcome
            base = outcome
        return base

    def state(self) -> Manifest:
        loaded = self.store().load()
        assert loaded is not None
        return loaded.manifest

    def listed(self) -> list[str]:
        return [file.id for file in self.state().files]

    def query(self, text: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Rows of a statement about this stream, of which every ``%s`` but the given ones is its table id."""
        with session(self.url, self.schema) as connection:
            missing = text.count("%s") - len(arguments)
            return connection.execute(text, (*arguments, *(self.table_id,) * missing)).fetchall()  # type: ignore[arg-type]

    def change(self, text: str, *arguments: object) -> None:
        """A statement behind the store's back; as ``query``."""
        with session(self.url, self.schema) as connection:
            missing = text.count("%s") - len(arguments)
            connection.execute(text, (*arguments, *(self.table_id,) * missing))  # type: ignore[arg-type]

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of this stream."""
        return {
            table: self.query(f"SELECT t::text FROM {table} AS t WHERE table_id = %s ORDER BY 1") for table in TABLES
        }


@contextmanager
def session(url: str, schema: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A connection of the test's own, in autocommit mode."""
    with psycopg.connect(url, autocommit=True, client_encoding="UTF8") as connection:
        connection.execute(SQL("SET search_path TO {}").format(Identifier(schema)))
        yield connection


def consistent(place: PostgresPlace) -> Manifest:
    """The state as loaded, after a look at whether the tables agree with one another."""
    manifest = place.state()
    check_log(manifest)
    files = place.query("SELECT \"offset\", file_id, path FROM files WHERE updated = 'infinity' AND table_id = %s")
    assert sorted(files) == [(file.offset, file.id, file.path) for file in manifest.files]
    retired = place.query("SELECT file_id FROM files WHERE updated <> 'infinity' AND table_id = %s")
    assert sorted(retired) == sorted((file.id,) for file in manifest.retired)
    return manifest


def published(place: PostgresPlace) -> int:
    """The number of the state that readers have."""
    key = layout.manifest_key(place.tap, place.stream)
    stored = place.storage.get(key)
    assert stored is not None
    return from_json(stored.body, key=key).transaction.number


@pytest.fixture
def place(postgres_schema: tuple[str, str]) -> PostgresPlace:
    """A stream that nobody else knows."""
    url, schema = postgres_schema
    return PostgresPlace(url, schema)
