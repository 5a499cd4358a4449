"""What tables of statements ask of an engine that knows SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from singerlake.arrow.schema.columns import Struct
from singerlake.errors import SettingError
from singerlake.storage.port import Storage
from singerlake.tables.read import LakeTable

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Shown:
    """What a statement sees of a table: the rows of ``table``, without those of records with offsets below ``start``
    where it is not 0."""

    table: LakeTable
    start: int = 0


Find = Callable[[str], Shown]
"""Gives what a statement sees of the table that a name in it means. Raises ``SettingError`` where there is none."""


class RowsTask(Protocol):
    """What is done with a part of the rows. Tasks and answers are pickled."""

    def __call__(self, storage: Storage, batches: Iterator[pa.RecordBatch], /) -> Any:
        """Raises what storage raises."""
        ...


class Query(Protocol):
    """A statement that was understood. ``columns`` are those of its rows. ``row_by_row`` is the one table that it reads
    once, where it is sure to give of each row, at any time, what it gives of that row alone; else None."""

    @property
    def columns(self) -> Struct: ...

    @property
    def row_by_row(self) -> str | None: ...

    def write(self, task: RowsTask, /) -> list[Any]:
        """What ``task`` says of each part of the rows, in the order of the rows where the statement has one. Raises
        ``SettingError`` where the statement fails on the rows that there are, and what the task raises."""
        ...

    def close(self) -> None:
        """Give back what the engine holds for it, if nobody did. ``write`` cannot be called after that."""
        ...


class SqlEngine(Protocol):
    """Runs statements over tables of a lake."""

    def query(self, statement: str, names: Sequence[str], find: Find, /) -> Query:
        """``find`` is asked for each table that the statement reads, and for no other one of the lake's, whose names
        are ``names``. Raises ``SettingError`` where the statement is not a query, names what is not there, or gives
        columns of types that tables do not have; and what ``find`` raises."""
        ...


@runtime_checkable
class KnowsSql(Protocol):
    """An engine of tasks that runs statements, too."""

    def sql(self) -> SqlEngine: ...


def without_spark() -> SqlEngine:
    """What there is where no Spark is: raises ``SettingError``."""
    raise SettingError(
        "tables made by 'sql' need Spark",
        hint="run with --engine spark, or from Python with engine=singerlake.spark.spark_engine(spark, lake)",
    )
