"""From Singer lines to Arrow record batches.

A typed msgspec decoder reads only the columns that are asked for, a chunk at a time; that is the fast way, and it is
strict. What it refuses is read again line by line, with more care. A value that its column cannot hold exactly is then
known with its place, and becomes what the mode says. Nothing is coerced.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from singerlake.arrow.arrays import build, integers_from, mend, misfits, transposed
from singerlake.arrow.careful import Careful, Origin, value_error
from singerlake.arrow.columns import Field, Integer, JsonText, Struct, Text, Timestamp
from singerlake.arrow.plain import PlainLines
from singerlake.arrow.request import Mode
from singerlake.arrow.rescue import rescued_text
from singerlake.arrow.rows import Rows
from singerlake.arrow.typed import holds_raw, typed_decoder
from singerlake.arrow.values import Lost, Misfit, describe
from singerlake.format.messages import one_a_line

if TYPE_CHECKING:
    import pyarrow as pa

OFFSET, VERSION, FILE, TIME = "_singerlake_offset", "_singerlake_version", "_singerlake_file", "_time_extracted"
METADATA = Struct((Field(OFFSET, Integer()), Field(VERSION, Text()), Field(FILE, Text()), Field(TIME, Timestamp())))
"""The columns that come from the lake and the message's envelope instead of the record."""
RESCUED = Field("_rescued_data", JsonText())
"""The column of what did not fit: a JSON object of the record's shape with nothing else in it."""
_ROUNDED = re.compile(rb"[0-9][0-9.]{16}|[0-9][eE]-[0-9]{3}")
"""Finds every number that a float may hold another number for, and more: 17 digits, or so small that it may be 0."""
_BIGINT = "read it as BIGINT"
_NOT_NULL = "declare the column without NOT NULL in .schema(...), or read with mode DROPMALFORMED"


class BatchDecoder:
    """Decodes lines into batches of ``schema``, whose fields are ``columns`` in the same order. With ``metadata``
    the names of ``METADATA`` mean those columns, not properties; in the mode ``PERMISSIVE`` so does ``RESCUED``.

    ``dropped`` counts the rows that ``DROPMALFORMED`` left out so far, ``rescued`` those with a value that did not fit.
    """

    def __init__(
        self, columns: Struct, schema: pa.Schema, *, metadata: bool = False, mode: Mode = Mode.PERMISSIVE
    ) -> None:
        self.dropped = 0
        self.rescued = 0
        self._schema = schema
        self._mode = mode
        of_the_lake = {field.name for field in METADATA.fields} if metadata else set()
        if mode is Mode.PERMISSIVE:
            of_the_lake.add(RESCUED.name)
        self._record = Struct(tuple(field for field in columns.fields if field.name not in of_the_lake))
        places = {field.name: index for index, field in enumerate(self._record.fields)}
        self._plan = [
            (each, places.get(each.name), type) for each, type in zip(columns.fields, schema.types, strict=True)
        ]
        self._rescued = columns.fields.index(RESCUED) if mode is Mode.PERMISSIVE and RESCUED in columns.fields else None
        time = columns.get(TIME) if metadata else None
        self._typed = typed_decoder(self._record, with_time=time is not None)
        self._raw = holds_raw(self._record)
        self._careful = Careful(self._record, self._typed, time=TIME if time else None)
        properties = [*self._record.fields, time] if time else self._record.fields
        types = [schema.field(each.name).type for each in properties]
        self._plain = PlainLines(self._record, types, time=time)

    def batch(
        self, data: bytes, offset: int, origin: Origin, *, first: int = 0, stop: int | None = None
    ) -> tuple[pa.RecordBatch, int]:
        """The records of whole lines, the first of whose messages has ``offset``, and how many messages they are; only
        records with offsets [``first``, ``stop``) are in the batch. SCHEMA lines are no messages.

        Raises ``ValueDoesNotFit`` in the mode ``FAILFAST``, and ``BrokenFile`` for a line that is no Singer message.
        """
        taken = self._plain.arrays(data)
        if taken is not None:
            messages, properties = taken
            begin = min(max(first - offset, 0), messages)
            end = messages if stop is None else max(begin, min(stop - offset, messages))
            whole = self._of_arrays(properties, range(offset + begin, offset + end), begin, origin)
            if whole is not None:
                return whole, messages
        rows = self._fast(data, offset) or self._careful.rows(data, offset, origin)
        messages = rows.messages
        if offset < first or (stop is not None and offset + messages > stop):
            begin = bisect_left(rows.offsets, first)
            end = len(rows.offsets) if stop is None else bisect_left(rows.offsets, stop)
            rows = rows.between(begin, end)
        return self._assemble(rows, data, origin), messages

    def _of_arrays(
        self, properties: Sequence[pa.Array], offsets: range, begin: int, origin: Origin
    ) -> pa.RecordBatch | None:
        """The batch of the rows with these ``offsets``, the first of which is row ``begin`` of the arrays; None where a
        column of the lake's is declared too small."""
        import pyarrow as pa

        rows = len(offsets)
        arrays: list[pa.Array] = []
        for index, (field, place, arrow) in enumerate(self._plan):
            if index == self._rescued:
                arrays.append(pa.nulls(rows, arrow))
            elif field.name == TIME and place is None:
                arrays.append(properties[-1].slice(begin, rows))
            elif place is not None:
                arrays.append(properties[place].slice(begin, rows))
            elif field.name == OFFSET:
                try:
                    arrays.append(pa.array(offsets, arrow))
                except (pa.ArrowException, OverflowError):
                    return None
            else:
                same = origin.version if field.name == VERSION else origin.path
                arrays.append(pa.repeat(pa.scalar(same, arrow), rows))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _fast(self, data: bytes, offset: int) -> Rows | None:
        if self._typed is None:
            return None
        try:
            if self._raw and not data.isascii():
                data.decode()
            messages = self._typed.decode_lines(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return Rows.of(messages, offset) if one_a_line(len(messages), data) else None

    def _assemble(self, rows: Rows, data: bytes, origin: Origin) -> pa.RecordBatch:
        import pyarrow as pa

        arrays: list[pa.Array] = []
        properties = transposed(rows.records, len(self._record.fields))
        for index, (field, place, arrow) in enumerate(self._plan):
            if index == self._rescued:
                # What was lost is known when all others are built.
                arrays.append(None)
                continue
            values = self._lake_s(field.name, rows, origin) if place is None else properties[place]
            try:
                arrays.append(build(values, field, arrow))
            except (pa.ArrowException, OverflowError, UnicodeEncodeError):
                if place is None and field.name != TIME:
                    found = Misfit(field.name, describe(field.type), "a larger number")
                    raise value_error(
                        Lost((field.name,), str(rows.offsets[-1]), found), rows.offsets[-1], origin, hint=_BIGINT
                    ) from None
                if isinstance(field.type, Integer) and field.nullable and not _ROUNDED.search(data):
                    try:
                        arrays.append(integers_from(values, arrow))
                        continue
                    except (pa.ArrowException, OverflowError):
                        pass
                mended = self._mended(values, field, arrow, rows, data, origin)
                # A null that the column is declared without stands only in rows that will be left out.
                arrays.append(build(mended, replace(field, nullable=True), arrow))
        if rows.lost and self._mode is Mode.FAILFAST:
            row = min(rows.lost)
            raise value_error(rows.lost[row][0], rows.offsets[row], origin)
        if self._rescued is not None:
            arrays[self._rescued] = rescued_text(rows.lost, len(rows), self._schema.field(self._rescued).type)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self.rescued += len(rows.lost)
        if rows.lost and self._mode is Mode.DROPMALFORMED:
            self.dropped += len(rows.lost)
            batch = batch.filter(pa.array([row not in rows.lost for row in range(len(rows))], pa.bool_()))
        return batch

    def _mended(
        self, given: Sequence[Any], field: Field, arrow: pa.DataType, rows: Rows, data: bytes, origin: Origin
    ) -> list[Any]:
        """The values of a column as its array takes them, what it does not take being told in ``rows.lost``."""
        values = list(given)
        for row in list(misfits(values, field, arrow)):
            line = rows.line(data, row)
            value, lost = self._careful.again(line, field)
            try:
                values[row], mended = mend(value, field, arrow, (field.name,))
            except Misfit as misfit:
                if not lost or self._mode is not Mode.DROPMALFORMED:
                    cause = lost[0] if lost else Lost((field.name,), "null", misfit)
                    raise value_error(cause, rows.offsets[row], origin, hint=_NOT_NULL) from None
                values[row], mended = None, []
            lost += [Lost(keys, self._careful.text_at(line, keys), misfit) for keys, misfit in mended]
            if lost:
                known = rows.lost.setdefault(row, [])
                known += [each for each in lost if each.keys not in {other.keys for other in known}]
        return values

    def _lake_s(self, name: str, rows: Rows, origin: Origin) -> Sequence[Any]:
        if name == OFFSET:
            return rows.offsets
        if name == TIME:
            return [message.time_extracted for message in rows.messages_of_rows()]
        return [origin.version if name == VERSION else origin.path] * len(rows)
