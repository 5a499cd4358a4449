"""An engine of statements without Spark: ``SELECT FROM a, b`` gives the ids of all rows of these tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from singerlake.arrow.schema.columns import Field, Integer, Struct
from singerlake.projections.read import LakeTable
from singerlake.projections.sql.port import Find, RowsTask
from singerlake.storage.port import Storage

COLUMNS = Struct((Field("id", Integer()),))


def nothing() -> None:
    """What happens while a statement runs."""


@dataclass
class Ids:
    """``ran`` are the statements that were run, ``open`` those that were not closed. Each row is a part of
    its own."""

    storage: Storage
    columns: Struct = COLUMNS
    meanwhile: Callable[[], None] = nothing
    ran: list[str] = field(default_factory=list)
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
    tables: Sequence[LakeTable]
    columns: Struct

    def write(self, task: RowsTask) -> list[Any]:
        self.engine.meanwhile()
        ids = [row["id"] for table in self.tables for row in table.to_arrow(columns=["id"]).read_all().to_pylist()]
        parts = [[pa.record_batch([pa.array([each])] * len(self.columns.fields), names=self._names)] for each in ids]
        return [task(self.engine.storage, iter(part)) for part in parts]

    def close(self) -> None:
        self.engine.open.remove(self)

    @property
    def _names(self) -> list[str]:
        return [field.name for field in self.columns.fields]
