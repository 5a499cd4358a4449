"""An engine of statements without Spark: ``SELECT FROM a, b`` gives the ids of all rows of these tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from singerlake.arrow.schema.columns import Field, Integer, Struct
from singerlake.arrow.schema.own import OFFSET
from singerlake.storage.port import Storage
from singerlake.tables.run.sql_engine import Find, RowsTask, Shown

COLUMNS = Struct((Field("id", Integer()),))


def nothing() -> None:
    """What happens while a statement runs."""


@dataclass
class Ids:
    """``row_by_row``: it tells that statements with one table are. ``ran`` are the statements that were run, ``given``
    what the last one gave, ``open`` those that were not closed. Each row is a part of its own."""

    storage: Storage
    columns: Struct = COLUMNS
    row_by_row: bool = False
    meanwhile: Callable[[], None] = nothing
    ran: list[str] = field(default_factory=list)
    given: list[int] = field(default_factory=list)
    open: list[IdsQuery] = field(default_factory=list)

    def __call__(self) -> Ids:
        return self

    def query(self, statement: str, names: Sequence[str], find: Find) -> IdsQuery:
        tables = [find(f"`{name.strip()}`") for name in statement.removeprefix("SELECT FROM ").split(",")]
        self.ran.append(statement)
        query = IdsQuery(self, tables, self.columns)
        self.open.append(query)
        return query


@dataclass(eq=False)
class IdsQuery:
    engine: Ids
    tables: Sequence[Shown]
    columns: Struct

    @property
    def row_by_row(self) -> str | None:
        return self.tables[0].table.name if self.engine.row_by_row and len(self.tables) == 1 else None

    def write(self, task: RowsTask) -> list[Any]:
        self.engine.meanwhile()
        ids = [row["id"] for shown in self.tables for row in _rows(shown)]
        self.engine.given = ids
        parts = [[pa.record_batch([pa.array([each])] * len(self.columns.fields), names=self._names)] for each in ids]
        return [task(self.engine.storage, iter(part)) for part in parts]

    def close(self) -> None:
        self.engine.open.remove(self)

    @property
    def _names(self) -> list[str]:
        return [field.name for field in self.columns.fields]


def _rows(shown: Shown) -> list[dict[str, Any]]:
    """What a statement sees of a table."""
    rows = shown.table.to_arrow().read_all().to_pylist()
    return [row for row in rows if not shown.start or row[OFFSET] >= shown.start]
