"""What a Delta log says of a file's values: from the statistics that parquet has, and never wrong."""

from __future__ import annotations

import datetime
import io
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from singerlake.clock import timestamp
from singerlake.errors import BrokenFileError, MissingFileError
from singerlake.format.exact_json import encode
from singerlake.storage.port import Storage

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

COLUMNS = 32
"""Columns that have statistics: as many as Delta's own writers take."""
TAIL = 1 << 16
"""Bytes from a file's end that are read at first: most footers are shorter."""
_LONGEST_TEXT, _MOST_DIGITS = 64, 15


def stats(storage: Storage, key: str, size: int, first: Sequence[str]) -> str:
    """``stats`` of the ``add`` of a parquet file of ``size`` bytes, of the columns ``first`` and of others behind them.
    Raises ``MissingFileError``, ``BrokenFileError``, and what storage raises."""
    footer = _footer(storage, key, size)
    # Which leaf of the file is a column of its own: names alone do not tell a nested one from a name with a dot.
    schema = footer.schema.to_arrow_schema()
    places: dict[str, int] = {}
    leaf = 0
    for field in schema:
        if not _is_nested(field.type):
            places[field.name] = leaf
        leaf += _leaves(field.type)
    chosen = [name for name in dict.fromkeys([*first, *places]) if name in places][:COLUMNS]
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in chosen:
        groups = [footer.row_group(index).column(places[name]).statistics for index in range(footer.num_row_groups)]
        if any(group is None or not group.has_null_count for group in groups):
            continue
        nulls[name] = sum(group.null_count for group in groups)
        ends = _ends(groups, schema.field(name).type)
        if ends is not None:
            least[name], greatest[name] = ends
    told = {"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
    return encode(told).decode()


def _ends(groups: Sequence[Any], own: pa.DataType) -> tuple[Any, Any] | None:
    """The least and the greatest value as JSON; None where parquet does not tell, or readers would take it wrong."""
    import pyarrow as pa

    # NaN is in no statistics, and greater than every number for some readers.
    if pa.types.is_boolean(own) or pa.types.is_floating(own):
        return None
    if pa.types.is_decimal(own) and own.precision > _MOST_DIGITS:
        return None
    with_values = [group for group in groups if group.num_values]
    if not with_values or not all(group.has_min_max for group in with_values):
        return None
    ends = min(group.min for group in with_values), max(group.max for group in with_values)
    if any(isinstance(end, str) and len(end) > _LONGEST_TEXT for end in ends):
        return None
    return _json(ends[0]), _json(ends[1])


def _json(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return timestamp(value) if value.tzinfo else timestamp(value.replace(tzinfo=datetime.UTC)).removesuffix("Z")
    if isinstance(value, Decimal):
        return msgspec.Raw(format(value, "f").encode())
    return value.isoformat() if isinstance(value, datetime.date) else value


def _footer(storage: Storage, key: str, size: int) -> pq.FileMetaData:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tail = min(size, TAIL)
    while True:
        body = storage.read_range(key, size - tail, tail)
        if len(body) < min(8, tail):
            raise MissingFileError("a file of the table is gone", hint="run 'singerlake project verify'", file=key)
        wanted = int.from_bytes(body[-8:-4], "little") + 8
        if body[-4:] != b"PAR1" or wanted > size:
            raise BrokenFileError("not a parquet file", hint="run 'singerlake project verify'", file=key)
        if wanted <= tail:
            break
        tail = wanted
    try:
        return pq.read_metadata(io.BytesIO(body))
    except (pa.ArrowInvalid, OSError) as error:
        raise BrokenFileError("not a parquet file", hint="run 'singerlake project verify'", file=key) from error


def _is_nested(own: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_nested(own))


def _leaves(own: pa.DataType) -> int:
    """How many columns of parquet one of these takes."""
    return sum(_leaves(own.field(index).type) for index in range(own.num_fields)) if _is_nested(own) else 1
