"""Tables of the stream ``t.s`` and of statements over them, and runs of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from singerlake.lake import Lake
from singerlake.tables.declaration.model import Keep, TableDeclaration
from singerlake.tables.declaration.streams import Declared, resolve
from singerlake.tables.project import run_tables
from singerlake.tables.run.one_table import TableResult
from tests.lakes import build_stream
from tests.tables.sql.engine import Ids

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}


def more(lake: Lake, count: int, stream: str = "s") -> None:
    build_stream(lake, "t", stream, SCHEMA, [{"id": number} for number in range(count)])


def source(name: str = "base", stream: str = "s") -> TableDeclaration:
    return TableDeclaration(name=name, tap="t", stream=stream, keep=Keep.APPEND)


def made_by(name: str, tables: str, **more: Any) -> TableDeclaration:
    sql = f"SELECT FROM {tables}"
    return TableDeclaration(name=name, tap="", stream="", keep=Keep.APPEND, sql=sql, **more)


def run(
    lake: Lake, engine: Callable[[], Ids], *tables: TableDeclaration, full_refresh: bool = False
) -> dict[str, TableResult]:
    results = run_tables(lake.table_runner(sql=engine), resolved(*tables), full_refresh=full_refresh)
    return {each.declaration.name: each for each in results}


def resolved(*tables: TableDeclaration) -> Any:
    declared = [Declared(name=each.name, source=(each.tap, each.stream), template=each) for each in tables]
    found, failed = resolve(declared, {"t": ["s", "other"]})
    assert not failed
    return found


def ids(lake: Lake, table: str) -> list[int]:
    return [row["id"] for row in lake.table(table).to_arrow(columns=["id"]).read_all().to_pylist()]
