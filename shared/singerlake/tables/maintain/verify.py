"""Verifying tables: files against what the state says of them, and rows against what raw says they should be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from singerlake.errors import BrokenFileError, CorruptObjectError, MissingFileError
from singerlake.storage.port import Storage
from singerlake.tables.delta.log import log_prefix
from singerlake.tables.delta.publish import disagreements, has_log
from singerlake.tables.rows.conform import conformed
from singerlake.tables.rows.order import differing
from singerlake.tables.run.one_table import TableRunner
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import TableFile, TableState
from singerlake.tables.tasks.files import check_written, read_hidden, read_rows
from singerlake.work.engine import Engine, Task

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TableFinding:
    """What is wrong with a table: with the object at ``key``, or with its rows where that is empty."""

    table: str
    key: str
    what: str


@dataclass(frozen=True, slots=True)
class _CheckFile(Task[TableFile, tuple[str, ...]]):
    """The task: each file of a table is there, whole, and holds as many rows as the state says."""

    prefix: str

    def size(self, item: TableFile) -> int:
        return item.bytes

    def __call__(self, storage: Storage, item: TableFile) -> tuple[str, ...]:
        found = []
        for check in (read_rows, read_hidden, check_written):
            try:
                check(storage, self.prefix, item)
            except (MissingFileError, BrokenFileError) as error:
                found.append(str(error))
        return tuple(found)


def verify_files(engine: Engine, state: TableState) -> Iterator[TableFinding]:
    """What is wrong with the files of a table. Raises what storage raises."""
    prefix = table_prefix(state.table)
    for file, found in engine(_CheckFile(prefix), state.files):
        for what in found:
            yield TableFinding(state.table, prefix + (file.path or ""), what)


def verify_log(storage: Storage, state: TableState) -> Iterator[TableFinding]:
    """What of the Delta log of a table is not as its state has it. Raises what storage raises."""
    if not has_log(state):
        return
    try:
        for what in disagreements(storage, state.table):
            yield TableFinding(state.table, log_prefix(state.table), what)
    except CorruptObjectError as error:
        yield TableFinding(state.table, str(error.context.get("key", log_prefix(state.table))), str(error))


def verify_rows(runner: TableRunner, state: TableState) -> Iterator[TableFinding]:
    """Whether a table equals what its stream gives up to the same offset: it is made once more beside, compared row by
    row, and removed again. Raises as ``TableRunner.run``."""
    with runner.made_anew(state) as made:
        before = _rows(runner.storage, state)
        after = _rows(runner.storage, made)
        offset = 0
        left, right = next(before, None), next(after, None)
        while left is not None and right is not None:
            count = min(left.num_rows, right.num_rows)
            row = _first_difference(left.slice(0, count), conformed(right.slice(0, count), left.schema))
            if row is not None:
                yield TableFinding(state.table, "", f"row {offset + row} is not what raw says")
                return
            offset += count
            left = left.slice(count) if count < left.num_rows else next(before, None)
            right = right.slice(count) if count < right.num_rows else next(after, None)
        if left is not None or right is not None:
            yield TableFinding(state.table, "", f"it has {state.rows} rows, raw says {made.rows}")


def _rows(storage: Storage, state: TableState) -> Iterator[pa.Table]:
    for file in state.files:
        rows = read_rows(storage, table_prefix(state.table), file)
        if rows is not None and rows.num_rows:
            yield rows


def _first_difference(left: pa.Table, right: pa.Table) -> int | None:
    import pyarrow.compute as pc

    rows = []
    for name in left.column_names:
        row = pc.index(differing(left.column(name), right.column(name)), True).as_py()
        if row >= 0:
            rows.append(row)
    return min(rows, default=None)
