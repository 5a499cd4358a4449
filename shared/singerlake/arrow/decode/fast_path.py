"""The fastest way from lines to arrays: compiled, where there was a compiler to do it.

It takes a chunk or leaves it. What it takes it knows exactly; what it leaves, the ways in ``decode`` read, to the same
rows. ``_plain.c`` reads what is plain and finds what is nested, which msgspec reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from singerlake.arrow.schema.columns import (
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
from singerlake.arrow.schema.own import ENVELOPE, RECORD
from singerlake.arrow.values.arrays import build, from_texts
from singerlake.arrow.values.known import Known, KnownArray, KnownObject
from singerlake.arrow.values.typed import is_plain_name, value_decoder

if TYPE_CHECKING:
    import pyarrow as pa

    from singerlake.arrow.decode._plain import Part

_MOST_PAUSE = 64
"""Chunks after which it is tried again, where it has not helped for long."""
_MOST_NAMES = 4096
"""Names that ``_plain.c`` takes."""

try:
    from singerlake.arrow.decode import _plain as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

COMPILED = compiled is not None
"""False where the package was installed without a compiler: everything works then, and large reads take longer."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A chunk of ``rows`` lines, each a RECORD: the ``arrays`` of the columns, and of the texts of what no schema
    declares; None where all is declared."""

    rows: int
    arrays: list[pa.Array]
    rest: pa.Array | None


class PlainLines:
    """Reads chunks of lines into the arrays of the properties ``record`` and, behind them, of the columns ``envelope``
    from beside the record; ``types`` are those of the arrays. ``known``: what of a record is declared."""

    def __init__(
        self,
        record: Struct,
        types: Sequence[pa.DataType],
        *,
        envelope: Sequence[Field] = (),
        known: KnownObject | None = None,
    ) -> None:
        inside = known.names if known else {}
        self._closed = known is not None and known.closed
        read = {
            field.name: _PlainColumn(field, arrow, inside.get(field.name))
            for field, arrow in zip(record.fields, types, strict=False)
        }
        beside = [_PlainColumn(field, arrow) for field, arrow in zip(envelope, types[len(read) :], strict=True)]
        self._columns = [*read.values(), *beside]
        # In the order in which they are declared: a tap is likely to write them so.
        names = [name for name in inside if name in read or is_plain_name(name)] if self._closed else []
        names += [name for name in read if name not in inside or not self._closed]
        self._able = COMPILED and len(names) < _MOST_NAMES and all(column.able for column in self._columns)
        if self._able:
            self._names = (*(name.encode() for name in names), *(_written_as(field.name) for field in envelope))
            kinds = [read[name].kind if name in read else _PASSED_OVER for name in names]
            self._kinds = "".join([*kinds, *(column.kind for column in beside)])
            self._inside = (*(read[name].inside if name in read else None for name in names), *(None for _ in beside))
        position = {name: index for index, name in enumerate(read)}
        self._positions = [*(position[name] for name in names if name in read), *range(len(read), len(types))]
        self._envelope = len(beside)
        self._pause = self._idle = 0

    def take(self, data: bytes) -> Taken | None:
        """The arrays of a chunk; None where another way has to be taken."""
        if not self._able:
            return None
        if self._idle:
            self._idle -= 1
            return None
        parts = self._read(data)
        # Values that are not plain seldom come alone, and each try may read most of a chunk in vain.
        self._pause = 0 if parts else min(_MOST_PAUSE, 2 * self._pause + 1)
        self._idle = self._pause // 2
        return parts

    def _read(self, data: bytes) -> Taken | None:
        import pyarrow as pa

        result = compiled.read(data, self._names, self._kinds, self._inside, self._envelope, self._closed)
        if result is None:
            return None
        rows, parts, rest = result
        arrays: list[pa.Array] = [None] * len(parts)
        try:
            for index, part in zip(self._positions, parts, strict=True):
                arrays[index] = self._columns[index].array(rows, part)
        except (pa.ArrowException, msgspec.DecodeError, OverflowError, UnicodeEncodeError, RecursionError):
            return None
        return Taken(rows, arrays, None if rest is None else _texts(rows, rest))


class _PlainColumn:
    """One column, and how ``_plain.c`` is to read it: ``able`` says whether it can.

    ``kind`` is a digit, the number of bytes, for an integer, ``d`` for a double, ``b`` for a boolean, ``t`` for text,
    ``j`` for any value as it is written, and ``n`` for the same on a line of its own, which msgspec reads. ``inside``
    is what is declared in its values, as ``_plain.c`` takes it.
    """

    def __init__(self, field: Field, arrow: pa.DataType, known: Known = None) -> None:
        self.name = field.name
        self.kind = "j" if field.name == RECORD else _kind(field.type)
        self.inside = _described(known)
        self._field = field
        self._arrow = arrow
        self._values = value_decoder(field.type) if self.kind == _NESTED else None
        self.able = field.nullable and is_plain_name(field.name) and (self.kind != _NESTED or self._values is not None)

    def array(self, rows: int, part: Part) -> pa.Array:
        """Raises as ``build`` does, and ``msgspec.DecodeError``, where a value does not fit."""
        import pyarrow as pa

        nulls, valid, values, texts = part
        if self._values is not None:
            assert texts is not None
            return build(self._values.decode_lines(texts), self._field, self._arrow)
        if texts is None:
            buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(values)]
            return pa.Array.from_buffers(self._arrow, rows, buffers, nulls)
        return from_texts(_texts(rows, part), self._field.type, self._arrow)


def _texts(rows: int, part: Part) -> pa.Array:
    import pyarrow as pa

    nulls, valid, offsets, texts = part
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(texts)]
    return pa.Array.from_buffers(pa.string(), rows, buffers, nulls)


def _written_as(column: str) -> bytes:
    """The name in a message of a column of the envelope."""
    return b"record" if column == RECORD else ENVELOPE[column].encode()


def _described(known: Known) -> Any:
    """What ``_plain.c`` takes: a list of one for an array, a tuple of pairs for an object. A name that JSON writes with
    an escape is not compared with: a record that has one is left."""
    if isinstance(known, KnownArray):
        return [_described(known.element)]
    if isinstance(known, KnownObject):
        return tuple((name.encode(), _described(each)) for name, each in known.names.items() if is_plain_name(name))
    return None


_NESTED = "n"
_PASSED_OVER = "x"
"""Of a property that is declared and not read."""


def _kind(column: Column) -> str:
    if isinstance(column, Integer):
        return str(column.bits // 8)
    if isinstance(column, Decimal) and not (column.number and column.text):
        return "j" if column.number else "t"
    if isinstance(column, Text | Timestamp | Date):
        return "t"
    return {Boolean: "b", Double: "d", JsonText: "j"}.get(type(column), _NESTED)
