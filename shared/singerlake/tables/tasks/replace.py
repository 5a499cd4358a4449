"""Writing one range of a table anew where it is known which rows go and which come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import Keep
from singerlake.tables.rows.columns import TableColumns
from singerlake.tables.rows.conform import conformed
from singerlake.tables.rows.convert import DELETED, HIDDEN, working_schema
from singerlake.tables.rows.deletions import without_gone
from singerlake.tables.rows.order import between, sorted_rows
from singerlake.tables.rows.partitions import with_partitions
from singerlake.tables.state.model import Activation
from singerlake.tables.tasks.arrange import Arranged, Region
from singerlake.tables.tasks.find import FileRows, marked
from singerlake.tables.tasks.read_file import read_hidden, read_rows
from singerlake.tables.tasks.sorted_run import read_run
from singerlake.tables.tasks.write_file import Place, write_files

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Replacement:
    """A region, and what goes of its files, by the ids of these."""

    region: Region
    removed: Mapping[str, FileRows]


@dataclass(frozen=True)
class Replace:
    """The task: the rows of a region without those that go, and with those that come. ``activations`` matter to the
    rows that no new record touched."""

    keep: Keep
    columns: TableColumns
    place: Place
    activations: tuple[Activation, ...]

    def size(self, item: Replacement) -> int:
        region = item.region
        return sum(run.memory for run in region.runs) + sum(4 * file.bytes for file in region.files)

    def together(self, storage: Storage, items: Sequence[Replacement]) -> list[Arranged]:
        return [self(storage, item) for item in items]

    def __call__(self, storage: Storage, item: Replacement) -> Arranged:
        import pyarrow as pa
        import pyarrow.compute as pc

        schema = working_schema(self.columns, Keep.LATEST).append(pa.field(HIDDEN, pa.bool_()))
        none = with_partitions(schema.empty_table(), self.place.partitions)
        region, order = item.region, self.place.order
        parts = [none]
        for file in region.files:
            removed = item.removed.get(file.id)
            rows, hidden = (read(storage, self.place.prefix, file) for read in (read_rows, read_hidden))
            if rows is not None:
                staying = rows if removed is None else _without(rows, removed.rows)
                staying = marked(conformed(staying, schema), DELETED, False)
                parts.append(self._inside(marked(staying, HIDDEN, False), region))
            if hidden is not None:
                staying = hidden if removed is None else _without(hidden, removed.hidden)
                parts.append(self._inside(marked(conformed(staying, schema), HIDDEN, True), region))
        for run in region.runs:
            new = read_run(storage, run, order, region.after, region.up_to)
            if new is not None:
                parts.append(new.select(none.column_names))
        rows = pa.concat_tables(parts)
        gone = 0
        if self.keep is not Keep.HISTORY:
            rows, gone = without_gone(rows, self.columns, self.activations)
        rows = sorted_rows(rows, order)
        is_hidden = rows.column(HIDDEN)
        files = write_files(storage, self.place, rows.filter(pc.invert(is_hidden)), rows.filter(is_hidden))
        return Arranged(tuple(files), deleted=gone)

    def _inside(self, rows: pa.Table, region: Region) -> pa.Table:
        rows = sorted_rows(with_partitions(rows, self.place.partitions), self.place.order)
        return between(rows, self.place.order, region.after, region.up_to)


def _without(rows: pa.Table, gone: pa.Int64Array) -> pa.Table:
    """``rows`` but for those at these places."""
    import numpy as np
    import pyarrow as pa

    kept = np.ones(rows.num_rows, bool)
    kept[gone.to_numpy()] = False
    return rows.filter(pa.array(kept))
