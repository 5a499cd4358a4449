"""The tables of the PostgreSQL manifest store, by section 11.4 of ``shared/docs/format``: made and migrated in one
place, checked before each use.

They are option 3 of Sleeper's proposal. Bodies are JSON in ``text``, not ``jsonb``, which refuses ``\\u0000`` and loses
the order of keys; in ASCII, so that the database's encoding does not matter. Names and ids compare by bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from singerlake.errors import AccessDeniedError, SettingError, SingerlakeError
from singerlake.stores.postgres.connection import Connection, Connections, driver
from singerlake.stores.postgres.errors import CREATE, no_schema, standby, translated

_VERSION_1 = """
CREATE TABLE streams (
    table_id text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL,
    transaction_id text NOT NULL,
    format integer NOT NULL,
    tap text NOT NULL,
    stream text NOT NULL,
    lineage text NOT NULL,
    created text NOT NULL,
    next_offset bigint NOT NULL,
    versions text NOT NULL,
    schemas text NOT NULL,
    runs text NOT NULL,
    closed text
) WITH (fillfactor = 25);

CREATE TABLE file_references (
    table_id text COLLATE "C" NOT NULL,
    "offset" bigint NOT NULL,
    file_id text COLLATE "C" NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (table_id, "offset", file_id)
);

CREATE TABLE files (
    table_id text COLLATE "C" NOT NULL,
    file_id text COLLATE "C" NOT NULL,
    path text NOT NULL,
    updated timestamptz NOT NULL DEFAULT 'infinity',
    "offset" bigint,
    "by" text,
    since text,
    shown text,
    deleted text,
    number bigint,
    place bigint
);
CREATE UNIQUE INDEX files_referenced ON files (table_id, "offset", file_id) WHERE updated = 'infinity';
CREATE UNIQUE INDEX files_retired ON files (table_id, file_id) WHERE updated <> 'infinity';
CREATE INDEX files_retired_in_order ON files (table_id, number, place) WHERE updated <> 'infinity';

CREATE TABLE transactions (
    table_id text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    id text NOT NULL,
    at text NOT NULL,
    kind text NOT NULL,
    body text,
    PRIMARY KEY (table_id, number)
);
"""
# files.updated is when a file lost its last reference, infinity while it has one; number and place are the transaction
# that retired it and its place there. transactions.body is NULL where a state was put in place as a whole, so that
# late readers read the tables. No index of what is listed begins with the ids, which are random: a new file goes
# to the index's end, where a page is at hand, however many files there are. A quarter full, the pages of streams have
# room for a row's next versions.

_VERSION_2 = """
ALTER TABLE streams ADD COLUMN settled text;

CREATE TABLE commits (
    tap_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (tap_id, name)
);
"""

_MARKS = """
CREATE TABLE IF NOT EXISTS table_marks (
    table_id text COLLATE "C" PRIMARY KEY,
    mark text NOT NULL
)
"""
# Part of no version: earlier releases do without, and need not be kept from writing.

MIGRATIONS: tuple[str, ...] = (_VERSION_1, _VERSION_2)
"""What leads from each version to the next; the first makes version 1. Never changed, only added to."""


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The version of the tables before (None: there were none) and after."""

    before: int | None
    after: int


def create_schema(url: str, schema: str) -> SchemaState:
    """Make or migrate the tables in ``schema``; harmless to repeat, and several at once do it once. Raises
    ``SettingError`` for a newer version or another program's tables, ``AccessDeniedError``,
    ``StorageUnavailableError``."""
    check_name(schema)
    connections = Connections(url)
    problem: SingerlakeError | None = None
    try:
        with connections.lent() as connection:
            connection.execute("BEGIN")
            state = _created(connection, schema)
            connection.execute("COMMIT")
    except driver().Error as error:
        problem = _explained(error, schema)
    finally:
        connections.close()
    if problem is not None:
        raise problem
    return state


def check_name(schema: str) -> None:
    """Refuse what cannot be a schema's name. Raises ``SettingError``."""
    if not schema or "\0" in schema or len(schema.encode(errors="replace")) > 63 or schema.startswith("pg_"):
        raise SettingError(
            "postgres_schema cannot be the name of a schema",
            hint="use 1 to 63 letters, digits and underscores, not beginning with pg_",
            postgres_schema=schema,
        )


def check_version(version: int | None, schema: str) -> None:
    """Refuse tables of another version than this package writes. Raises ``SettingError``."""
    if version is None:
        raise no_schema(schema)
    if version < len(MIGRATIONS):
        raise SettingError(
            f"the tables in postgres_schema have version {version}, this version needs {len(MIGRATIONS)}",
            hint=f"{CREATE}, which migrates them; nothing was written",
            postgres_schema=schema,
        )
    if version > len(MIGRATIONS):
        raise _newer(version, schema)


def _created(connection: Connection, schema: str) -> SchemaState:
    from psycopg.sql import SQL, Identifier

    connection.execute("SET LOCAL lock_timeout TO '60s'")
    if connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,):
        raise standby()
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('singerlake ' || %s, 0))", (schema,))
    # Not IF NOT EXISTS, which asks for the right to create schemas even where it is there.
    if connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone() is None:
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
    connection.execute(SQL("SET LOCAL search_path TO {}").format(Identifier(schema)))
    # With its schema: who may not use that is told so, and not that nothing is in the search path.
    versions = SQL("CREATE TABLE IF NOT EXISTS {}.schema_version (version integer PRIMARY KEY)")
    connection.execute(versions.format(Identifier(schema)))
    row = connection.execute("SELECT max(version) FROM schema_version").fetchone()
    before = row[0] if row else None
    if before is not None and not isinstance(before, int):
        raise _foreign(schema)
    if before is not None and before > len(MIGRATIONS):
        raise _newer(before, schema)
    if before != len(MIGRATIONS):
        for migration in MIGRATIONS[before or 0 :]:
            connection.execute(migration.encode())
        connection.execute("DELETE FROM schema_version")
        connection.execute("INSERT INTO schema_version VALUES (%s)", (len(MIGRATIONS),))
    connection.execute(_MARKS)
    return SchemaState(before, len(MIGRATIONS))


def _newer(version: int, schema: str) -> SettingError:
    return SettingError(
        f"the tables in postgres_schema have version {version}, this version knows up to {len(MIGRATIONS)}",
        hint=f"upgrade singerlake, or name another postgres_schema and {CREATE}; nothing was written",
        postgres_schema=schema,
    )


def _foreign(schema: str) -> SettingError:
    return SettingError(
        "postgres_schema holds tables of another program",
        hint=f"name another postgres_schema and {CREATE}; nothing was written",
        postgres_schema=schema,
    )


def _explained(error: Exception, schema: str) -> SingerlakeError:
    state = getattr(error, "sqlstate", None)
    if state in ("42P07", "42703"):
        return _foreign(schema)
    if state == "42501":
        return AccessDeniedError(
            "the user of postgres_url may not create the schema or its tables",
            hint=f"let a user with that right {CREATE.removeprefix('run ')}, or grant create on the database",
            postgres_schema=schema,
            reason=error.diag.message_primary,  # type: ignore[attr-defined]  # one of the server's
        )
    return translated(error, schema)  # type: ignore[arg-type]
