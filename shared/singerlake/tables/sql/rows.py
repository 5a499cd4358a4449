"""From the rows of a statement to the files of a table: straight, or sorted first. Engines know years that ISO
8601 has no four digits for: no table can have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from singerlake.arrow.schema.columns import Struct
from singerlake.arrow.schema.types import arrow_schema
from singerlake.clock import random_id
from singerlake.errors import SettingError
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import Action, Check
from singerlake.tables.rows.conditions import holds
from singerlake.tables.rows.conform import conformed
from singerlake.tables.rows.convert import Seen
from singerlake.tables.rows.order import sorted_rows
from singerlake.tables.rows.partitions import with_partitions
from singerlake.tables.sql.columns import ROW
from singerlake.tables.state.keys import scratch_path
from singerlake.tables.state.model import TableFile
from singerlake.tables.tasks.duplicates import ValueRange
from singerlake.tables.tasks.sorted_run import SortedRun, read_run, write_run
from singerlake.tables.tasks.write_file import Place, write_files

if TYPE_CHECKING:
    import pyarrow as pa


_EPOCH = date(1970, 1, 1)
_FIRST, _LAST = (date.min - _EPOCH).days, (date.max - _EPOCH).days
_DAY = 86_400_000_000
"""In microseconds."""


def refuse_far_times(rows: pa.Table) -> None:
    """Raise ``SettingError`` where a date or a timestamp is not of the years 1 to 9999."""
    for name in rows.column_names:
        if any(map(_is_far, _times(rows.column(name)))):
            raise SettingError(
                f"column {name!r} of the statement has a date or a time beyond the years 1 to 9999, which no table has",
                hint="leave such rows out with WHERE, or cast the column to STRING",
            )


def _times(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    """The dates and times of a column, nested ones too."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        yield column
    elif pa.types.is_list(column.type):
        yield from _times(pc.list_flatten(column))
    elif pa.types.is_struct(column.type):
        for field in column.flatten():
            yield from _times(field)


def _is_far(column: pa.ChunkedArray) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    is_date = pa.types.is_date(column.type)
    ends = pc.min_max(column.cast(pa.int32() if is_date else pa.int64()))
    least, greatest = ends["min"].as_py(), ends["max"].as_py()
    if least is None:
        return False
    first, last = (_FIRST, _LAST) if is_date else (_FIRST * _DAY, (_LAST + 1) * _DAY - 1)
    return bool(least < first or greatest > last)


HELD_BYTES = 64 << 20
"""Of rows that a task holds at once: a file, or a part of one that is sorted."""


@dataclass
class Written:
    """What a task made of its rows: files, or sorted rows on their way."""

    seen: Seen
    files: tuple[TableFile, ...] = ()
    runs: tuple[SortedRun, ...] = ()


@dataclass(frozen=True)
class WriteRows:
    """The task: the rows of one part. ``columns`` are the table's. With ``order`` rows are sorted by it, and other
    tasks make files of them; without, files have them as they come."""

    place: Place
    run: str
    columns: Struct
    checks: tuple[Check, ...]
    order: tuple[str, ...]

    def __call__(self, storage: Storage, batches: Iterator[pa.RecordBatch]) -> Written:
        made = Written(Seen())
        for rows in self._held(batches):
            fine = self._checked(rows, made.seen)
            if not fine.num_rows or made.seen.failed:
                continue
            if self.order:
                made.runs += (self._sorted(storage, fine, made.seen.records),)
            else:
                made.files += tuple(write_files(storage, self.place, fine, None))
            made.seen.records += fine.num_rows
        return made

    def _held(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        import pyarrow as pa

        schema = arrow_schema(self.columns)
        held: list[pa.Table] = []
        for batch in batches:
            if batch.num_rows:
                held.append(conformed(pa.Table.from_batches([batch]), schema))
                refuse_far_times(held[-1])
            if sum(rows.nbytes for rows in held) >= HELD_BYTES:
                yield pa.concat_tables(held)
                held = []
        if held:
            yield pa.concat_tables(held)

    def _checked(self, rows: pa.Table, seen: Seen) -> pa.Table:
        """Without the rows that a check leaves out."""
        import pyarrow.compute as pc

        kept = None
        counts = {Action.FAIL: seen.failed, Action.DROP: seen.dropped, Action.WARN: seen.warned}
        for check in self.checks:
            if check.condition is None:
                continue
            column = self.columns.get(check.column)
            assert column is not None
            held = holds(check.condition, rows.column(check.column), column.type, unknown=True)
            wrong = rows.num_rows - (pc.sum(held).as_py() or 0)
            if wrong:
                counts[check.action][check.name] += wrong
                if check.action is Action.DROP:
                    kept = held if kept is None else pc.and_(kept, held)
        return rows if kept is None else rows.filter(kept)

    def _sorted(self, storage: Storage, rows: pa.Table, before: int) -> SortedRun:
        import numpy as np
        import pyarrow as pa

        numbers = pa.array(np.arange(before, before + rows.num_rows))
        rows = with_partitions(rows, self.place.partitions).append_column(ROW, numbers)
        key = self.place.prefix + scratch_path(self.run, random_id())
        return write_run(storage, key, sorted_rows(rows, self.order), self.order)


@dataclass(frozen=True)
class WriteRange:
    """The task: the files of one range of sorted rows."""

    place: Place
    order: tuple[str, ...]

    def size(self, item: ValueRange) -> int:
        return sum(run.memory for run in item.runs)

    def together(self, storage: Storage, items: Sequence[ValueRange]) -> list[tuple[TableFile, ...]]:
        return [self(storage, item) for item in items]

    def __call__(self, storage: Storage, item: ValueRange) -> tuple[TableFile, ...]:
        import pyarrow as pa

        found = (read_run(storage, run, self.order, item.after, item.up_to) for run in item.runs)
        parts = [rows for rows in found if rows is not None]
        if not parts:
            return ()
        rows = sorted_rows(pa.concat_tables(parts), self.order).drop_columns([ROW])
        return tuple(write_files(storage, self.place, rows, None))
