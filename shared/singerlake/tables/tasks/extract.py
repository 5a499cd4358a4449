"""Reading offsets of a stream into rows: sorted for the tasks that come next, or straight into files of the table."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from singerlake.arrow.decode.decode import BatchDecoder
from singerlake.arrow.plan.request import MessageKinds, Request
from singerlake.arrow.plan.splits import Split
from singerlake.arrow.scan import scan
from singerlake.clock import random_id
from singerlake.format import layout
from singerlake.storage.port import Storage
from singerlake.tables.rows.convert import RowMaker, Seen, without_working
from singerlake.tables.rows.deletions import in_force
from singerlake.tables.rows.order import by_key, rows_up_to, sorted_rows
from singerlake.tables.rows.partitions import with_partitions
from singerlake.tables.rows.winners import winners
from singerlake.tables.state.keys import scratch_path
from singerlake.tables.state.model import Activation, TableFile
from singerlake.tables.state.types import sort_key
from singerlake.tables.tasks.files import FileSpec, write_files
from singerlake.tables.tasks.sorted_chunks import SortedChunk, write_chunk
from singerlake.work.engine import Task

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Extracted:
    """What a task made of its offsets: sorted rows on their way, or files. ``touched`` are the ranges of the table,
    counted from 0, in which any of the rows lies; the last one is that after all files."""

    seen: Seen
    touched: frozenset[int] = frozenset()
    chunks: tuple[SortedChunk, ...] = ()
    files: tuple[TableFile, ...] = ()


@dataclass(frozen=True)
class Extract(Task[tuple[Split, ...], Extracted]):
    """The task. ``straight``: rows go into files of the table as they come. ``key`` and ``order_by`` are the table's
    names of columns; ``key`` is empty in a table that keeps all records. The sorted rows are in
    the order ``order``. ``reduce``: a record that another one of the
    same task wins over may be left out. ``bounds`` are the last positions of the table's files, ``activations``
    what came before the new messages."""

    maker: RowMaker
    messages: MessageKinds
    spec: FileSpec
    run: str
    order: tuple[str, ...]
    key: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    straight: bool = False
    reduce: bool = False
    bounds: tuple[tuple[Any, ...], ...] = ()
    activations: tuple[Activation, ...] = ()
    request: Request = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "request", Request(metadata=True, messages=self.messages))

    def size(self, item: tuple[Split, ...]) -> int:
        """Raw bytes count here: each partition is work enough for a task of its own."""
        return sum(split.raw_bytes for split in item)

    def __call__(self, storage: Storage, item: tuple[Split, ...]) -> Extracted:
        seen = Seen()
        rows = self._rows(storage, item, seen)
        if rows is None or not rows.num_rows or seen.failed:
            return Extracted(seen)
        if self.straight:
            rows = in_force(rows, self.activations)
            return Extracted(seen, files=tuple(write_files(storage, self.spec, without_working(rows), None)))
        sorted_by: tuple[str, ...] = ()
        if self.reduce and seen.has_one_version:
            rows, sorted_by = by_key(winners(rows, self.key, self.order_by), self.key), self.key
        rows = with_partitions(rows, self.spec.partitions)
        if self.order != sorted_by:
            rows = sorted_rows(rows, self.order)
        touched = touched_ranges(rows, self.order, self.bounds)
        key = self.spec.prefix + scratch_path(self.run, random_id())
        return Extracted(seen, touched, chunks=(write_chunk(storage, key, rows, self.order),))

    def _rows(self, storage: Storage, item: tuple[Split, ...], seen: Seen) -> pa.Table | None:
        import pyarrow as pa

        columns = self.maker.columns
        schema = columns.read_schema(self.messages)
        decoder = BatchDecoder(columns.reads(self.messages), schema, self.request, columns.known)
        prefix = layout.stream_prefix(self.maker.declaration.tap, self.maker.declaration.stream)
        made = [self.maker.rows(batch, seen) for batch in scan(storage, prefix, item, decoder)]
        return pa.concat_tables(made) if made else None


def touched_ranges(rows: pa.Table, order: Sequence[str], bounds: Sequence[tuple[Any, ...]]) -> frozenset[int]:
    """The ranges in which any of the sorted ``rows`` lies: range i ends with bound i."""
    if rows.num_rows < len(bounds):
        # A search in the rows looks at single values, which takes Arrow long: few rows are looked for instead.
        keys = [sort_key(bound) for bound in bounds]
        values = zip(*(rows.column(name).to_pylist() for name in order), strict=True)
        return frozenset(bisect_left(keys, sort_key(each)) for each in values)
    ends = [rows_up_to(rows, order, bound) for bound in bounds]
    return frozenset(index for index, (begin, end) in enumerate(pairwise([0, *ends, rows.num_rows])) if end > begin)
