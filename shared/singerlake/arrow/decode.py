"""From blocks of Singer lines to Arrow record batches.

A typed msgspec decoder reads only the columns that are asked for, a chunk at a time; that is the fast way, and it is
strict. A chunk it refuses is read again line by line, which either copes with the line or says which value of which
column does not fit. Nothing is coerced and no row is left out in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec

from singerlake.arrow.arrays import build, locate
from singerlake.arrow.columns import (
    Array,
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
from singerlake.arrow.values import Misfit, fit, parse, slot
from singerlake.errors import BrokenFile, ValueDoesNotFit
from singerlake.singer_file import Block

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_BYTES = 1 << 20
"""Bytes decoded in one go: measured best for many columns, since the parsed values still lie in the cache."""

OFFSET, VERSION, FILE, TIME = "_singerlake_offset", "_singerlake_version", "_singerlake_file", "_time_extracted"
METADATA = Struct((Field(OFFSET, Integer()), Field(VERSION, Text()), Field(FILE, Text()), Field(TIME, Timestamp())))
"""The columns that come from the lake and the message's envelope instead of the record."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where lines come from: the file's path in its stream's folder, and the hash of its schema version."""

    path: str
    version: str


class BatchDecoder:
    """Decodes blocks into batches of ``schema``, whose fields are ``columns`` in the same order. With ``metadata``
    the names of ``METADATA`` mean those columns, not properties."""

    def __init__(self, columns: Struct, schema: pa.Schema, *, metadata: bool) -> None:
        self._columns = columns.fields
        self._schema = schema
        self._metadata = {field.name for field in METADATA.fields} if metadata else set()
        self._record = Struct(tuple(field for field in columns.fields if field.name not in self._metadata))
        self._slots = {field.name: attrgetter(slot(index)) for index, field in enumerate(self._record.fields)}
        self._with_time = TIME in self._metadata and columns.get(TIME) is not None
        self._typed = _typed_decoder(self._record, with_time=self._with_time)

    def batches(self, block: Block, origin: Origin) -> Iterator[pa.RecordBatch]:
        """The records of a block, in order; a batch for about ``CHUNK_BYTES`` of lines. Raises ``ValueDoesNotFit``,
        and ``BrokenFile`` for a line that is no Singer message."""
        offset, start = block.offset, 0
        while start < len(block.data):
            end = block.data.rfind(b"\n", start, start + CHUNK_BYTES) + 1 or block.data.find(b"\n", start) + 1
            chunk = block.data[start:end]
            messages = chunk.count(b"\n")
            yield self._batch(chunk, messages, offset, origin)
            offset += messages
            start = end

    def _batch(self, chunk: bytes, count: int, offset: int, origin: Origin) -> pa.RecordBatch:
        import pyarrow as pa

        messages = self._fast(chunk, count)
        if messages is not None:
            try:
                return self._assemble(messages, offset, origin)
            except (pa.ArrowException, OverflowError, UnicodeEncodeError):
                # Whatever the fast way leaves to the arrays may still fit when it is read with more care.
                pass
        messages = self._line_by_line(chunk, offset, origin)
        try:
            return self._assemble(messages, offset, origin)
        except (pa.ArrowException, OverflowError, UnicodeEncodeError):
            raise self._misfit(messages, offset, origin) from None

    def _fast(self, chunk: bytes, count: int) -> list[Any] | None:
        if self._typed is None:
            return None
        try:
            messages = self._typed.decode_lines(chunk)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        # decode_lines takes two values on one line as two, and an empty line as none.
        return messages if len(messages) == count else None

    def _line_by_line(self, chunk: bytes, offset: int, origin: Origin) -> list[Any]:
        messages = []
        for index, line in enumerate(chunk.split(b"\n")[:-1]):
            try:
                messages.append(self._careful(line))
            except Misfit as misfit:
                raise _does_not_fit(misfit, offset + index, origin) from None
            except (ValueError, RecursionError) as error:
                raise BrokenFile(
                    f"holds a line that is no Singer message ({type(error).__name__})",
                    hint="run 'singerlake verify'",
                    file=origin.path,
                    offset=offset + index,
                ) from None
        return messages

    def _careful(self, line: bytes) -> SimpleNamespace:
        """A line as the typed decoder gives it. Raises ``Misfit``; ``ValueError`` where it is no message."""
        message = parse(line)
        if not isinstance(message, dict) or message.get("type") not in ("RECORD", "ACTIVATE_VERSION"):
            raise ValueError("neither RECORD nor ACTIVATE_VERSION")
        time = fit(message.get("time_extracted"), Timestamp(), TIME) if self._with_time else None
        if message["type"] == "ACTIVATE_VERSION":
            return SimpleNamespace(record=None, time_extracted=time)
        record = message.get("record")
        if not isinstance(record, dict):
            raise ValueError("a RECORD without a record")
        fitted = {
            slot(index): fit(record.get(field.name), field.type, field.name)
            for index, field in enumerate(self._record.fields)
        }
        return SimpleNamespace(record=SimpleNamespace(**fitted), time_extracted=time)

    def _assemble(self, messages: Sequence[Any], offset: int, origin: Origin) -> pa.RecordBatch:
        import pyarrow as pa

        kept, records, offsets = _rows(messages, offset)
        arrays = [
            build(self._values(field.name, kept, records, offsets, origin), field, self._schema.field(index).type)
            for index, field in enumerate(self._columns)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _misfit(self, messages: Sequence[Any], offset: int, origin: Origin) -> ValueDoesNotFit:
        kept, records, offsets = _rows(messages, offset)
        found = []
        for index, field in enumerate(self._columns):
            values = self._values(field.name, kept, records, offsets, origin)
            located = locate(values, field, self._schema.field(index).type)
            if located is not None:
                found.append(located)
        row, misfit = min(found, key=lambda item: item[0])
        return _does_not_fit(misfit, offsets[row], origin)

    def _values(
        self, name: str, kept: Sequence[Any], records: Sequence[Any], offsets: Sequence[int], origin: Origin
    ) -> Sequence[Any]:
        if name not in self._metadata:
            return list(map(self._slots[name], records))
        if name == OFFSET:
            return offsets
        if name == TIME:
            return [message.time_extracted for message in kept]
        return [origin.version if name == VERSION else origin.path] * len(records)


def _rows(messages: Sequence[Any], offset: int) -> tuple[Sequence[Any], Sequence[Any], Sequence[int]]:
    """The RECORD messages, their records and their offsets; the other messages hold an offset but are no row."""
    records = [message.record for message in messages]
    if None not in records:
        return messages, records, range(offset, offset + len(messages))
    places = [index for index, record in enumerate(records) if record is not None]
    return [messages[index] for index in places], [records[index] for index in places], [offset + i for i in places]


def _does_not_fit(misfit: Misfit, offset: int, origin: Origin) -> ValueDoesNotFit:
    return ValueDoesNotFit(
        f"column {misfit.path!r} is {misfit.expected}, and one record holds {misfit.found}",
        hint="give .schema(...) with another type for this column, or without it",
        file=origin.path,
        offset=offset,
    )


def _typed_decoder(record: Struct, *, with_time: bool) -> msgspec.json.Decoder[Any] | None:
    """A decoder of messages whose ``record`` has just the fields asked for; None where msgspec cannot name one."""
    try:
        fields: list[Any] = [("record", _struct_type(record))]
    except (ValueError, UnicodeEncodeError):
        return None
    if with_time:
        fields.append(("time_extracted", str | None, None))
    kept = msgspec.defstruct("Record", fields, tag_field="type", tag="RECORD", gc=False)
    left_out = msgspec.defstruct(
        "ActivateVersion", [], tag_field="type", tag="ACTIVATE_VERSION", namespace={"record": None}, gc=False
    )
    return msgspec.json.Decoder(kept | left_out)


def _struct_type(struct: Struct) -> Any:
    """A msgspec Struct for the fields, under ``slot`` names. Raises ``ValueError``, ``UnicodeEncodeError`` for names
    that msgspec cannot match: with a quote, a backslash, a control character or a lone surrogate."""
    fields = []
    for index, field in enumerate(struct.fields):
        default = msgspec.Raw() if _is_raw(field.type) else None
        fields.append((slot(index), _python_type(field.type), default))
    names = {slot(index): field.name for index, field in enumerate(struct.fields)}
    return msgspec.defstruct("Properties", fields, rename=names, gc=False)


def _is_raw(column: Column) -> bool:
    return isinstance(column, JsonText) or (isinstance(column, Decimal) and column.number)


def _python_type(column: Column) -> Any:
    if _is_raw(column):
        return msgspec.Raw
    if isinstance(column, Boolean):
        return bool | None
    if isinstance(column, Integer | Double):
        # Neither is turned into the other here, for Arrow to refuse what that would change.
        return int | float | None
    if isinstance(column, Text | Timestamp | Date | Decimal):
        return str | None
    if isinstance(column, Array):
        return list[_python_type(column.element)] | None  # type: ignore[misc]
    if isinstance(column, Struct):
        return _struct_type(column) | None
    raise TypeError(f"no value is of type {column!r}")
