"""Writing ranges of a table anew, from what its files hold there and the new rows that belong there.

A table in the order of its key is arranged: new rows meet earlier ones of their key in one range (``Arrange``). In any
other order each file is searched for the new keys (``Find``), what is found of a key is settled with what is new
(``Resolve``), and then rows go and come where they lie (``Replace``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from singerlake.arrow.schema.own import OFFSET
from singerlake.clock import random_id
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import Keep
from singerlake.tables.rows.columns import DELETED, HIDDEN, TableColumns
from singerlake.tables.rows.conform import conformed
from singerlake.tables.rows.convert import working_schema
from singerlake.tables.rows.deletions import in_force, without_gone
from singerlake.tables.rows.order import are_among, between, distinct, rows_up_to, sort_indices, sorted_rows
from singerlake.tables.rows.partitions import with_partitions
from singerlake.tables.rows.winners import Settled, history, latest
from singerlake.tables.state.keys import scratch_path
from singerlake.tables.state.model import Activation, TableFile
from singerlake.tables.tasks.extract import touched_ranges
from singerlake.tables.tasks.files import FileSpec, open_hidden, open_rows, read_hidden, read_rows, write_files
from singerlake.tables.tasks.sorted_chunks import ChunkRange, SortedChunk, read_chunk, write_chunk
from singerlake.work.engine import Task

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Region(ChunkRange):
    """A range of the table: ``files`` hold its earlier rows, ``chunks`` new ones."""

    files: tuple[TableFile, ...]

    @property
    def memory(self) -> int:
        return super().memory + sum(4 * file.bytes for file in self.files)

    def inside(self, rows: pa.Table, spec: FileSpec) -> pa.Table:
        """The earlier ``rows`` that are in the region, with their partitions."""
        rows = with_partitions(rows, spec.partitions)
        if self.after is None and self.up_to is None:
            return rows
        return between(sorted_rows(rows, spec.order), spec.order, self.after, self.up_to)


@dataclass(frozen=True)
class Settle:
    """Which of all rows of some keys stay. ``activations`` are those up to the run's end that matter, in order; new
    rows have offsets from ``start`` on."""

    keep: Keep
    columns: TableColumns
    key: tuple[str, ...]
    order_by: tuple[str, ...]
    activations: tuple[Activation, ...]
    start: int

    def __call__(self, rows: pa.Table) -> Settled:
        import pyarrow.compute as pc

        rows = in_force(rows, self.activations)
        if self.keep is Keep.HISTORY:
            return history(rows, self.key, self.order_by, activations=self.activations, start=self.start)
        rows, gone = without_gone(rows, self.columns, self.activations, self.key)
        if self.keep is Keep.LATEST:
            settled = latest(rows, self.key, self.order_by, start=self.start, late=bool(self.order_by))
        else:
            new = pc.sum(pc.greater_equal(rows.column(OFFSET), self.start)).as_py() or 0
            settled = Settled(rows, rows.slice(0, 0), inserted=new)
        return replace(settled, deleted=settled.deleted + gone)


@dataclass(frozen=True)
class Arranged:
    """The files that hold the range now, in order."""

    files: tuple[TableFile, ...]
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class Arrange(Task[Region, Arranged]):
    """The task: the rows of a region, of which new ones and earlier ones of the same keys are settled."""

    settle: Settle
    spec: FileSpec

    def size(self, item: Region) -> int:
        return item.memory

    def __call__(self, storage: Storage, item: Region) -> Arranged:
        settled = self.settle(self._rows(storage, item))
        hidden = sorted_rows(settled.hidden, self.spec.order)
        kept = settled.rows if self.spec.order == self.settle.key else sorted_rows(settled.rows, self.spec.order)
        files = write_files(storage, self.spec, kept, hidden)
        return Arranged(tuple(files), settled.inserted, settled.updated, settled.deleted)

    def _rows(self, storage: Storage, item: Region) -> pa.Table:
        """Earlier rows and hidden records, then new rows, of the region alone."""
        import pyarrow as pa

        schema = working_schema(self.settle.columns, self.settle.keep)
        none = with_partitions(schema.empty_table(), self.spec.partitions)
        pieces = [none]
        for file in item.files:
            rows, hidden = (read(storage, self.spec.prefix, file) for read in (read_rows, read_hidden))
            if rows is not None:
                pieces.append(item.inside(marked(conformed(rows, schema), DELETED, False), self.spec))
            if hidden is not None:
                pieces.append(item.inside(conformed(hidden, schema), self.spec))
        pieces += [new.select(none.column_names) for new in item.read(storage, self.spec.order)]
        return pa.concat_tables(pieces)


Bound = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class FileRows:
    """Positions of rows and of hidden records in one file, int64, each counted from 0. They tell records apart where
    offsets do not: an ACTIVATE_VERSION may hide one of each key."""

    rows: pa.Int64Array
    hidden: pa.Int64Array


@dataclass(frozen=True)
class FoundRows:
    """What some files have of the new keys: ``chunk`` in the order of the key (None: nothing), and the ``positions`` of
    the same rows, by the id of the file."""

    chunk: SortedChunk | None
    positions: Mapping[str, FileRows]


@dataclass(frozen=True)
class Find(Task[Sequence[TableFile], FoundRows]):
    """The task; an item is some files of the table. ``chunks`` hold the new records in the order of ``key``. ``cuts``
    are keys that cut them into ranges, so that the keys of one range fit into memory; ``run`` is the id of the table's
    run."""

    keep: Keep
    columns: TableColumns
    prefix: str
    run: str
    key: tuple[str, ...]
    chunks: tuple[SortedChunk, ...]
    cuts: tuple[Bound, ...]

    def size(self, item: Sequence[TableFile]) -> int:
        return sum(file.bytes for file in item)

    def __call__(self, storage: Storage, item: Sequence[TableFile]) -> FoundRows:
        import pyarrow as pa

        schema = working_schema(self.columns, self.keep)
        # The keys of a single range stay for all files; of several, each file reads one after the other.
        wanted = None if self.cuts else list(self._wanted(storage))
        pieces: list[pa.Table] = []
        positions: dict[str, FileRows] = {}
        for file in item:
            found = []
            for opened in (open_rows(storage, self.prefix, file), open_hidden(storage, self.prefix, file)):
                keys = opened(self.key) if opened is not None else None
                at = self._positions(keys, wanted if wanted is not None else self._wanted(storage))
                found.append(at)
                if opened is not None and len(at):
                    rows = conformed(opened(None).take(at), schema)
                    pieces.append(marked(rows, DELETED, False) if len(found) == 1 else rows)
            if any(map(len, found)):
                positions[file.id] = FileRows(*found)
        if not pieces:
            return FoundRows(None, {})
        rows = sorted_rows(pa.concat_tables(pieces), self.key)
        return FoundRows(
            write_chunk(storage, self.prefix + scratch_path(self.run, random_id()), rows, self.key), positions
        )

    def _wanted(self, storage: Storage) -> Iterator[_Range]:
        """The new keys of each range, each once."""
        import pyarrow as pa

        after = None
        for up_to in [*self.cuts, None]:
            read = (read_chunk(storage, chunk, self.key, after, up_to, columns=self.key) for chunk in self.chunks)
            pieces = [rows for rows in read if rows is not None]
            if pieces:
                yield _Range(after, up_to, distinct(pa.concat_tables(pieces), self.key))
            after = up_to

    def _positions(self, keys: pa.Table | None, wanted: Iterable[_Range]) -> pa.Int64Array:
        """Where the new keys are among ``keys``, which are those of a file, in ascending order."""
        import numpy as np
        import pyarrow as pa

        if keys is None:
            return pa.array([], pa.int64())
        schema = self.columns.schema
        keys = conformed(keys, pa.schema([schema.field(name) for name in self.key]))
        positions = np.arange(keys.num_rows)
        if self.cuts:
            positions = sort_indices(keys, self.key, nulls_first=False).to_numpy()
            keys = keys.take(positions)
        is_new = np.zeros(keys.num_rows, bool)
        for each in wanted:
            begin = 0 if each.after is None else rows_up_to(keys, self.key, each.after)
            end = keys.num_rows if each.up_to is None else rows_up_to(keys, self.key, each.up_to)
            is_new[begin:end] |= are_among(keys.slice(begin, max(0, end - begin)), each.keys, self.key).to_numpy(False)
        return pa.array(np.sort(positions[is_new]).astype(np.int64))


@dataclass(frozen=True, slots=True)
class _Range:
    """New ``keys`` after one key and not after another."""

    after: Bound | None
    up_to: Bound | None
    keys: pa.Table


def marked(rows: pa.Table, name: str, value: bool) -> pa.Table:
    """``rows`` with a column of one value."""
    import pyarrow as pa

    column = pa.chunked_array([pa.repeat(value, rows.num_rows)])
    if name in rows.column_names:
        return rows.set_column(rows.schema.get_field_index(name), name, column)
    return rows.append_column(name, column)


@dataclass(frozen=True)
class Resolved:
    """``chunk`` holds the rows and hidden records to insert, in the order of the table."""

    chunk: SortedChunk | None
    touched: frozenset[int]
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class Resolve(Task[ChunkRange, Resolved]):
    """The task: new records of some keys and earlier ones of the same keys, which ``Find`` found, are settled. ``run``
    is the id of the table's run, ``bounds`` are as of ``Extract``."""

    settle: Settle
    spec: FileSpec
    run: str
    bounds: tuple[Bound, ...]

    def size(self, item: ChunkRange) -> int:
        return item.memory

    def __call__(self, storage: Storage, item: ChunkRange) -> Resolved:
        import pyarrow as pa

        schema = working_schema(self.settle.columns, self.settle.keep)
        pieces = [rows.select(schema.names) for rows in item.read(storage, self.settle.key)]
        return self._answer(storage, self.settle(pa.concat_tables([schema.empty_table(), *pieces])))

    def _answer(self, storage: Storage, settled: Settled) -> Resolved:
        import pyarrow as pa

        schema = working_schema(self.settle.columns, Keep.LATEST)
        names = [*schema.names, HIDDEN]
        shown = marked(marked(settled.rows, DELETED, False), HIDDEN, False)
        both = pa.concat_tables([shown.select(names), marked(settled.hidden, HIDDEN, True).select(names)])
        both = sorted_rows(with_partitions(both, self.spec.partitions), self.spec.order)
        if not both.num_rows:
            return Resolved(None, frozenset(), settled.inserted, settled.updated, settled.deleted)
        touched = touched_ranges(both, self.spec.order, self.bounds)
        chunk = write_chunk(storage, self.spec.prefix + scratch_path(self.run, random_id()), both, self.spec.order)
        return Resolved(chunk, touched, settled.inserted, settled.updated, settled.deleted)


@dataclass(frozen=True)
class Replacement:
    """A region, and what goes of its files, by the ids of these."""

    region: Region
    removed: Mapping[str, FileRows]


@dataclass(frozen=True)
class Replace(Task[Replacement, Arranged]):
    """The task: the rows of a region without those that go, and with those that come. ``activations`` matter to the
    rows that no new record touched."""

    keep: Keep
    columns: TableColumns
    spec: FileSpec
    activations: tuple[Activation, ...]

    def size(self, item: Replacement) -> int:
        return item.region.memory

    def __call__(self, storage: Storage, item: Replacement) -> Arranged:
        import pyarrow as pa
        import pyarrow.compute as pc

        schema = working_schema(self.columns, Keep.LATEST).append(pa.field(HIDDEN, pa.bool_()))
        none = with_partitions(schema.empty_table(), self.spec.partitions)
        region, order = item.region, self.spec.order
        pieces = [none]
        for file in region.files:
            removed = item.removed.get(file.id)
            rows, hidden = (read(storage, self.spec.prefix, file) for read in (read_rows, read_hidden))
            if rows is not None:
                staying = rows if removed is None else _without(rows, removed.rows)
                staying = marked(conformed(staying, schema), DELETED, False)
                pieces.append(region.inside(marked(staying, HIDDEN, False), self.spec))
            if hidden is not None:
                staying = hidden if removed is None else _without(hidden, removed.hidden)
                pieces.append(region.inside(marked(conformed(staying, schema), HIDDEN, True), self.spec))
        pieces += [new.select(none.column_names) for new in region.read(storage, order)]
        rows = pa.concat_tables(pieces)
        gone = 0
        if self.keep is not Keep.HISTORY:
            rows, gone = without_gone(rows, self.columns, self.activations)
        rows = sorted_rows(rows, order)
        is_hidden = rows.column(HIDDEN)
        files = write_files(storage, self.spec, rows.filter(pc.invert(is_hidden)), rows.filter(is_hidden))
        return Arranged(tuple(files), deleted=gone)


def _without(rows: pa.Table, gone: pa.Int64Array) -> pa.Table:
    """``rows`` but for those at these positions."""
    import numpy as np
    import pyarrow as pa

    kept = np.ones(rows.num_rows, bool)
    kept[gone.to_numpy()] = False
    return rows.filter(pa.array(kept))
