"""Dates and times of a statement that no table can have: engines know years that ISO 8601 has no four digits for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING

from singerlake.errors import SettingError

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = date(1970, 1, 1)
_FIRST, _LAST = (date.min - _EPOCH).days, (date.max - _EPOCH).days
_DAY = 86_400_000_000
"""In microseconds."""


def refuse_far_times(rows: pa.Table) -> None:
    """Raise ``SettingError`` where a date or a timestamp is not of the years 1 to 9999."""
    for name in rows.column_names:
        if any(map(_is_far, _times(rows.column(name)))):
            raise SettingError(
                f"column {name!r} of the statement has a date or a time beyond the years 1 to 9999, which no table has",
                hint="leave such rows out with WHERE, or cast the column to STRING",
            )


def _times(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    """The dates and times of a column, nested ones too."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        yield column
    elif pa.types.is_list(column.type):
        yield from _times(pc.list_flatten(column))
    elif pa.types.is_struct(column.type):
        for field in column.flatten():
            yield from _times(field)


def _is_far(column: pa.ChunkedArray) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    is_date = pa.types.is_date(column.type)
    ends = pc.min_max(column.cast(pa.int32() if is_date else pa.int64()))
    least, greatest = ends["min"].as_py(), ends["max"].as_py()
    if least is None:
        return False
    first, last = (_FIRST, _LAST) if is_date else (_FIRST * _DAY, (_LAST + 1) * _DAY - 1)
    return bool(least < first or greatest > last)
