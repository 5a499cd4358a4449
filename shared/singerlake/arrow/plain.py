"""The fastest way from lines to arrays: compiled, where there was a compiler to do it.

It takes a chunk or leaves it. What it takes it knows exactly; what it leaves, the ways in ``decode`` read, to the same
rows. ``_plain.c`` reads what is plain and finds what is nested, which msgspec reads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from singerlake.arrow.arrays import build, from_texts
from singerlake.arrow.columns import (
    Boolean,
    Column,
    Date,
    Decimal,
    Double,
    Field,
    Integer,
    JsonText,
    Struct,
    Text,
    Timestamp,
)
from singerlake.arrow.typed import value_decoder

if TYPE_CHECKING:
    import pyarrow as pa

    from singerlake.arrow._plain import Part

_MOST_PAUSE = 64
"""Chunks after which it is tried again, where it has not helped for long."""
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
"""In a name: what JSON writes as an escape."""


try:
    from singerlake.arrow import _plain as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

COMPILED = compiled is not None
"""False where the package was installed without a compiler: everything works then, and large reads take longer."""


class PlainLines:
    """Reads chunks of lines into the arrays of the properties ``record`` and, for the column ``time``, of the time of
    extraction; ``types`` are those of the arrays, the time's last."""

    def __init__(self, record: Struct, types: Sequence[pa.DataType], *, time: Field | None) -> None:
        fields = [*record.fields, time] if time else list(record.fields)
        self._columns = [_Column(field, arrow) for field, arrow in zip(fields, types, strict=True)]
        self._time = time is not None
        self._able = COMPILED and all(column.able for column in self._columns)
        self._names = tuple(field.name.encode() for field in fields) if self._able else ()
        self._kinds = "".join(column.kind for column in self._columns)
        self._pause = self._idle = 0

    def arrays(self, data: bytes) -> tuple[int, list[pa.Array]] | None:
        """The number of lines, each of which is a RECORD, and their arrays; None where another way has to be taken."""
        if not self._able:
            return None
        if self._idle:
            self._idle -= 1
            return None
        found = self._read(data)
        # Values that are not plain seldom come alone, and each try may read most of a chunk in vain.
        self._pause = 0 if found else min(_MOST_PAUSE, 2 * self._pause + 1)
        self._idle = self._pause // 2
        return found

    def _read(self, data: bytes) -> tuple[int, list[pa.Array]] | None:
        import pyarrow as pa

        found = compiled.read(data, self._names, self._kinds, self._time)
        if found is None:
            return None
        rows, parts = found
        try:
            return rows, [column.array(rows, part) for column, part in zip(self._columns, parts, strict=True)]
        except (pa.ArrowException, msgspec.DecodeError, OverflowError, UnicodeEncodeError, RecursionError):
            return None


class _Column:
    """One column, and how ``_plain.c`` is to read it: ``able`` says whether it can.

    ``kind`` is a digit for an integer of so many bytes, ``d`` for a double, ``b`` for a boolean, ``t`` for text, ``j``
    for any value as it is written, and ``n`` for the same on a line of its own, which msgspec reads.
    """

    def __init__(self, field: Field, arrow: pa.DataType) -> None:
        self.kind = _kind(field.type)
        self._field = field
        self._arrow = arrow
        self._values = value_decoder(field.type) if self.kind == _NESTED else None
        self.able = (
            field.nullable and not _ESCAPED.search(field.name) and (self.kind != _NESTED or self._values is not None)
        )

    def array(self, rows: int, part: Part) -> pa.Array:
        """Raises as ``build`` does, and ``msgspec.DecodeError``, where a value does not fit."""
        import pyarrow as pa

        nulls, valid, values, texts = part
        if self._values is not None:
            assert texts is not None
            return build(self._values.decode_lines(texts), self._field, self._arrow)
        buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(values)]
        if texts is None:
            return pa.Array.from_buffers(self._arrow, rows, buffers, nulls)
        written = pa.Array.from_buffers(pa.string(), rows, [*buffers, pa.py_buffer(texts)], nulls)
        return from_texts(written, self._field.type, self._arrow)


_NESTED = "n"


def _kind(column: Column) -> str:
    if isinstance(column, Integer):
        return str(column.bits // 8)
    if isinstance(column, Decimal) and not (column.number and column.text):
        return "j" if column.number else "t"
    if isinstance(column, Text | Timestamp | Date):
        return "t"
    return {Boolean: "b", Double: "d", JsonText: "j"}.get(type(column), _NESTED)
