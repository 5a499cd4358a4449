"""Verifying tables: files against what the state says of them, and rows against what raw says they should be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from singerlake.errors import (
    BrokenFileError,
    CorruptObjectError,
    ExpiredMessagesError,
    MissingFileError,
    SingerlakeError,
    expected_errors,
)
from singerlake.glance import at_a_glance
from singerlake.storage.port import Storage
from singerlake.tables.derived import of_state
from singerlake.tables.maintain.failure import TableFailure
from singerlake.tables.rows.conform import conformed
from singerlake.tables.rows.order import differing
from singerlake.tables.run.one_table import TableRunner
from singerlake.tables.state.commit import load
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import TableFile, TableState
from singerlake.tables.tasks.files import check_written, read_hidden, read_rows
from singerlake.upkeep.result import FOR_PYTHON, Progress, Report, reporting
from singerlake.work.engine import Engine, Task, Watched

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


def verify_derived(storage: Storage, state: TableState) -> Iterator[TableFinding]:
    """What of a table's Delta log and Iceberg metadata is not as its state has it. Raises what storage raises."""
    for kind in of_state(state):
        prefix = kind.prefix_of(state.table)
        try:
            for what in kind.disagreements(storage, state.table):
                yield TableFinding(state.table, prefix, what)
        except CorruptObjectError as error:
            yield TableFinding(state.table, str(error.context.get("key", prefix)), str(error))


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


@at_a_glance
@dataclass(frozen=True, slots=True)
class CheckedTable:
    """A table whose files were checked, all of them: ``rows`` in so many ``files``, of so many stored ``bytes``."""

    table: str
    rows: int
    files: int
    bytes: int = field(metadata=FOR_PYTHON)


@at_a_glance
@dataclass(frozen=True, slots=True)
class VerifyTablesResult:
    """What is wrong with the ``tables``. ``deep``: their rows were compared with raw, too, but for those of
    ``not_compared``, for the ``reasons`` that are there by table. Tables that could not be checked are in
    ``failed``."""

    lake: str
    deep: bool
    tables: tuple[CheckedTable, ...]
    not_compared: tuple[str, ...]
    findings: tuple[TableFinding, ...]
    failed: tuple[TableFailure, ...]
    reasons: Mapping[str, str] = field(metadata=FOR_PYTHON)

    @property
    def sound(self) -> bool:
        """Whether all was checked and nothing is wrong."""
        return not self.findings and not self.failed


def verify_tables(
    storage: Storage,
    names: Sequence[str],
    *,
    deep: bool,
    engine: Callable[[int], Engine],
    runner: Callable[[Callable[[int], Engine]], TableRunner],
    progress: Report | None,
) -> VerifyTablesResult:
    """Check each table that is published. One that cannot be checked stops no other. ``engine`` gives what reads about
    so many bytes, and ``runner`` what makes a table once more with it."""
    checked: list[CheckedTable] = []
    findings: list[TableFinding] = []
    reasons: dict[str, str] = {}
    failed: list[TableFailure] = []
    for name in names:
        bar = reporting(progress, name)

        def watched(size: int, bar: Progress = bar) -> Engine:
            bar.sized(size)
            return Watched(engine(size), bar.advance)

        try:
            with expected_errors(table=name):
                found = load(storage, name)
                if found is None or not found.state.is_published:
                    continue
                state = found.state
                findings += verify_files(watched(state.bytes), state)
                findings += verify_derived(storage, state)
                if deep and not state.sources:
                    reasons[name] = "a statement made them"
                elif deep:
                    try:
                        findings += verify_rows(runner(watched), state)
                    except ExpiredMessagesError:
                        reasons[name] = "messages that they were made of have expired"
                checked.append(CheckedTable(state.table, state.rows, len(state.files), state.bytes))
        except SingerlakeError as error:
            failed.append(TableFailure(name, error))
    return VerifyTablesResult(
        storage.url, deep, tuple(checked), tuple(reasons), tuple(findings), tuple(failed), reasons
    )


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
