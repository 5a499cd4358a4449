"""Which rows of a table new records may replace, where the table is not in the order of its key.

Each file is read once and searched for the new keys. What it has of them goes into a sorted run, in the order of the
key, for ``Resolve``; ``Replace`` takes the same rows out of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from singerlake.clock import random_id
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import Keep
from singerlake.tables.rows.columns import TableColumns
from singerlake.tables.rows.conform import conformed
from singerlake.tables.rows.convert import DELETED, working_schema
from singerlake.tables.rows.order import are_among, distinct, rows_up_to, sort_indices, sorted_rows
from singerlake.tables.state.keys import scratch_path
from singerlake.tables.state.model import TableFile
from singerlake.tables.tasks.read_file import open_hidden, open_rows
from singerlake.tables.tasks.sorted_run import SortedRun, read_run, write_run

if TYPE_CHECKING:
    import pyarrow as pa

Bound = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class FileRows:
    """Places of rows and of hidden records in one file, int64, each counted from 0. They tell records apart where
    offsets do not: an ACTIVATE_VERSION may hide one of each key."""

    rows: pa.Int64Array
    hidden: pa.Int64Array


@dataclass(frozen=True)
class Found:
    """What some files have of the new keys. ``run`` holds it, in the order of the key; None: nothing. ``places`` are
    those of the same rows, by the id of the file."""

    run: SortedRun | None
    places: Mapping[str, FileRows]


@dataclass(frozen=True)
class Find:
    """The task; an item is some files of the table. ``runs`` hold the new records in the order of ``key``. ``cuts`` are
    keys that cut them into ranges, so that the keys of one range fit into memory; ``run`` is the id of the table's
    run."""

    keep: Keep
    columns: TableColumns
    prefix: str
    run: str
    key: tuple[str, ...]
    runs: tuple[SortedRun, ...]
    cuts: tuple[Bound, ...]

    def size(self, item: Sequence[TableFile]) -> int:
        return sum(file.bytes for file in item)

    def together(self, storage: Storage, items: Sequence[Sequence[TableFile]]) -> list[Found]:
        return [self(storage, item) for item in items]

    def __call__(self, storage: Storage, item: Sequence[TableFile]) -> Found:
        import pyarrow as pa

        schema = working_schema(self.columns, self.keep)
        # The keys of a single range stay for all files; of several, each file reads one after the other.
        wanted = None if self.cuts else list(self._wanted(storage))
        parts: list[pa.Table] = []
        places: dict[str, FileRows] = {}
        for file in item:
            found = []
            for opened in (open_rows(storage, self.prefix, file), open_hidden(storage, self.prefix, file)):
                keys = opened(self.key) if opened is not None else None
                at = self._places(keys, wanted if wanted is not None else self._wanted(storage))
                found.append(at)
                if opened is not None and len(at):
                    rows = conformed(opened(None).take(at), schema)
                    parts.append(marked(rows, DELETED, False) if len(found) == 1 else rows)
            if any(map(len, found)):
                places[file.id] = FileRows(*found)
        if not parts:
            return Found(None, {})
        rows = sorted_rows(pa.concat_tables(parts), self.key)
        return Found(write_run(storage, self.prefix + scratch_path(self.run, random_id()), rows, self.key), places)

    def _wanted(self, storage: Storage) -> Iterator[_Range]:
        """The new keys of each range, each once."""
        import pyarrow as pa

        after = None
        for up_to in [*self.cuts, None]:
            read = (read_run(storage, run, self.key, after, up_to, columns=self.key) for run in self.runs)
            parts = [rows for rows in read if rows is not None]
            if parts:
                yield _Range(after, up_to, distinct(pa.concat_tables(parts), self.key))
            after = up_to

    def _places(self, keys: pa.Table | None, wanted: Iterable[_Range]) -> pa.Int64Array:
        """Where the new keys are among ``keys``, which are those of a file, in ascending order."""
        import numpy as np
        import pyarrow as pa

        if keys is None:
            return pa.array([], pa.int64())
        schema = self.columns.schema
        keys = conformed(keys, pa.schema([schema.field(name) for name in self.key]))
        places = np.arange(keys.num_rows)
        if self.cuts:
            places = sort_indices(keys, self.key, nulls_first=False).to_numpy()
            keys = keys.take(places)
        is_new = np.zeros(keys.num_rows, bool)
        for each in wanted:
            begin = 0 if each.after is None else rows_up_to(keys, self.key, each.after)
            end = keys.num_rows if each.up_to is None else rows_up_to(keys, self.key, each.up_to)
            is_new[begin:end] |= are_among(keys.slice(begin, max(0, end - begin)), each.keys, self.key).to_numpy(False)
        return pa.array(np.sort(places[is_new]).astype(np.int64))


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
