"""Which rows of a table new records replace, where the table is not in the order of its key.

Files are searched for the keys that are new; what is found there is settled with the new records as if all lay
together. What comes out is rows to insert, in the order of the table, and the places of rows that go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from singerlake.clock import random_id
from singerlake.projections.declaration.model import Keep
from singerlake.projections.rows.columns import TableColumns
from singerlake.projections.rows.conform import conformed
from singerlake.projections.rows.convert import DELETED, HIDDEN, working_schema
from singerlake.projections.rows.history import history
from singerlake.projections.rows.latest import latest
from singerlake.projections.rows.order import are_among, distinct, sorted_rows
from singerlake.projections.rows.partitions import with_partitions
from singerlake.projections.rows.versions import in_force, not_gone
from singerlake.projections.state.keys import scratch_path
from singerlake.projections.state.model import Activation, TableFile
from singerlake.projections.tasks.extract import touched_ranges
from singerlake.projections.tasks.read_file import read_hidden, read_rows
from singerlake.projections.tasks.sorted_run import SortedRun, read_run, write_run
from singerlake.projections.tasks.write_file import Place
from singerlake.storage.port import Storage

if TYPE_CHECKING:
    import pyarrow as pa

Bound = tuple[Any, ...]


@dataclass(frozen=True)
class KeyRange:
    """New records with keys after one key and not after another (None: no bound), and the files that may hold such
    keys."""

    after: Bound | None
    up_to: Bound | None
    runs: tuple[SortedRun, ...]
    files: tuple[TableFile, ...]


@dataclass(frozen=True)
class Resolved:
    """``run`` holds the rows and hidden records to insert. ``removed`` are the places of rows and hidden records that
    go in their files, by path: an offset does not tell apart the ends that one ACTIVATE_VERSION made of many keys."""

    run: SortedRun | None
    touched: frozenset[int]
    removed: dict[str, tuple[int, ...]]
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class Resolve:
    """The task. Its fields mean what they mean to ``Arrange`` and ``Extract``."""

    keep: Keep
    columns: TableColumns
    place: Place
    run: str
    key: tuple[str, ...]
    order_by: tuple[str, ...]
    activations: tuple[Activation, ...]
    start: int
    bounds: tuple[Bound, ...]

    def size(self, item: KeyRange) -> int:
        return sum(run.memory for run in item.runs) + sum(file.bytes for file in item.files)

    def together(self, storage: Storage, items: Sequence[KeyRange]) -> list[Resolved]:
        return [self(storage, item) for item in items]

    def __call__(self, storage: Storage, item: KeyRange) -> Resolved:
        import pyarrow as pa

        schema = working_schema(self.columns, self.keep)
        found = (read_run(storage, run, self.key, item.after, item.up_to) for run in item.runs)
        new = pa.concat_tables(
            [schema.empty_table(), *(rows.select(schema.names) for rows in found if rows is not None)]
        )
        keys = distinct(new, self.key)
        parts = [new]
        removed: dict[str, tuple[int, ...]] = {}
        for file in item.files:
            parts += self._earlier(storage, file, keys, schema, removed)
        rows = in_force(pa.concat_tables(parts), self.activations)
        if self.keep is Keep.HISTORY:
            settled = history(rows, self.key, self.order_by, activations=self.activations, start=self.start)
        else:
            rows = not_gone(rows, self.activations)
            settled = latest(rows, self.key, self.order_by, start=self.start, late=bool(self.order_by))
        return self._answer(storage, settled.rows, settled.hidden, removed, settled)

    def _earlier(
        self, storage: Storage, file: TableFile, keys: pa.Table, schema: pa.Schema, removed: dict[str, tuple[int, ...]]
    ) -> Iterator[pa.Table]:
        """What a file has of these keys, whose places are noted in ``removed``. Only the keys are read of one that has
        none."""
        prefix = self.place.prefix
        only_keys = read_rows(storage, prefix, file, self.key)
        if only_keys is not None and file.path is not None:
            places = _places_of(only_keys, keys, self.key)
            if len(places):
                whole = read_rows(storage, prefix, file)
                assert whole is not None
                removed[file.path] = tuple(places.tolist())
                yield _marked(conformed(whole.take(places), schema), DELETED, False)
        hidden = read_hidden(storage, prefix, file)
        if hidden is not None and file.hidden is not None:
            places = _places_of(hidden, keys, self.key)
            if len(places):
                removed[file.hidden.path] = tuple(places.tolist())
                yield conformed(hidden.take(places), schema)

    def _answer(
        self, storage: Storage, rows: pa.Table, hidden: pa.Table, removed: dict[str, tuple[int, ...]], counts: Any
    ) -> Resolved:
        import pyarrow as pa

        schema = working_schema(self.columns, Keep.LATEST)
        names = [*schema.names, HIDDEN]
        shown = _marked(_marked(rows, DELETED, False), HIDDEN, False)
        both = pa.concat_tables([shown.select(names), _marked(hidden, HIDDEN, True).select(names)])
        both = sorted_rows(with_partitions(both, self.place.partitions), self.place.order)
        if not both.num_rows:
            return Resolved(None, frozenset(), removed, counts.inserted, counts.updated, counts.deleted)
        touched = touched_ranges(both, self.place.order, self.bounds)
        run = write_run(storage, self.place.prefix + scratch_path(self.run, random_id()), both, self.place.order)
        return Resolved(run, touched, removed, counts.inserted, counts.updated, counts.deleted)


def _marked(rows: pa.Table, name: str, value: bool) -> pa.Table:
    """``rows`` with a column of one value."""
    import pyarrow as pa

    column = pa.chunked_array([pa.repeat(value, rows.num_rows)])
    if name in rows.column_names:
        return rows.set_column(rows.schema.get_field_index(name), name, column)
    return rows.append_column(name, column)


def _places_of(rows: pa.Table, keys: pa.Table, key: Sequence[str]) -> Any:
    """The places of the ``rows`` whose key is among ``keys``, in order."""
    import numpy as np

    return np.flatnonzero(are_among(rows, keys, key).to_numpy(zero_copy_only=False))
