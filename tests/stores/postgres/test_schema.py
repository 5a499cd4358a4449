"""The tables of the PostgreSQL store: made once, migrated in order, refused where they are another version's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from psycopg.sql import SQL, Identifier

from singerlake.clock import random_id
from singerlake.errors import AccessDeniedError, SettingError, SingerlakeError, StorageUnavailableError
from singerlake.format.state.transactions import CollectFiles, RetireFiles
from singerlake.stores.postgres import schema as postgres_schema
from singerlake.stores.postgres.schema import SchemaState, create_schema
from tests.format.state.test_fold import add, new_file
from tests.stores.postgres.place import PostgresPlace, place, session
from tools.postgres import Server, postgres_server

__all__ = ["place"]
NEWEST = len(postgres_schema.MIGRATIONS)
NEXT = "ALTER TABLE streams ADD COLUMN note text DEFAULT 'migrated'"


@pytest.fixture
def empty(postgres: Server) -> PostgresPlace:
    """A stream in a schema that is not there yet, with a name that needs quotes."""
    return PostgresPlace(postgres.dsn, f'S "{random_id()}" ü')


def version(place: PostgresPlace) -> list[tuple[int]]:
    return place.query("SELECT version FROM schema_version")  # type: ignore[return-value]


def test_tables_are_made_once_and_used(empty: PostgresPlace) -> None:
    place = empty
    assert create_schema(place.url, place.schema) == SchemaState(before=None, after=NEWEST)
    base = place.committed(place.born(), add(new_file("a")))
    before = place.rows()
    assert create_schema(place.url, place.schema) == SchemaState(before=NEWEST, after=NEWEST)
    assert place.rows() == before
    assert place.state() == base.manifest
    assert version(place) == [(NEWEST,)]


def test_a_schema_that_somebody_made_is_filled(empty: PostgresPlace) -> None:
    with session(empty.url, "public") as connection:
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(empty.schema)))
    assert create_schema(empty.url, empty.schema).before is None
    assert empty.born() == empty.store().load()


def test_several_at_once_do_it_once(empty: PostgresPlace) -> None:
    go = threading.Barrier(6)

    def create() -> SchemaState:
        go.wait()
        return create_schema(empty.url, empty.schema)

    with ThreadPoolExecutor(6) as pool:
        states = [future.result() for future in [pool.submit(create) for _ in range(6)]]
    assert (
        sorted(states, key=lambda state: state.before or 0)
        == [SchemaState(None, NEWEST)] + [SchemaState(NEWEST, NEWEST)] * 5
    )


def test_an_older_version_is_migrated_with_what_is_in_it(empty: PostgresPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    create_schema(empty.url, empty.schema)
    base = empty.committed(empty.born(), add(new_file("a")))
    monkeypatch.setattr(postgres_schema, "MIGRATIONS", (*postgres_schema.MIGRATIONS, NEXT))
    refused(empty, f"version {NEWEST}, this version needs {NEWEST + 1}", "migrates")
    assert create_schema(empty.url, empty.schema) == SchemaState(before=NEWEST, after=NEWEST + 1)
    assert create_schema(empty.url, empty.schema) == SchemaState(before=NEWEST + 1, after=NEWEST + 1)
    assert empty.query("SELECT note FROM streams WHERE table_id = %s") == [("migrated",)]
    assert empty.state() == base.manifest


def test_a_migration_that_fails_leaves_everything_as_it_was(
    empty: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_schema(empty.url, empty.schema)
    broken = (*postgres_schema.MIGRATIONS, NEXT, "ALTER TABLE nowhere ADD COLUMN note text")
    monkeypatch.setattr(postgres_schema, "MIGRATIONS", broken)
    with pytest.raises(SingerlakeError):
        create_schema(empty.url, empty.schema)
    monkeypatch.undo()
    assert version(empty) == [(NEWEST,)]
    assert empty.born() == empty.store().load()


def test_a_newer_version_is_refused_by_everything_and_left_as_it_is(empty: PostgresPlace) -> None:
    create_schema(empty.url, empty.schema)
    empty.change(f"UPDATE schema_version SET version = {NEWEST + 1}")
    refused(empty, f"version {NEWEST + 1}, this version knows up to {NEWEST}", "upgrade singerlake")
    with pytest.raises(SettingError, match="upgrade singerlake"):
        create_schema(empty.url, empty.schema)
    assert version(empty) == [(NEWEST + 1,)]


def test_a_version_that_changes_under_a_writer_stops_its_next_commit(empty: PostgresPlace) -> None:
    create_schema(empty.url, empty.schema)
    base = empty.born()
    empty.change(f"UPDATE schema_version SET version = {NEWEST + 1}")
    before = empty.rows()
    with pytest.raises(SettingError, match=f"version {NEWEST + 1}"):
        empty.commit(base, add(new_file("a")))
    with pytest.raises(SettingError, match=f"version {NEWEST + 1}"):
        empty.store().catch_up(base)
    assert empty.rows() == before


def test_without_tables_everything_says_which_command_makes_them(empty: PostgresPlace) -> None:
    refused(empty, "no tables", "singerlake store create")
    with session(empty.url, "public") as connection:
        found = connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = %s", (empty.schema,)).fetchone()
    assert found == (0,)


def test_tables_that_were_made_by_half_are_refused(empty: PostgresPlace) -> None:
    create_schema(empty.url, empty.schema)
    empty.change("DELETE FROM schema_version")
    refused(empty, "no tables", "singerlake store create")


def refused(place: PostgresPlace, what: str, hint: str) -> None:
    """Reading and writing are refused, both with the setting and the next step."""
    store = place.store()
    acts: tuple[Callable[[], object], ...] = (
        store.load,
        lambda: store.create(place.first()),
        lambda: store.trim(keep=0),
    )
    for act in acts:
        with pytest.raises(SettingError, match=what) as raised:
            act()
        assert hint in raised.value.hint
        assert "postgres_schema" in str(raised.value)


@pytest.mark.parametrize(
    "table",
    ["CREATE TABLE files (x int)", "CREATE TABLE schema_version (version text)", "CREATE TABLE schema_version (x int)"],
)
def test_tables_of_somebody_else_s_are_left_alone(empty: PostgresPlace, table: str) -> None:
    with session(empty.url, "public") as connection:
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(empty.schema)))
    empty.change(table)
    if "text" in table:
        empty.change("INSERT INTO schema_version VALUES ('7')")
    with pytest.raises(SettingError, match="tables of another program"):
        create_schema(empty.url, empty.schema)
    left = empty.query("SELECT count(*) FROM pg_tables WHERE schemaname = %s", empty.schema)
    assert left == [(1,)]


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 64, "pg_temp"])
def test_what_cannot_be_a_schema_s_name_is_refused_before_anything(postgres: Server, name: str) -> None:
    for act in (lambda: create_schema(postgres.dsn, name), lambda: PostgresPlace(postgres.dsn, name).store()):
        with pytest.raises(SettingError, match="postgres_schema cannot be"):
            act()


@pytest.fixture
def weak(postgres: Server) -> str:
    """The URL of a user that may connect and nothing else."""
    name = f"weak_{random_id()}"
    with session(postgres.dsn, "public") as connection:
        connection.execute(SQL("CREATE USER {} PASSWORD 'w'").format(Identifier(name)))
    return f"postgresql://{name}:w@{postgres.host}:{postgres.port}/{postgres.database}"


def test_a_user_without_rights_is_told_what_to_grant(place: PostgresPlace, empty: PostgresPlace, weak: str) -> None:
    with pytest.raises(AccessDeniedError, match=r"create the schema.*permission denied for database"):
        create_schema(weak, empty.schema)
    base = place.born()
    stranger = place.but(url=weak)
    for act in (stranger.store().load, lambda: stranger.commit(base, add(new_file("a")))):
        with pytest.raises(AccessDeniedError, match=r"grant usage on the schema.*permission denied for schema"):
            act()
    with pytest.raises(AccessDeniedError, match=r"create the schema or its tables.*permission denied for schema"):
        create_schema(weak, place.schema)


def test_a_user_who_may_use_the_tables_needs_no_right_to_make_them(empty: PostgresPlace, weak: str) -> None:
    create_schema(empty.url, empty.schema)
    to = {"schema": Identifier(empty.schema), "user": Identifier(weak.split("//")[1].split(":")[0])}
    with session(empty.url, "public") as connection:
        connection.execute(SQL("GRANT USAGE ON SCHEMA {schema} TO {user}").format(**to))
        connection.execute(SQL("GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {user}").format(**to))
    weakly = empty.but(url=weak)
    base = weakly.committed(weakly.born(), add(new_file("a")), RetireFiles(files=(("o", "x"),)))
    assert weakly.state() == base.manifest
    base = weakly.committed(base, CollectFiles(shown=("o",)), CollectFiles(deleted=("o",)))
    assert not weakly.committed(base, CollectFiles(forgotten=("o",))).manifest.retired


def test_a_server_that_takes_no_writes_by_a_setting_is_told_by_that(place: PostgresPlace) -> None:
    base = place.born()
    read_only = place.but(url=place.url + "?options=-c%20default_transaction_read_only%3Don")
    for act in (
        lambda: read_only.commit(base, add(new_file("a"))),
        lambda: create_schema(read_only.url, f"s{random_id()}"),
    ):
        with pytest.raises(StorageUnavailableError, match="takes no writes: default_transaction_read_only is on"):
            act()
    assert place.listed() == []


@pytest.mark.thorough
def test_a_standby_is_told() -> None:
    with postgres_server(standby=True) as server:
        place = PostgresPlace(server.dsn, "public")
        for act in (place.born, lambda: create_schema(server.dsn, "s")):
            with pytest.raises(StorageUnavailableError, match="it is a standby; point postgres_url to the primary"):
                act()
