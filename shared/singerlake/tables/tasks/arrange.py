"""Writing one range of a table anew: what its files hold there, and the new rows that belong there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from singerlake.arrow.schema.own import OFFSET
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import Keep
from singerlake.tables.rows.columns import TableColumns
from singerlake.tables.rows.convert import DELETED, working_schema
from singerlake.tables.rows.deletions import in_force, without_gone
from singerlake.tables.rows.order import between, sorted_rows
from singerlake.tables.rows.partitions import with_partitions
from singerlake.tables.rows.types import conformed
from singerlake.tables.rows.winners import Settled, history, latest
from singerlake.tables.state.model import Activation, TableFile
from singerlake.tables.tasks.files import Place, read_hidden, read_rows, write_files
from singerlake.tables.tasks.sorted_run import SortedRun, read_run

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Region:
    """The rows after one place in the order and not after another (None: no bound): ``files`` hold earlier ones,
    ``runs`` new ones."""

    after: tuple[Any, ...] | None
    up_to: tuple[Any, ...] | None
    files: tuple[TableFile, ...]
    runs: tuple[SortedRun, ...]


@dataclass(frozen=True)
class Arranged:
    """The files that hold the range now, in order."""

    files: tuple[TableFile, ...]
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class Arrange:
    """The task. ``activations`` are those up to the run's end that matter, in order; new rows have offsets from
    ``start`` on."""

    keep: Keep
    columns: TableColumns
    place: Place
    key: tuple[str, ...]
    order_by: tuple[str, ...]
    activations: tuple[Activation, ...]
    start: int

    def size(self, item: Region) -> int:
        return sum(run.memory for run in item.runs) + sum(4 * file.bytes for file in item.files)

    def together(self, storage: Storage, items: Sequence[Region]) -> list[Arranged]:
        return [self(storage, item) for item in items]

    def __call__(self, storage: Storage, item: Region) -> Arranged:
        rows = in_force(self._rows(storage, item), self.activations)
        if self.keep is Keep.HISTORY:
            settled = history(rows, self.key, self.order_by, activations=self.activations, start=self.start)
        else:
            rows, gone = without_gone(rows, self.columns, self.activations, self.key)
            if self.keep is Keep.LATEST:
                settled = latest(rows, self.key, self.order_by, start=self.start, late=bool(self.order_by))
            else:
                settled = self._appended(rows)
            settled = replace(settled, deleted=settled.deleted + gone)
        hidden = sorted_rows(settled.hidden, self.place.order)
        kept = settled.rows if self.place.order == self.key else sorted_rows(settled.rows, self.place.order)
        files = write_files(storage, self.place, kept, hidden)
        return Arranged(tuple(files), settled.inserted, settled.updated, settled.deleted)

    def _rows(self, storage: Storage, item: Region) -> pa.Table:
        """Earlier rows and hidden records, then new rows, of the region alone."""
        import pyarrow as pa

        schema = working_schema(self.columns, self.keep)
        none = with_partitions(schema.empty_table(), self.place.partitions)
        parts = [none]
        for file in item.files:
            rows, hidden = (read(storage, self.place.prefix, file) for read in (read_rows, read_hidden))
            if rows is not None:
                shown = conformed(rows, schema)
                deleted = pa.chunked_array([pa.repeat(False, rows.num_rows)])
                shown = shown.set_column(schema.get_field_index(DELETED), DELETED, deleted)
                parts.append(self._inside(shown, item))
            if hidden is not None:
                parts.append(self._inside(conformed(hidden, schema), item))
        for run in item.runs:
            new = read_run(storage, run, self.place.order, item.after, item.up_to)
            if new is not None:
                parts.append(new.select(none.column_names))
        return pa.concat_tables(parts)

    def _inside(self, rows: pa.Table, item: Region) -> pa.Table:
        """The earlier ``rows`` that are in the region."""
        rows = with_partitions(rows, self.place.partitions)
        if item.after is None and item.up_to is None:
            return rows
        return between(sorted_rows(rows, self.place.order), self.place.order, item.after, item.up_to)

    def _appended(self, rows: pa.Table) -> Settled:
        import pyarrow.compute as pc

        new = pc.sum(pc.greater_equal(rows.column(OFFSET), self.start)).as_py() or 0
        return Settled(rows, rows.slice(0, 0), inserted=new)
