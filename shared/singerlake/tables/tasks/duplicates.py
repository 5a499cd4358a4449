"""Finding values that a column of a table has more than once: files are sorted by it, then ranges of it are counted."""

from __future__ import annotations

from dataclasses import dataclass

from singerlake.arrow.schema.own import OFFSET
from singerlake.clock import random_id
from singerlake.storage.port import Storage
from singerlake.tables.rows.convert import SHOWN
from singerlake.tables.rows.order import is_last_of, sorted_rows
from singerlake.tables.state.keys import scratch_path
from singerlake.tables.state.model import TableFile
from singerlake.tables.tasks.files import read_rows
from singerlake.tables.tasks.sorted_chunks import ChunkRange, SortedChunk, write_chunk
from singerlake.work.engine import Task


@dataclass(frozen=True)
class SortColumn(Task[TableFile, SortedChunk | None]):
    """The task: the values of one column of a file, in order, but for nulls; None where there are none. ``prefix`` is
    the table's; ``beside`` are the columns that come along, with which ``CountDuplicates`` names rows."""

    prefix: str
    run: str
    column: str
    beside: tuple[str, ...] = (OFFSET,)

    def size(self, item: TableFile) -> int:
        return item.bytes

    def __call__(self, storage: Storage, item: TableFile) -> SortedChunk | None:
        import pyarrow.compute as pc

        names = [self.column, *self.beside]
        rows = read_rows(storage, self.prefix, item, names)
        if rows is None or self.column not in rows.column_names:
            return None
        rows = rows.filter(pc.is_valid(rows.column(self.column))).select(names)
        if not rows.num_rows:
            return None
        key = self.prefix + scratch_path(self.run, random_id())
        return write_chunk(storage, key, sorted_rows(rows, [self.column]), (self.column,))


@dataclass(frozen=True)
class CountDuplicates(Task[ChunkRange, tuple[int, list[int]]]):
    """The task: how many rows of a range have a value that an earlier row has, and the first offsets of them, where
    rows have one."""

    column: str
    beside: tuple[str, ...] = (OFFSET,)

    def size(self, item: ChunkRange) -> int:
        return item.memory

    def __call__(self, storage: Storage, item: ChunkRange) -> tuple[int, list[int]]:
        import pyarrow as pa
        import pyarrow.compute as pc

        pieces = item.read(storage, (self.column,))
        if not pieces:
            return 0, []
        rows = sorted_rows(pa.concat_tables(pieces), [self.column, *self.beside])
        more = rows.filter(pc.invert(is_last_of(rows, [self.column])))
        return more.num_rows, more.column(OFFSET).slice(0, SHOWN).to_pylist() if self.beside else []
