"""Reading a table: one snapshot of it, as Arrow or as a list of files for engines that read parquet themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singerlake.arrow.schema.columns import Struct, arrow_schema, empty_batch
from singerlake.errors import SettingError, UnknownNameError
from singerlake.glance import code, html_table
from singerlake.humanize import counted, size
from singerlake.storage.port import Storage
from singerlake.tables.declaration.streams import hint_for
from singerlake.tables.rows.conform import conformed
from singerlake.tables.state.commit import load, published
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import TableFile, TableState
from singerlake.tables.state.types import columns_of
from singerlake.tables.tasks.files import read_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from singerlake.tables.why.why import WhyResult
    from singerlake.upkeep.context import LakeContext

LISTED = 20
"""Tables that an error names: it reads the state of each."""


@dataclass(frozen=True, repr=False)
class LakeTable:
    """A snapshot of one table: it stays as it is while runs go on, for as long as a collector's grace time. ``lake`` is
    None for one as of a moment, and where the lake's own code reads rows alone."""

    storage: Storage
    state: TableState
    lake: LakeContext | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        stored = size(sum(file.bytes for file in self.state.files))
        return f"LakeTable({self.name!r}, {counted(self.rows, 'row')}, {stored})"

    def _repr_html_(self) -> str:
        columns = [(field.name, field.type) for field in self.schema]
        return code(repr(self)) + html_table(("column", "type"), columns)

    @classmethod
    def load(cls, storage: Storage, name: str, lake: LakeContext | None = None) -> LakeTable:
        """The table as it is now. Raises ``UnknownNameError`` listing the tables that are published, and what
        ``commit.load`` raises."""
        found = load(storage, name)
        if found is None or not found.state.is_published:
            names = list(islice(published(storage), LISTED + 1))
            what = f"no table {name!r} in this lake" if found is None else f"table {name!r} is not published yet"
            raise UnknownNameError(what, hint=hint_for(name, names), lake_root=storage.url)
        return cls(storage, found.state, lake)

    @property
    def name(self) -> str:
        """What it is called."""
        return self.state.table

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.state.rows

    @property
    def columns(self) -> Struct:
        """The columns with the types that the records' columns have."""
        return columns_of(self.state)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema."""
        return arrow_schema(self.columns)

    def files(self) -> list[str]:
        """The URLs of the files, in the order of the table: what engines that read the format take."""
        prefix = table_prefix(self.name)
        url = self.storage.url.rstrip("/")
        return [f"{url}/{prefix}{file.path}" for file in self.state.files if file.path is not None]

    def to_arrow(self, *, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """The rows in the order of the table, which pandas, Polars and DuckDB take; ``columns`` in the order wanted.
        A file is held at a time. Raises ``UnknownNameError``; while reading ``MissingFileError``, ``BrokenFileError``
        and what storage raises."""
        import pyarrow as pa

        schema = self.chosen(columns)

        def batches() -> Iterator[pa.RecordBatch]:
            for file in self.state.files:
                rows = self.read(file, schema)
                if rows is not None:
                    yield from rows.to_batches()
            if not self.rows:
                yield empty_batch(schema)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def write_parquet(self, path: str | Path) -> None:
        """Write the rows into a new parquet file of this machine. Raises ``SettingError`` where it is there already or
        cannot be made, and as ``to_arrow``; nothing is left of it then."""
        import pyarrow.parquet as pq

        path = Path(path)
        try:
            opened = path.open("xb")
        except OSError as error:
            what = "is there already" if isinstance(error, FileExistsError) else "cannot be made"
            raise SettingError(f"{path} {what}", hint="name a new file") from error
        try:
            with opened, pq.ParquetWriter(opened, self.schema) as writer:
                for batch in self.to_arrow():
                    writer.write_batch(batch)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def why(
        self,
        key: Mapping[str, Any] | None = None,
        *,
        column: str | None = None,
        offset: int | None = None,
        earlier: int = 0,
        missing: bool = False,
        sample: int = 5,
    ) -> WhyResult:
        """Where a row comes from, as ``singerlake why`` says it: the record that it was made of, and where its bytes
        are. ``key`` has columns with values that tell the row; ``offset`` is its ``_singerlake_offset``. Of a
        history the newest version of a key is meant. ``column``: of this one alone.

        It reads some ranges of one file of the table and of one data file. ``earlier`` older values of the column are
        looked for in the log, from the row's record backwards. ``missing``: where no row has the key, the log is read
        to say why; why an ``offset`` has no row is said anyway.

        Of a table of a statement it finds the rows of the tables read that made the row, and names ``sample`` of each
        at most; that needs ``pip install 'singerlake[sql]'``.

        Raises ``SettingError`` where the arguments do not go together, several rows have the key, or the table is one
        as of a moment, ``UnknownNameError`` for a column that is not there, and where no row has the key,
        ``BrokenFileError``, ``MissingFileError``, as ``LakeStream.snapshot``, and what storage raises.

        Example:
            >>> made = lake.project(all=True)
            >>> found = lake.table("users").why({"name": "Ada"}, column="name")
            >>> print(found.record.stream, found.offset, found.cells[0].pointer, found.cells[0].captured)
            users 0 /record/name "Ada"
        """
        from singerlake.tables.why.why import why

        if self.lake is None:
            raise SettingError(
                "a table as of a moment does not say where its rows come from", hint="ask the table as it is now"
            )
        return why(self.lake, self.state, key, column, offset, earlier, missing, sample)

    def read(self, file: TableFile, schema: pa.Schema) -> pa.Table | None:
        """The rows of one file in these columns; None where it has none. Raises as ``to_arrow``."""
        rows = read_rows(self.storage, table_prefix(self.name), file, schema.names)
        return None if rows is None else conformed(rows, schema)

    def chosen(self, columns: Sequence[str] | None) -> pa.Schema:
        """The Arrow schema of ``columns``, in that order; None: of all. Raises ``UnknownNameError``."""
        import pyarrow as pa

        schema = self.schema
        if columns is None:
            return schema
        require_columns(self.name, schema.names, columns)
        return pa.schema([schema.field(name) for name in columns])


def require_columns(table: str, there: Sequence[str], named: Sequence[str]) -> None:
    """Raise ``UnknownNameError`` for the first of these columns that a table does not have."""
    unknown = next((name for name in named if name not in there), None)
    if unknown is not None:
        raise UnknownNameError(f"table {table!r} has no column {unknown!r}", hint=hint_for(unknown, there))
