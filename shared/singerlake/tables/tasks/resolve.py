"""Settling new records with the earlier ones of their keys, where the table is not in the order of its key.

``Find`` has found the earlier ones. What comes out is rows to insert, in the order of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from singerlake.clock import random_id
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import Keep
from singerlake.tables.rows.columns import TableColumns
from singerlake.tables.rows.convert import DELETED, HIDDEN, working_schema
from singerlake.tables.rows.deletions import without_gone
from singerlake.tables.rows.history import history
from singerlake.tables.rows.latest import Settled, latest
from singerlake.tables.rows.order import sorted_rows
from singerlake.tables.rows.partitions import with_partitions
from singerlake.tables.rows.versions import in_force
from singerlake.tables.state.keys import scratch_path
from singerlake.tables.state.model import Activation
from singerlake.tables.tasks.extract import touched_ranges
from singerlake.tables.tasks.find import Bound, marked
from singerlake.tables.tasks.sorted_run import SortedRun, read_run, write_run
from singerlake.tables.tasks.write_file import Place


@dataclass(frozen=True)
class KeyRange:
    """New records with keys after one key and not after another (None: no bound), and ``earlier`` ones of the same
    keys, which ``Find`` found."""

    after: Bound | None
    up_to: Bound | None
    runs: tuple[SortedRun, ...]
    earlier: tuple[SortedRun, ...]


@dataclass(frozen=True)
class Resolved:
    """``run`` holds the rows and hidden records to insert, in the order of the table."""

    run: SortedRun | None
    touched: frozenset[int]
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
        return sum(run.memory for run in (*item.runs, *item.earlier))

    def together(self, storage: Storage, items: Sequence[KeyRange]) -> list[Resolved]:
        return [self(storage, item) for item in items]

    def __call__(self, storage: Storage, item: KeyRange) -> Resolved:
        import pyarrow as pa

        schema = working_schema(self.columns, self.keep)
        found = (read_run(storage, run, self.key, item.after, item.up_to) for run in (*item.runs, *item.earlier))
        parts = [rows.select(schema.names) for rows in found if rows is not None]
        rows = in_force(pa.concat_tables([schema.empty_table(), *parts]), self.activations)
        if self.keep is Keep.HISTORY:
            settled = history(rows, self.key, self.order_by, activations=self.activations, start=self.start)
        else:
            rows, gone = without_gone(rows, self.columns, self.activations, self.key)
            settled = latest(rows, self.key, self.order_by, start=self.start, late=bool(self.order_by))
            settled = replace(settled, deleted=settled.deleted + gone)
        return self._answer(storage, settled)

    def _answer(self, storage: Storage, settled: Settled) -> Resolved:
        import pyarrow as pa

        schema = working_schema(self.columns, Keep.LATEST)
        names = [*schema.names, HIDDEN]
        shown = marked(marked(settled.rows, DELETED, False), HIDDEN, False)
        both = pa.concat_tables([shown.select(names), marked(settled.hidden, HIDDEN, True).select(names)])
        both = sorted_rows(with_partitions(both, self.place.partitions), self.place.order)
        if not both.num_rows:
            return Resolved(None, frozenset(), settled.inserted, settled.updated, settled.deleted)
        touched = touched_ranges(both, self.place.order, self.bounds)
        run = write_run(storage, self.place.prefix + scratch_path(self.run, random_id()), both, self.place.order)
        return Resolved(run, touched, settled.inserted, settled.updated, settled.deleted)
