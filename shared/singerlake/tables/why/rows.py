"""The rows of a table with some values, found by what its state and its parquet files say of ranges."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from singerlake.arrow.schema.columns import Struct, arrow_schema
from singerlake.arrow.schema.own import OFFSET
from singerlake.conditions import Condition
from singerlake.errors import BrokenFileError, MissingFileError
from singerlake.storage.port import Storage
from singerlake.tables.rows.conditions import holds, values_named
from singerlake.tables.rows.conform import conformed
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import MEND, TableFile, TableState
from singerlake.tables.state.types import columns_of, value_from_json

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE = 4 << 20
"""Bytes of the largest file that is read in one request."""
_FOOTER = 1 << 16
_GAP = 1 << 20
"""Bytes between two ranges that are read rather than asked for in two requests."""


def find_rows(
    storage: Storage, state: TableState, wanted: Mapping[str, Condition], columns: Sequence[str], most: int
) -> pa.Table:
    """The first rows, ``most`` at most, for which the condition of each column in ``wanted`` holds, with these
    ``columns``. Raises ``SettingError`` for a condition that does not suit its column, ``MissingFileError``,
    ``BrokenFileError``, and what storage raises."""
    import pyarrow as pa

    types = columns_of(state)
    schema = arrow_schema(Struct(tuple(field for field in types.fields if field.name in columns)))
    named = {name: values_named(condition, _type(types, name)) for name, condition in wanted.items()}
    found = [schema.empty_table()]
    count = 0
    for file in state.files:
        if file.path is None or not _may_hold(state, types, file, named):
            continue
        for rows in _matching(storage, table_prefix(state.table), file, wanted, types, schema.names):
            found.append(conformed(rows.select([name for name in schema.names if name in rows.column_names]), schema))
            count += rows.num_rows
            if count >= most:
                return pa.concat_tables(found).slice(0, most)
    return pa.concat_tables(found)


def _type(types: Struct, name: str) -> Any:
    field = types.get(name)
    assert field is not None
    return field.type


def _may_hold(state: TableState, types: Struct, file: TableFile, named: Mapping[str, Sequence[Any]]) -> bool:
    """Whether the state leaves room for a row with one of these values of each column in a file."""
    if OFFSET in named and not any(file.offsets[0] <= value <= file.offsets[1] for value in named[OFFSET]):
        return False
    schema = arrow_schema(types)
    for name, first, last in zip(state.order, file.first, file.last, strict=False):
        if name in named:
            low, high = (value_from_json(value, schema.field(name).type) for value in (first, last))
            if not _between(low, high, named[name]):
                return False
        if first != last:
            # Of what stands behind a range nothing is known.
            return True
    return True


def _between(low: Any, high: Any, values: Sequence[Any]) -> bool:
    """Whether any of ``values`` may lie from ``low`` to ``high``; null comes behind all, and NaN before it."""
    if low is None or low != low:
        return False
    return any(low <= value and (high is None or high != high or value <= high) for value in values)


def _matching(
    storage: Storage,
    prefix: str,
    file: TableFile,
    wanted: Mapping[str, Condition],
    types: Struct,
    columns: Sequence[str],
) -> Iterator[pa.Table]:
    stored = file.typed or file
    assert stored.path is not None
    parquet = _Parquet(storage, prefix + stored.path, stored.bytes, stored.sha256)
    if not wanted.keys() <= set(parquet.names):
        # The column came later: it is null in all rows of this file.
        return
    named = {name: values_named(condition, _type(types, name)) for name, condition in wanted.items()}
    for group in range(parquet.groups):
        if not all(parquet.may_hold(group, name, values) for name, values in named.items()):
            continue
        rows = parquet.read(group, list(wanted))
        keep: Any = None
        for name, condition in wanted.items():
            own = holds(condition, rows.column(name), _type(types, name), unknown=False)
            keep = own if keep is None else _both(keep, own)
        if keep.to_pylist().count(True):
            yield parquet.read(group, columns).filter(keep)


def _both(left: Any, right: Any) -> Any:
    import pyarrow.compute as pc

    return pc.and_(left, right)


class _Parquet:
    """A parquet file of which only those ranges are read that are asked for. It lies in memory of Arrow's that is not
    touched elsewhere, so that the system gives none for the rest."""

    def __init__(self, storage: Storage, key: str, size: int, sha256: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._storage, self._key, self._size = storage, key, size
        self._buffer = pa.allocate_buffer(size)
        self._have: list[tuple[int, int]] = []
        start = 0 if size <= _WHOLE else size - _FOOTER
        body = self._fill(start, size)
        if not start and hashlib.sha256(body).hexdigest() != sha256:
            raise self._broken()
        length = int.from_bytes(body[-8:-4], "little")
        if length + 8 > len(body):
            self._fill(max(0, size - length - 8), start)
        try:
            self._file = pq.ParquetFile(pa.BufferReader(self._buffer))
        except pa.ArrowInvalid as error:
            raise self._broken() from error
        self.names: list[str] = self._file.schema_arrow.names
        self.groups: int = self._file.num_row_groups

    def may_hold(self, group: int, name: str, values: Sequence[Any]) -> bool:
        """Whether statistics leave room for one of ``values`` in a column of simple type."""
        metadata = self._file.metadata.row_group(group)
        chunks = [metadata.column(at) for at in range(metadata.num_columns)]
        known = next((chunk.statistics for chunk in chunks if chunk.path_in_schema == name), None)
        if known is None or not known.has_min_max:
            return True
        with suppress(TypeError):
            return _between(known.min, known.max, values)
        return True

    def read(self, group: int, names: Sequence[str]) -> pa.Table:
        """The rows of a group with those of these columns that the file has."""
        import pyarrow as pa

        metadata = self._file.metadata.row_group(group)
        there = [name for name in names if name in self.names]
        ranges = []
        for at in range(metadata.num_columns):
            chunk = metadata.column(at)
            # What pyarrow reads: a name is also the beginning of the way to a nested column.
            if any(chunk.path_in_schema == name or chunk.path_in_schema.startswith(f"{name}.") for name in there):
                begin = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
                ranges.append((begin, begin + chunk.total_compressed_size))
        for start, end in _together(sorted(ranges)):
            self._fill(start, end)
        try:
            return self._file.read_row_group(group, columns=there, use_threads=False)
        except (pa.ArrowInvalid, OSError) as error:
            raise self._broken() from error

    def _fill(self, start: int, end: int) -> bytes:
        """Have the bytes [``start``, ``end``) in memory, if they are not there."""
        if any(begin <= start and end <= stop for begin, stop in self._have):
            return b""
        try:
            body = self._storage.read_range(self._key, start, end - start)
        except MissingFileError as error:
            raise MissingFileError(
                "a file of the table is gone", hint="open the table again; if it is still gone, " + MEND, key=self._key
            ) from error
        if len(body) != end - start:
            raise self._broken()
        with memoryview(self._buffer) as signed, signed.cast("B") as view:
            view[start:end] = body
        self._have.append((start, end))
        return body

    def _broken(self) -> BrokenFileError:
        return BrokenFileError(
            "its bytes are not those that were committed", hint="run 'singerlake project verify'", key=self._key
        )


def _together(ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """``ranges``, which are in order, with those made one between which little lies."""
    held: tuple[int, int] | None = None
    for start, end in ranges:
        if held is not None and start - held[1] <= _GAP:
            held = held[0], max(held[1], end)
            continue
        if held is not None:
            yield held
        held = start, end
    if held is not None:
        yield held
