"""The rows of the tables that a statement read that made a row of its own, as DuckDB finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from singerlake.arrow.schema.columns import arrow_schema
from singerlake.arrow.schema.own import OFFSET
from singerlake.errors import SettingError
from singerlake.storage.port import Storage
from singerlake.tables.query import connected, quoted, refusals, show_table
from singerlake.tables.rows.columns import free_name
from singerlake.tables.state.commit import load
from singerlake.tables.state.model import MadeFrom, TableState, source_of
from singerlake.tables.state.types import columns_of
from singerlake.tables.why.statement import Origin, UnknownOriginError, origin_of
from singerlake.upkeep.context import LakeContext

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

_WANTED = "wanted"
_INSTALL = "to name the rows behind it takes duckdb and sqlglot: pip install 'singerlake[sql]'"
_RUN = "run 'singerlake project run'"


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The rows of ``table`` that the statement of table ``read_by`` made the row of, ``count`` of them and some as
    ``rows``. Where ``read_by`` is not the table of the row, they made those ``rows`` that are named of it. A row of a
    stream is told by its key and offset, one of a statement by all of its columns; rows that are equal in these are
    one."""

    table: str
    read_by: str
    count: int
    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Origins:
    """What made a row. ``made`` says how each column is made; ``trouble`` what of the rows is not known, and why."""

    rows: tuple[SourceRows, ...] = ()
    made: Mapping[str, str] | None = None
    trouble: str | None = None


def origins(lake: LakeContext, state: TableState, row: pa.Table, sample: int) -> Origins:
    """What made the one ``row`` of a table of a statement, ``sample`` rows of each table at most, table by table down
    to those of streams. Raises what storage raises."""
    if any(find_spec(each) is None for each in ("duckdb", "sqlglot")):
        return Origins(trouble=_INSTALL)
    found: list[SourceRows] = []
    made: Mapping[str, str] | None = None
    troubles: list[str] = []
    waiting = [(state, row)]
    while waiting:
        now, rows = waiting.pop(0)
        try:
            origin, tables = _read(lake, now)
            names = [each.name for each in now.columns]
            made = dict(zip(names, origin.made, strict=True)) if made is None else made
            for table, (count, each) in zip(tables, _found(lake.storage, origin, tables, rows, sample), strict=True):
                found.append(SourceRows(table.table, now.table, count, tuple(each.to_pylist())))
                if table.is_of_statement and each.num_rows:
                    waiting.append((table, each))
        except (UnknownOriginError, SettingError) as error:
            why = error.message if isinstance(error, SettingError) else error
            troubles.append(f"the rows behind this row of {now.table} cannot be named: {why}")
    return Origins(tuple(found), made, "; ".join(troubles) or None)


def _read(lake: LakeContext, state: TableState) -> tuple[Origin, list[TableState]]:
    """How the statement makes its rows, and the tables that it read, in the order of the origin. Raises
    ``UnknownOriginError``, also where a table has other rows by now, or rows of records that were erased since."""
    tables = {each.table: _as_read(lake, each) for each in state.made_from}
    columns = {name: columns_of(table) for name, table in tables.items()}
    origin = origin_of(str(state.declaration.get("sql")), columns, [each.name for each in state.columns])
    return origin, [tables[name] for name in origin.tables]


def _as_read(lake: LakeContext, made: MadeFrom) -> TableState:
    """A table as it was read, if it is so still, and holds nothing that was erased by now, nor do those below it."""
    stored = load(lake.storage, made.table)
    if stored is None or stored.state.rows_id != made.rows:
        raise UnknownOriginError(f"table {made.table} has other rows now than the statement read; {_RUN}")
    for source in stored.state.sources:
        became = source.outdated(source_of(lake.stream(source.tap, source.stream).snapshot()))
        if became:
            raise UnknownOriginError(f"table {made.table} is behind: {became}; {_RUN}")
    for below in stored.state.made_from:
        _as_read(lake, below)
    return stored.state


def _told_by(table: TableState) -> list[str]:
    """The columns that tell a row."""
    names = [each.name for each in table.columns]
    return names if table.is_of_statement else [*(name for name in table.key if name in names), OFFSET]


def _found(
    storage: Storage, origin: Origin, tables: Sequence[TableState], rows: pa.Table, sample: int
) -> list[tuple[int, pa.Table]]:
    """Of each table how many rows made ``rows``, and some. Raises ``UnknownOriginError``."""
    import pyarrow as pa

    with refusals(), connected() as connection:
        there = _show(connection, storage, tables)
        places = pa.array(range(rows.num_rows))
        wanted = pa.table([places, *rows.columns], names=["n", *(f"c{place}" for place in range(rows.num_columns))])
        connection.register(_WANTED, wanted)
        same = [f"{sql} IS NOT DISTINCT FROM {_WANTED}.c{place}" for place, sql in origin.pins.items()]
        meant = f"FROM {origin.source} CROSS JOIN {_WANTED} WHERE {' AND '.join([*origin.where, *same]) or 'TRUE'}"
        _check(connection, origin, meant, rows.num_rows)
        found = []
        for place, table in enumerate(tables):
            columns, types = _told_by(table), arrow_schema(columns_of(table))
            each = ", ".join(f"t{place}.{quoted(name)}" for name in columns)
            distinct = f"SELECT DISTINCT {each} {meant} AND t{place}.{quoted(there[place])}"
            ((count,),) = connection.execute(f"SELECT count(*) FROM ({distinct})").fetchall()  # noqa: S608
            some = connection.sql(f"{distinct} ORDER BY ALL LIMIT {sample}")
            schema = pa.schema([types.field(name) for name in columns])
            found.append((count, pa.RecordBatchReader.from_stream(some).read_all().cast(schema)))
        return found


def _show(connection: DuckDBPyConnection, storage: Storage, tables: Sequence[TableState]) -> list[str]:
    """Let each table be there as ``t0``, ``t1``, …; gives a column of each that is null where an outer join found no
    row of it."""
    there = []
    for place, table in enumerate(tables):
        name = free_name("there", {each.name.lower() for each in table.columns})
        show_table(connection, f"table{place}", storage, table)
        connection.execute(f"CREATE VIEW t{place} AS SELECT *, TRUE AS {quoted(name)} FROM table{place}")  # noqa: S608
        there.append(name)
    return there


def _check(connection: DuckDBPyConnection, origin: Origin, meant: str, rows: int) -> None:
    """Raise ``UnknownOriginError`` where not all of ``rows`` have an origin, or one of them more than is sure."""
    grouped = f"SELECT count(*) AS found {meant} GROUP BY {_WANTED}.n"
    ((there, most),) = connection.execute(f"SELECT count(*), max(found) FROM ({grouped})").fetchall()  # noqa: S608
    if there < rows:
        raise UnknownOriginError("the tables that it read have no row that gives it")
    if origin.unseen and most > 1:
        raise UnknownOriginError(f"{most:,} rows may have made it, and which one depends on {', '.join(origin.unseen)}")
