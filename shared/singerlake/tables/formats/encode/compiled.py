"""Columns as ``_rows.c`` takes them: each a tuple of kind, what stands before its values, offset, the buffers of null
bits, values and offsets, the bytes of an integer or the scale of a decimal, and the columns below it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Column = tuple[str, bytes, int, Any, Any, Any, int, tuple[Any, ...]]


def columns(rows: pa.RecordBatch, form: str, *, texts: bool) -> tuple[Column, ...]:
    """The columns of ``rows``. ``texts`` adds to numbers the text of each."""
    return tuple(
        _column(rows.column(index), lead, form, texts)
        for index, lead in enumerate(leads(rows.schema.names, form, nested=False))
    )


def leads(names: Sequence[str], form: str, *, nested: bool) -> list[bytes]:
    """What stands before the value of each column."""
    if form == "a":
        return [b""] * len(names)
    if form == "j" or nested:
        return [b"," * bool(index) + b"{" * (not index) + quoted(name) + b":" for index, name in enumerate(names)]
    return [b"," * bool(index) for index in range(len(names))]


def quoted(text: str) -> bytes:
    """A JSON string."""
    return json.dumps(text, ensure_ascii=False).encode()


def _column(array: pa.Array, lead: bytes, form: str, texts: bool) -> Column:
    import pyarrow as pa
    import pyarrow.compute as pc

    own = array.type
    buffers = array.buffers()
    nulls = buffers[0] if array.null_count else None
    if pa.types.is_struct(own):
        names = [own.field(index).name for index in range(own.num_fields)]
        below = zip(
            (array.field(index) for index in range(own.num_fields)), leads(names, form, nested=True), strict=True
        )
        children = tuple(_column(child, each, form, texts) for child, each in below)
        return ("o", lead, array.offset, nulls, None, None, 0, children)
    if pa.types.is_list(own):
        child = _column(array.values, b"", form, texts)
        return ("a", lead, array.offset, nulls, None, buffers[1], 0, (child,))
    if pa.types.is_string(own):
        return ("t", lead, array.offset, nulls, buffers[2], buffers[1], 0, ())
    kind, extra = _kind(own)
    children = ()
    if kind == "d" and texts and form != "a":
        children = (_column(pc.cast(array, pa.string()), b"", form, texts),)
    return (kind, lead, array.offset, nulls, buffers[1], None, extra, children)


def _kind(own: pa.DataType) -> tuple[str, int]:
    import pyarrow as pa

    if pa.types.is_boolean(own):
        return "b", 0
    if pa.types.is_signed_integer(own):
        return "i", own.bit_width // 8
    if pa.types.is_float64(own):
        return "d", 0
    if pa.types.is_date32(own):
        return "D", 4
    if pa.types.is_decimal128(own):
        return "n", own.scale
    if pa.types.is_timestamp(own) and own.unit == "us":
        return "L" if own.tz is None else "T", 8
    raise TypeError(f"no column of a table has the type {own}")
