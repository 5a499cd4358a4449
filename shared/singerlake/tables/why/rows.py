"""The rows of a table with some values, found by what its state and its parquet files say of ranges."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from singerlake.arrow.schema.columns import arrow_schema
from singerlake.arrow.schema.own import OFFSET
from singerlake.errors import BrokenFileError, MissingFileError
from singerlake.storage.port import Storage
from singerlake.storage.stored_file import StoredFile
from singerlake.tables.rows.conform import conformed
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import MEND, TableFile, TableState
from singerlake.tables.state.types import columns_of, compared, value_from_json

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE = 4 << 20
"""Bytes of the largest file that is read in one request."""
Wanted = Mapping[str, Sequence[Any]]
"""The values of which a row has one, by column."""


def find_rows(storage: Storage, state: TableState, wanted: Wanted, columns: Sequence[str], most: int) -> pa.Table:
    """The first rows that are ``wanted``, ``most`` at most, with these ``columns``. Raises ``MissingFileError``,
    ``BrokenFileError``, and what storage raises."""
    import pyarrow as pa

    schema = arrow_schema(columns_of(state))
    shown = pa.schema([field for field in schema if field.name in columns])
    found = [shown.empty_table()]
    for file in state.files:
        if file.path is None or not _may_hold(state, schema, file, wanted):
            continue
        for rows in _rows(storage, table_prefix(state.table), file, wanted, shown.names):
            found.append(conformed(rows.select([name for name in shown.names if name in rows.column_names]), shown))
            if sum(part.num_rows for part in found) >= most:
                return pa.concat_tables(found).slice(0, most)
    return pa.concat_tables(found)


def only(rows: pa.Table, wanted: Wanted) -> pa.Table:
    """Those of ``rows`` that are wanted."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, values in wanted.items():
        column = rows.column(name)
        among = pa.array(values, column.type)
        if pa.types.is_floating(column.type):
            # Sets tell zeros apart by their sign.
            column, among = pc.add(column, 0.0), pc.add(among, 0.0)
        rows = rows.filter(pc.is_in(column, value_set=among))
    return rows


def _may_hold(state: TableState, schema: pa.Schema, file: TableFile, wanted: Wanted) -> bool:
    """Whether the state leaves room for a row that is wanted in a file."""
    if OFFSET in wanted and not _between(*file.offsets, wanted[OFFSET]):
        return False
    for name, first, last in zip(state.order, file.first, file.last, strict=False):
        if name in wanted:
            low, high = (value_from_json(value, schema.field(name).type) for value in (first, last))
            if not _between(low, high, wanted[name]):
                return False
        if first != last:
            # Of what stands behind a range nothing is known.
            return True
    return True


def _between(low: Any, high: Any, values: Sequence[Any]) -> bool:
    """Whether any of ``values`` may lie from ``low`` to ``high``. Null comes behind all, and NaN before it."""
    return any(compared(value) >= compared(low) and compared(value) <= compared(high) for value in values)


def _rows(storage: Storage, prefix: str, file: TableFile, wanted: Wanted, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of a file that are wanted, from each of its row groups that has any."""
    stored = file.typed or file
    assert stored.path is not None
    parquet = _Parquet(storage, prefix + stored.path, stored.bytes, stored.sha256)
    if any(None not in values for name, values in wanted.items() if name not in parquet.names):
        # The column came later, and is null in all rows of this file.
        return
    there = {name: values for name, values in wanted.items() if name in parquet.names}
    for group in range(parquet.groups):
        may_hold = all(parquet.may_hold(group, name, values) for name, values in there.items())
        # The rest is read where a row is wanted.
        if may_hold and only(parquet.read(group, list(there)), there).num_rows:
            yield only(parquet.read(group, list(dict.fromkeys([*there, *columns]))), there)


class _Parquet:
    """A parquet file: a small one is read whole and checked, of another one only the columns that are asked for."""

    def __init__(self, storage: Storage, key: str, size: int, sha256: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._key = key
        with self._read():
            if size > _WHOLE:
                source = pa.PythonFile(StoredFile(storage, key, size), mode="r")
            else:
                body = storage.read_range(key, 0, size)
                if hashlib.sha256(body).hexdigest() != sha256:
                    raise self._broken()
                source = pa.BufferReader(body)
            self._file = pq.ParquetFile(source, pre_buffer=True)
        self.names: list[str] = self._file.schema_arrow.names
        self.groups: int = self._file.num_row_groups

    def may_hold(self, group: int, name: str, values: Sequence[Any]) -> bool:
        """Whether statistics leave room for one of ``values`` in a column of simple type."""
        chunks = self._file.metadata.row_group(group)
        each = map(chunks.column, range(chunks.num_columns))
        known = next((chunk.statistics for chunk in each if chunk.path_in_schema == name), None)
        if known is None or not known.has_min_max or any(value is None or value != value for value in values):
            # Of nulls and NaN statistics say nothing.
            return True
        with suppress(TypeError):
            return _between(known.min, known.max, values)
        return True

    def read(self, group: int, names: Sequence[str]) -> pa.Table:
        """The rows of a group with those of these columns that the file has."""
        with self._read():
            return self._file.read_row_group(group, [name for name in names if name in self.names], use_threads=False)

    @contextmanager
    def _read(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except MissingFileError as error:
            raise MissingFileError(
                "a file of the table is gone",
                hint="open the table again; if it is still gone, " + MEND,
                key=self._key,
            ) from error
        except (pa.ArrowInvalid, OSError) as error:
            raise self._broken() from error

    def _broken(self) -> BrokenFileError:
        return BrokenFileError(
            "its bytes are not those that were committed", hint="run 'singerlake project verify'", key=self._key
        )
