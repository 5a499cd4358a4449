"""Lakes with one table of people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from singerlake.conditions import parse_where
from singerlake.lake import Lake
from singerlake.tables.declaration.model import TableDeclaration
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.erase.erase import erase_messages
from singerlake.upkeep.gc.expire import Cut, expire_messages
from tests.lakes import Line, build_stream
from tests.storage.memory import MemoryStorage
from tests.tables.tables import STREAM, TABLE, TAP, memory_lake, runner_of

SCHEMA: Any = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
LATEST = TableDeclaration(name=TABLE, tap=TAP, stream=STREAM)
TEN = [{"id": n % 4, "name": f"n{n}"} for n in range(10)]
"""Four keys, the first two of them three times."""


def add(lake: Lake, records: Sequence[Line], *, tap: str = TAP, schema: Any = SCHEMA, **options: Any) -> None:
    """Capture records, two a file; the clock moves on by a minute."""
    options = {"key_properties": ("id",), "file_size": 2, **options}
    build_stream(lake, tap, STREAM, schema, records, **options)
    lake.clock.sleep(60)


def captured(records: Sequence[Line] = TEN, **options: Any) -> Lake:
    """A lake with one stream."""
    lake = memory_lake()
    add(lake, records, **options)
    return lake


def run(lake: Lake, declaration: TableDeclaration = LATEST) -> None:
    """Bring the table up to its stream."""
    runner_of(lake).run(declaration)


def context(lake: Lake) -> StreamContext:
    return StreamContext(lake.storage, TAP, STREAM, lake.clock, lake.ids, lake.stream(TAP, STREAM).store())


def erase(lake: Lake, where: str) -> None:
    erase_messages(context(lake), parse_where(where, "--where"), who="a-test", dry_run=False)


def expire(lake: Lake, before: int) -> None:
    expire_messages(context(lake), Cut(before=before), dry_run=False)


def contents(lake: Lake) -> dict[str, bytes]:
    """Every object of a lake."""
    assert isinstance(lake.storage, MemoryStorage)
    found = {entry.key: lake.storage.get(entry.key) for entry in lake.storage.list("")}
    return {key: stored.body for key, stored in found.items() if stored is not None}


def rows_as_of(lake: Lake, point: Any) -> list[dict[str, Any]]:
    """``id`` and ``name`` of each row."""
    return lake.table(TABLE, as_of=point).to_arrow(columns=["id", "name"]).read_all().to_pylist()
