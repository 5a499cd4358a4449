"""The partition values of rows: text, as the paths of files have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from singerlake.tables.declaration.model import NULL_PARTITION
from singerlake.tables.state.types import PARTITION

if TYPE_CHECKING:
    import pyarrow as pa

_LENGTHS = {"year": 4, "month": 7, "day": 10, "hour": 13}


def is_partition(name: str) -> bool:
    """Whether a column of rows is a partition value."""
    number = name.removeprefix(PARTITION)
    return number != name and number.isascii() and number.isdecimal()


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A column that rows have while they are worked on: ``working`` is its name there, ``folder`` the one in paths,
    ``column`` the table's column that it is made of."""

    working: str
    folder: str
    column: str
    unit: str | None


def with_partitions(rows: pa.Table, partitions: Sequence[PartitionColumn]) -> pa.Table:
    """``rows`` with their partition values behind the other columns."""
    for partition in partitions:
        rows = rows.append_column(partition.working, _values(rows.column(partition.column), partition.unit))
    return rows


def _values(column: pa.ChunkedArray, unit: str | None) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if unit is not None:
        # Text of ISO 8601 is cut: its years have four digits everywhere.
        text = pc.utf8_slice_codeunits(_iso(column), 0, _LENGTHS[unit])
    elif pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        text = _iso(column)
    elif pa.types.is_boolean(column.type):
        text = pc.if_else(column, "true", "false")
    else:
        text = pc.cast(column, pa.string())
    text = pc.if_else(pc.equal(text, ""), NULL_PARTITION, text)
    return pc.fill_null(text, NULL_PARTITION)


def _iso(column: pa.ChunkedArray) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_date(column.type):
        return pc.cast(column, pa.string())
    local = column.cast(pa.timestamp("us")) if column.type.tz is None else pc.local_timestamp(column)
    return pc.replace_substring(pc.cast(local, pa.string()), " ", "T")
