"""Parquet: what tables are kept in, and what every engine reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from singerlake.errors import BrokenFileError
from singerlake.tables.formats.port import existing
from singerlake.tables.state.ids import ELEMENT, Numbered

if TYPE_CHECKING:
    import pyarrow as pa


def in_arrow_memory(file: BinaryIO, size: int) -> pa.BufferReader:
    """The next ``size`` bytes of a file, or what is left of it.

    A thread of Arrow's may let go of its input after the read has returned, even while the process ends. Memory that
    belongs to Python needs the interpreter for that, and the process is aborted (apache/arrow issues 34314 and 49942).
    """
    import pyarrow as pa

    buffer = pa.allocate_buffer(size)
    with memoryview(buffer) as signed, signed.cast("B") as view:
        held = 0
        while held < size:
            count = file.readinto(view[held:])  # type: ignore[attr-defined]
            if not count:
                break
            held += count
    return pa.BufferReader(buffer.slice(0, held))


ROW_GROUP = 1 << 17
"""Rows of a row group: what a reader that filters leaves out or reads at once."""


SAMPLE = 1 << 12
"""Values at the beginning, in the middle and at the end of a column that say what encoding suits it."""
_DELTA = "DELTA_BINARY_PACKED"


class Parquet:
    """Zstandard, dictionaries where they help, statistics of every column and page.

    Numbers and times of which hardly two are equal, as offsets, keys and sequences are, take less as differences to the
    ones before them than in a dictionary.
    """

    extension = "parquet"
    readable = True

    def write(self, rows: pa.Table, path: Path) -> None:
        import pyarrow.parquet as pq

        delta = [field.name for field in rows.schema if _is_delta(rows.column(field.name), field.name)]
        dictionary = [
            leaf for field in rows.schema if field.name not in delta for leaf in _leaves(field.name, field.type)
        ]
        pq.write_table(
            rows,
            path,
            compression="zstd",
            compression_level=1,
            row_group_size=ROW_GROUP,
            version="2.6",
            coerce_timestamps="us",
            use_dictionary=dictionary if delta else True,
            column_encoding=dict.fromkeys(delta, _DELTA) if delta else None,
            write_page_index=True,
        )

    def read(self, file: BinaryIO, size: int, columns: Sequence[str] | None) -> pa.Table:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            opened = pq.ParquetFile(in_arrow_memory(file, size))
            return opened.read(columns=existing(columns, opened.schema_arrow.names))
        except pa.ArrowInvalid as error:
            raise BrokenFileError("not a parquet file", hint="run 'singerlake project verify'") from error


_FIELD_ID = b"PARQUET:field_id"


def with_ids(rows: pa.Table, ids: Sequence[Numbered]) -> pa.Table:
    """The same rows, with what has a parquet file say the ids of their columns; as they are where ``ids`` is empty."""
    import pyarrow as pa

    if not ids:
        return rows
    known = {each.name: each for each in ids}
    return pa.Table.from_arrays(
        rows.columns, schema=pa.schema([_with_id(each, known[each.name]) for each in rows.schema])
    )


def _with_id(field: pa.Field, own: Numbered) -> pa.Field:
    import pyarrow as pa

    type, inner = field.type, {each.name: each for each in own.inner}
    if pa.types.is_struct(type):
        type = pa.struct(
            [_with_id(type.field(index), inner[type.field(index).name]) for index in range(type.num_fields)]
        )
    elif pa.types.is_list(type):
        type = pa.list_(_with_id(type.value_field, inner[ELEMENT]))
    return pa.field(field.name, type, field.nullable, {_FIELD_ID: str(own.id).encode()})


def _is_delta(column: pa.ChunkedArray, name: str) -> bool:
    """Whether hardly two values are equal. A name with a dot is left alone: it may be the way to a nested column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_number = pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type)
    if not is_number or "." in name:
        return False
    begins = (0, (len(column) - SAMPLE) // 2, len(column) - SAMPLE)
    if len(column) > len(begins) * SAMPLE:
        chunks = [chunk for begin in begins for chunk in column.slice(begin, SAMPLE).chunks]
        column = pa.chunked_array(chunks, column.type)
    values = column.drop_null()
    return 10 * int(pc.count_distinct(values).as_py()) > 9 * len(values)


def _leaves(path: str, own: pa.DataType) -> Iterator[str]:
    """The ways to the columns of simple types in one, as parquet calls them."""
    import pyarrow as pa

    if pa.types.is_struct(own):
        for index in range(own.num_fields):
            yield from _leaves(f"{path}.{own.field(index).name}", own.field(index).type)
    elif pa.types.is_list(own):
        yield from _leaves(f"{path}.list.element", own.value_type)
    else:
        yield path
