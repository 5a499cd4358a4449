"""SQL over a lake, by DuckDB: tables are their parquet files, raw streams are read as Arrow.

A statement is looked at before it runs: it has to be one that reads. Only what it names is opened. Nothing is loaded
from the network, since DuckDB may fetch no extension.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singerlake.arrow.schema.columns import arrow_schema
from singerlake.clock import random_id
from singerlake.errors import SettingError, UnknownNameError
from singerlake.storage.port import Storage
from singerlake.storage.stored_file import StoredFile
from singerlake.tables.declaration.streams import hint_for
from singerlake.tables.rows.columns import free_name
from singerlake.tables.state.commit import tables
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import TableState
from singerlake.tables.state.types import columns_of

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

_READ = 1 << 20
"""Bytes that are read at once, at least: a request takes longer than to send as much."""
RAW = "raw"
"""What the names of raw streams begin with: ``raw.tap.stream``."""
MEMORY = 1 << 30
"""Bytes that DuckDB holds; what does not fit is in ``$TMPDIR`` meanwhile."""
_PROTOCOL, _ONE, _EMPTY = "singerlake", "__singerlake_one", "__singerlake_empty"
Table = Callable[[str], tuple[Storage, TableState]]
"""Gives by its name what a table that is there holds, and where its files are."""
Streams = Callable[[str, str, Sequence[str] | None], "pa.RecordBatchReader"]
"""Gives the records of a stream, by tap and name, with these columns or all of them."""


def query(
    storage: Storage, table: Table, streams: Streams, statement: str, *, memory: int = MEMORY, past: bool = False
) -> DuckDBPyRelation:
    """What a statement gives, to be read once. ``memory``: how many bytes DuckDB may hold. ``past``: the files of a
    ``table`` go with it. Raises ``SettingError`` where it is not one that reads, or DuckDB refuses it,
    ``UnknownNameError`` for a table that is not there, and what storage, ``table`` and ``streams`` raise."""
    duckdb, connection = require_duckdb(), connected(memory)
    with refusals():
        there, parsed = tables(storage), _parsed(connection, statement)
        named = list(dict.fromkeys(_named(parsed, there)))
        if past and len(named) > len(set(_named(parsed, ()))):
            raise SettingError("SHOW TABLES lists the tables that there are now", hint="ask it without a moment")
        shown: dict[str, str] = {}
        for name in (table for catalog, schema, table in named if not (catalog or schema)):
            known = name if name in there else next((each for each in there if each.lower() == name.lower()), None)
            if known is not None and shown.setdefault(known.lower(), known) != known:
                both = f"{shown[known.lower()]!r} and {known!r}"
                raise SettingError(f"DuckDB does not tell tables {both} apart", hint="ask them one by one")
        for known in shown.values():
            show_table(connection, known, *table(known), held=past)
        raw = dict.fromkeys((tap, stream) for catalog, tap, stream in named if catalog.lower() == RAW)
        _show_streams(connection, statement, streams, [*raw])
        try:
            relation: DuckDBPyRelation = connection.sql(statement)
            return relation
        except duckdb.CatalogException as error:
            missing = next((each[2] for each in named if each[2].lower() not in map(str.lower, there)), None)
            if missing is None or "Table with name" not in str(error):
                raise
            raise UnknownNameError(
                f"no table {missing!r} in this lake", hint=hint_for(missing, there), lake_root=storage.url
            ) from None


def connected(memory: int = MEMORY) -> DuckDBPyConnection:
    """A database of its own, in memory; what does not fit is in ``$TMPDIR`` meanwhile. Raises as ``require_duckdb``."""
    duckdb = require_duckdb()
    # DuckDB makes the folder when it needs one, and takes it away.
    folder = str(Path(tempfile.gettempdir()) / f"singerlake-sql-{random_id()}")
    settings = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    connection: DuckDBPyConnection = duckdb.connect(
        config={**settings, "memory_limit": f"{memory}B", "temp_directory": folder}
    )
    with suppress(duckdb.Error):
        # What a day is does not depend on the machine; without its extension DuckDB knows no other zone.
        connection.execute("SET TimeZone = 'UTC'")
    return connection


def _parsed(connection: DuckDBPyConnection, statement: str) -> Any:
    """The one statement as DuckDB parses it. Raises ``SettingError`` where it is not one that reads."""
    parsed = json.loads(connection.execute("SELECT json_serialize_sql(?)", [statement]).fetchall()[0][0])
    if parsed["error"] and parsed.get("error_type") != "not implemented":
        raise SettingError(f"DuckDB refuses the statement: {parsed['error_message']}", hint="correct it")
    if parsed["error"] or len(parsed["statements"]) != 1:
        raise SettingError("that is not one statement that reads", hint="write one SELECT")
    return parsed["statements"][0]


def _named(node: Any, there: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """The tables that a parsed statement names: catalog and schema, which may be empty, and table. SHOW TABLES means
    all that are ``there``."""
    if isinstance(node, dict):
        if node.get("type") == "BASE_TABLE":
            yield node["catalog_name"], node["schema_name"], node["table_name"]
        elif node.get("type") == "SHOW_REF" and node.get("table_name"):
            yield from (("", "", each) for each in there)
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for each in inner:
        yield from _named(each, there)


def require_duckdb() -> Any:
    """The library. Raises ``SettingError`` where it is not installed."""
    try:
        import duckdb
        import pyarrow  # noqa: F401 - streams and the types of tables need it
    except ImportError as error:
        raise SettingError("SQL needs duckdb and pyarrow", hint="run: pip install 'singerlake[sql]'") from error
    return duckdb


@contextmanager
def refusals() -> Iterator[None]:
    """Raise what DuckDB raises as ``SettingError``: the first line of it."""
    duckdb = require_duckdb()
    try:
        yield
    except duckdb.Error as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise SettingError(f"DuckDB refuses the statement: {first}", hint="correct it") from None


def batches(relation: DuckDBPyRelation) -> Iterator[pa.RecordBatch]:
    """The rows of a relation, in the one way that all versions of DuckDB know."""
    import pyarrow as pa

    yield from pa.RecordBatchReader.from_stream(relation)


def quoted(*parts: str) -> str:
    """A name as SQL writes it."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def show_table(
    connection: DuckDBPyConnection, name: str, storage: Storage, state: TableState, *, held: bool = False
) -> None:
    """A view of a snapshot, called ``name``, or its rows where they are to be ``held``. All columns are there with
    their types, whatever files have: those that came later, or none at all."""
    empty = quoted(_EMPTY, name)
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_EMPTY}")
    connection.register(_ONE, arrow_schema(columns_of(state)).empty_table())
    connection.execute(f"CREATE TABLE {empty} AS SELECT * FROM {_ONE}")  # noqa: S608
    connection.unregister(_ONE)
    body = f"SELECT * FROM {empty}"  # noqa: S608
    files = _files(connection, storage, state)
    if files:
        listed = ", ".join("'" + each.replace("'", "''") + "'" for each in files)
        body += f" UNION ALL BY NAME SELECT * FROM read_parquet([{listed}], union_by_name = true)"  # noqa: S608
    connection.execute(f"CREATE {'TABLE' if held else 'VIEW'} {quoted(name)} AS {body}")


def _files(connection: DuckDBPyConnection, storage: Storage, state: TableState) -> list[str]:
    """The parquet files of a table, as DuckDB is to open them: on a disk by itself, elsewhere through the storage."""
    prefix = table_prefix(state.table)
    sizes = {}
    for file in state.files:
        if file.typed is not None:
            sizes[prefix + file.typed.path] = file.typed.bytes
        elif file.path is not None:
            sizes[prefix + file.path] = file.bytes
    if storage.near and "://" not in storage.url:
        # A path is a pattern to DuckDB.
        return [re.sub(r"([\[\]*?])", r"[\1]", f"{storage.url}/{key}") for key in sizes]
    if sizes:
        name = f"{_PROTOCOL}{len(connection.list_filesystems())}"
        connection.register_filesystem(_filesystem(name, storage, sizes))
        return [f"{name}://{key}" for key in sizes]
    return []


def _filesystem(name: str, storage: Storage, sizes: Mapping[str, int]) -> Any:
    """The files of a table as fsspec has them, under the protocol ``name``."""
    from fsspec.spec import AbstractFileSystem

    class Files(AbstractFileSystem):  # type: ignore[misc]
        protocol = name
        cachable = False

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            key = self._strip_protocol(path)
            return {"name": key, "size": sizes[key], "type": "file"}

        def glob(self, path: str, **_: Any) -> list[str]:
            return [self._strip_protocol(path)]

        def modified(self, path: str) -> datetime:
            return datetime(1970, 1, 1, tzinfo=UTC)

        def open(self, path: str, mode: str = "rb", *_: Any, **__: Any) -> Any:
            key = self._strip_protocol(path)
            return io.BufferedReader(StoredFile(storage, key, sizes[key]), _READ)

    return Files()


def _show_streams(
    connection: DuckDBPyConnection, statement: str, streams: Streams, named: Sequence[tuple[str, str]]
) -> None:
    """Raw streams as tables that are held, since a statement may read them more than once: of a single one only the
    columns that the statement needs."""
    if not named:
        return
    taps = dict.fromkeys(tap for tap, _ in named)
    for each in (taps, named):
        if len({str(name).lower() for name in each}) < len(each):
            raise SettingError("DuckDB does not tell names apart that differ in case alone", hint="ask them one by one")
    connection.execute(f"ATTACH ':memory:' AS {RAW}")
    for tap in taps:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(RAW, tap)}")
    for pair in named:
        table, rows = quoted(RAW, *pair), streams(*pair, None)
        shown = _shown(rows.schema.names)
        connection.register(_ONE, rows.schema.empty_table().rename_columns([*shown]))
        if len(named) == 1:
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM {_ONE}")  # noqa: S608
            needed = _needed(connection, statement, shown)
            rows = rows if needed is None else streams(*pair, needed)
            connection.execute(f"DROP VIEW {table}")
        # What a statement names and does not need is null.
        connection.execute(f"CREATE TABLE {table} AS SELECT * FROM {_ONE}")  # noqa: S608
        connection.unregister(_ONE)
        connection.register(_ONE, rows)
        names = ", ".join(quoted(name) for name, of in shown.items() if of in rows.schema.names)
        connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM {_ONE} AS stored({names})")  # noqa: S608
        connection.unregister(_ONE)


def _needed(connection: DuckDBPyConnection, statement: str, shown: Mapping[str, str]) -> list[str] | None:
    """The columns of which a statement needs the values, of those that are ``shown``; None for all of them."""
    duckdb = require_duckdb()
    try:
        plan = json.loads(connection.execute(f"EXPLAIN (FORMAT json) {statement}").fetchall()[0][1])
    except duckdb.Error:
        # A view has less than a table, such as rowid.
        return None
    scans = list(_scans(plan))
    if not scans or not all(scans):
        return None
    # A nested property is named with its way.
    read = [f"{each}." for each in chain(*scans)]
    return [of for name, of in shown.items() if any(each.startswith(f"{name}.") for each in read)]


def _shown(names: Sequence[str]) -> dict[str, str]:
    """The columns of a stream by the names that tables give them: DuckDB does not tell ``id`` and ``ID`` apart."""
    shown: dict[str, str] = {}
    for name in names:
        shown[free_name(name, {each.lower() for each in shown})] = name
    return shown


def _scans(plan: Any) -> Iterator[list[str]]:
    """The columns that each scan of Arrow in a plan reads; none where the plan does not say."""
    for node in plan if isinstance(plan, list) else [plan]:
        if "ARROW" in node.get("name", ""):
            said = node.get("extra_info", {}).get("Projections", [])
            yield [said] if isinstance(said, str) else list(said)
        yield from _scans(node.get("children", []))
