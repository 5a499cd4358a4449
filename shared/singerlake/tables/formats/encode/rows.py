"""The rows of a table as the bytes of a file, block by block: by ``_rows.c``, or in Python where it is not compiled.

``_rows.c`` takes each column as a tuple: kind, what stands before its values, offset, the buffers of null bits, values
and offsets, the bytes of an integer or the scale of a decimal, and the columns below it.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


try:
    from singerlake.tables.formats.encode import _rows as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

CSV, CSV_ESCAPED, JSON, AVRO = "c", "e", "j", "a"
BLOCK = 1 << 13
"""Rows that are made at once."""


def blocks(rows: pa.Table, form: str, end: bytes) -> Iterator[tuple[int, bytes]]:
    """How many rows each block has, and their bytes, each row with ``end`` behind it."""
    texts = False
    for batch in rows.to_batches(max_chunksize=BLOCK):
        made = None if texts else encoded(batch, form, end, texts=False)
        if made is None:
            # Arrow makes the texts of numbers whose shortest one takes more than a multiplication to find.
            texts = True
            made = encoded(batch, form, end, texts=True)
        if made is None:
            raise ValueError("a number has no text")
        yield batch.num_rows, made


def encoded(batch: pa.RecordBatch, form: str, end: bytes, *, texts: bool) -> bytes | None:
    """The bytes of these rows; None where a number needs its text, and ``texts`` is False."""
    if compiled is None or sys.byteorder != "little":
        return in_python(batch, form, end)
    return compiled.encoded(form, columns(batch, form, texts=texts), batch.num_rows, end)


def text_of(text: str, form: str) -> bytes:
    """One text as csv."""
    return csv_text(form)(text)


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


_DAY = 86_400_000_000
_EPOCH = date(1970, 1, 1)
_ERA = 146_097
"""Days of 400 years, after which the calendar repeats."""
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")


def in_python(rows: pa.RecordBatch, form: str, end: bytes) -> bytes:
    """The rows, each with ``end`` behind it. ``form`` is c (csv), e (csv, formulas escaped), j (JSON lines) or a
    (avro)."""
    nested = form == "j"
    before = leads(rows.schema.names, form, nested=False)
    columns = [
        [lead + value for value in _values(rows.column(index), form, nested)] for index, lead in enumerate(before)
    ]
    return b"".join(b"".join(row) + end for row in zip(*columns, strict=True))


def _values(array: pa.Array, form: str, nested: bool) -> list[bytes]:
    """What is written of each value."""
    valid = array.is_valid().to_pylist()
    if form == "a":
        return [b"\2" + value if there else b"\0" for there, value in zip(valid, _avro(array), strict=True)]
    null = b"null" if nested else b""
    made = _texts(array, form, nested)
    return [value if there else null for there, value in zip(valid, made, strict=True)]


def _texts(array: pa.Array, form: str, nested: bool) -> Iterable[bytes]:
    import pyarrow as pa
    import pyarrow.compute as pc

    own = array.type
    quote: Callable[[str], bytes] = quoted if nested else csv_text(form)
    if pa.types.is_list(own):
        return map(_whole(quote, nested), _lists(array, form, lambda items: b"[" + b",".join(items) + b"]"))
    if pa.types.is_struct(own):
        names = [own.field(index).name for index in range(own.num_fields)]
        fields = [_values(array.field(index), form, True) for index in range(own.num_fields)]
        before = leads(names, form, nested=True)
        made = [
            (b"" if before else b"{") + b"".join(lead + field[row] for lead, field in zip(before, fields, strict=True))
            for row in range(len(array))
        ]
        return [_whole(quote, nested)(text + b"}") for text in made]
    if pa.types.is_string(own):
        return [quote(value or "") for value in array.to_pylist()]
    word = (lambda text: b'"' + text.encode() + b'"') if nested else str.encode
    if pa.types.is_floating(own):
        return [_double(text or "nan", word) for text in pc.cast(array, pa.string()).to_pylist()]
    if pa.types.is_date(own):
        return [word(_date(days or 0)) for days in array.cast(pa.int32()).to_pylist()]
    if pa.types.is_timestamp(own):
        zone = "" if own.tz is None else "Z"
        return [word(_time(micros or 0) + zone) for micros in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_boolean(own):
        return [b"true" if value else b"false" for value in array.to_pylist()]
    if pa.types.is_decimal(own):
        return [b"" if value is None else format(value, "f").encode() for value in array.to_pylist()]
    return [str(value).encode() for value in array.to_pylist()]


def _lists(array: pa.Array, form: str, made: Callable[[list[bytes]], bytes]) -> list[bytes]:
    items = _values(array.values, form, True)
    ends = array.offsets.to_pylist()
    return [made(items[begin:end]) for begin, end in pairwise(ends)]


def _whole(quote: Callable[[str], bytes], nested: bool) -> Callable[[bytes], bytes]:
    """JSON within JSON stands as it is, and is one text in csv."""
    return (lambda text: text) if nested else (lambda text: quote(text.decode()))


def csv_text(form: str) -> Callable[[str], bytes]:
    """What quotes a text."""

    def quote(text: str) -> bytes:
        if form == "e" and text.startswith(_FORMULAS):
            text = "'" + text
        return b'"' + text.replace('"', '""').encode() + b'"'

    return quote


def _double(text: str, word: Callable[[str], bytes]) -> bytes:
    if text in ("nan", "inf", "-inf"):
        return word({"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[text])
    return text.encode() if "." in text or "e" in text else text.encode() + b".0"


def _date(days: int) -> str:
    """ISO 8601, with a sign where the year has not four digits."""
    eras, rest = divmod(days, _ERA)
    # 1970 and the 400 years behind it, which Python's dates hold.
    day = _EPOCH + timedelta(days=rest)
    year = day.year + 400 * eras
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{day:%m-%d}"


def _time(micros: int) -> str:
    days, rest = divmod(micros, _DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    return f"{_date(days)}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"


def _avro(array: pa.Array) -> Iterable[bytes]:
    import pyarrow as pa

    own = array.type
    if pa.types.is_list(own):
        return _lists(array, "a", lambda items: (long(len(items)) + b"".join(items) if items else b"") + b"\0")
    if pa.types.is_struct(own):
        fields = [_values(array.field(index), "a", False) for index in range(own.num_fields)]
        return [b"".join(field[row] for field in fields) for row in range(len(array))]
    if pa.types.is_string(own):
        return [_sized((value or "").encode()) for value in array.to_pylist()]
    if pa.types.is_decimal(own):
        return [b"" if value is None else _sized(_unscaled(value, own.scale)) for value in array.to_pylist()]
    if pa.types.is_floating(own):
        return [struct.pack("<d", 0.0 if value is None else value) for value in array.to_pylist()]
    if pa.types.is_boolean(own):
        return [b"\1" if value else b"\0" for value in array.to_pylist()]
    width = pa.int32() if pa.types.is_date(own) else pa.int64()
    return [long(value or 0) for value in array.cast(width).to_pylist()]


def long(number: int) -> bytes:
    """An avro long: zigzag, seven bits a byte."""
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    made = bytearray()
    while rest > 127:
        made.append(rest & 127 | 128)
        rest >>= 7
    made.append(rest)
    return bytes(made)


def _sized(body: bytes) -> bytes:
    return long(len(body)) + body


def _unscaled(value: Any, scale: int) -> bytes:
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits))) * 10 ** (exponent + scale) * (-1 if sign else 1)
    bits = number.bit_length() if number >= 0 else (number + 1).bit_length()
    return int(number).to_bytes(bits // 8 + 1, "big", signed=True)
