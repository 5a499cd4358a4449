"""From Singer lines to Arrow record batches.

A typed msgspec decoder reads only the columns that are asked for, a chunk at a time; that is the fast way, and it is
strict. What it refuses is read again line by line, with more care. A value that its column cannot hold exactly is then
known with its place, and becomes what the mode says. Nothing is coerced.
"""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from singerlake.arrow.decode.fast_path import PlainLines, Taken
from singerlake.arrow.decode.rows import Rows, files_array
from singerlake.arrow.decode.slow_path import Origin, SlowPath, captured, value_error
from singerlake.arrow.plan.request import MessageKinds, Mode, Request, own_columns
from singerlake.arrow.schema.columns import Field, Integer, Struct
from singerlake.arrow.schema.own import ENVELOPE, FILE, FILES, OFFSET, RECORD, RESCUED, TYPE, VERSION
from singerlake.arrow.values.arrays import build, integers_from, mend, misfits, transposed
from singerlake.arrow.values.known import KnownObject
from singerlake.arrow.values.typed import holds_raw, typed_decoder
from singerlake.arrow.values.values import Lost, MisfitError, describe
from singerlake.format.lines.messages import one_a_line

if TYPE_CHECKING:
    import pyarrow as pa


def rescued_text(lost: Mapping[int, Iterable[Lost]], rows: int, arrow: pa.DataType) -> pa.Array:
    """The column ``_rescued_data``: null where all of a record fitted."""
    import pyarrow as pa

    if not lost:
        return pa.nulls(rows, arrow)
    return pa.array([rescued_json(lost[row]) if row in lost else None for row in range(rows)], arrow)


def rescued_json(lost: Iterable[Lost]) -> str:
    """One JSON object of the record's shape, the values as they were written: ``{"address":{"zip":12}}``. In an
    array the elements keep their places, up to the last one that is kept: ``{"items":[null,{"more":1}]}``."""
    tree: dict[str | int, Any] = {}
    for each in lost:
        inner = tree
        for key in each.keys[:-1]:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                # All of what it lies in is kept already.
                break
        else:
            inner[each.keys[-1]] = each.text
    return _written(tree)


def _written(tree: dict[str | int, Any]) -> str:
    texts = {key: _written(value) if isinstance(value, dict) else value for key, value in tree.items()}
    if 0 in texts or not all(isinstance(key, str) for key in texts):
        return "[" + ",".join(texts.get(position, "null") for position in range(1 + max(map(int, texts)))) + "]"
    return "{" + ",".join(f"{_name(str(key))}:{text}" for key, text in texts.items()) + "}"


@lru_cache(maxsize=4096)
def _name(name: str) -> str:
    """As JSON, without needless escapes; text that has no UTF-8 form is escaped."""
    written = json.dumps(name, ensure_ascii=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        return json.dumps(name)
    return written


_ROUNDED = re.compile(rb"[0-9][0-9.]{16}|[0-9][eE]-[0-9]{3}")
"""Finds every number that a float may hold another number for, and more: 17 digits, or so small that it may be 0."""
_BIGINT = "read it as BIGINT"
_NOT_NULL = "declare the column without NOT NULL in .schema(...), or read with mode DROPMALFORMED"


class BatchDecoder:
    """Decodes lines into batches of ``schema``, whose fields are ``columns`` in the same order. Of the names of
    ``own.ALL``, those that ``request`` is about mean those columns, not properties. ``known``: what of the records is
    declared (None: nothing else is looked for).

    ``dropped`` counts the rows that ``DROPMALFORMED`` left out so far, ``rescued`` those with a value that did not fit,
    and ``undeclared`` those with a property that no schema declares and that no column holds.
    """

    def __init__(
        self, columns: Struct, schema: pa.Schema, request: Request | None = None, known: KnownObject | None = None
    ) -> None:
        request = request or Request()
        self.dropped = 0
        self.rescued = 0
        self.undeclared = 0
        self._schema = schema
        self._mode = request.mode
        self._known = known
        own = own_columns(request)
        self._record = Struct(tuple(field for field in columns.fields if own.get(field.name) is None))
        positions = {field.name: index for index, field in enumerate(self._record.fields)}
        self._plan = [
            (each, positions.get(each.name), type) for each, type in zip(columns.fields, schema.types, strict=True)
        ]
        self._rescued = columns.fields.index(RESCUED) if own.get(RESCUED.name) and RESCUED in columns.fields else None
        beside = tuple(field for field in columns.fields if own.get(field.name) and field.name in (*ENVELOPE, RECORD))
        envelope = tuple(field.name for field in beside if field.name in ENVELOPE)
        self._beside = {field.name: len(positions) + index for index, field in enumerate(beside)}
        self._typed = typed_decoder(self._record, envelope)
        self._strict = typed_decoder(self._record, envelope, known) if known else None
        self._raw = holds_raw(self._record)
        self._all = request.messages is MessageKinds.ALL
        self._slow_path = SlowPath(self._record, self._typed, envelope=envelope, known=known, every=self._all)
        types = [schema.field(each.name).type for each in (*self._record.fields, *beside)]
        self._plain = PlainLines(self._record, types, envelope=beside, known=known)

    def batch(
        self, data: bytes, offset: int | Sequence[int], origin: Origin, *, first: int = 0, stop: int | None = None
    ) -> tuple[pa.RecordBatch, int]:
        """The records of whole lines, and how many messages these are; only records with offsets [``first``, ``stop``)
        are in the batch. ``offset`` is that of the first message where the others follow in a row, else those of all.
        SCHEMA lines are not messages.

        Raises ``ValueDoesNotFitError`` in the mode ``FAILFAST``, and ``BrokenFileError`` for a line that is not a
        Singer message.
        """
        offsets = range(offset, sys.maxsize) if isinstance(offset, int) else offset
        taken = self._plain.take(data)
        if taken is not None:
            messages = taken.rows
            begin = bisect_left(offsets, first, 0, messages)
            end = messages if stop is None else bisect_left(offsets, stop, begin, messages)
            whole = self._of_arrays(taken, offsets[begin:end], begin, origin)
            if whole is not None:
                return whole, messages
        rows = self._fast(data, offsets) or self._slow_path.rows(data, offsets, origin)
        messages = rows.messages
        if messages and (offsets[0] < first or (stop is not None and offsets[messages - 1] >= stop)):
            begin = bisect_left(rows.offsets, first)
            end = len(rows.offsets) if stop is None else bisect_left(rows.offsets, stop)
            rows = rows.between(begin, end)
        return self._assemble(rows, data, origin), messages

    def _of_arrays(self, taken: Taken, offsets: Sequence[int], begin: int, origin: Origin) -> pa.RecordBatch | None:
        """The batch of the rows with these ``offsets``; the first is row ``begin`` of the arrays. None where a
        column of the lake's is declared too small, and where something undeclared is an error."""
        import pyarrow as pa

        rows = len(offsets)
        rest = None if taken.rest is None else taken.rest.slice(begin, rows)
        undeclared = 0 if rest is None else rows - rest.null_count
        if undeclared and self._mode is Mode.FAILFAST:
            return None
        arrays: list[pa.Array] = []
        for index, (field, position, arrow) in enumerate(self._plan):
            if index == self._rescued:
                arrays.append(pa.nulls(rows, arrow) if rest is None else rest.cast(arrow))
            elif position is not None or field.name in self._beside:
                held = self._beside[field.name] if position is None else position
                arrays.append(taken.arrays[held].slice(begin, rows))
            elif field.name == FILES:
                arrays.append(files_array(offsets, origin.files, arrow))
            elif field.name == OFFSET:
                try:
                    arrays.append(pa.array(offsets, arrow))
                except (pa.ArrowException, OverflowError):
                    return None
            else:
                arrays.append(pa.repeat(pa.scalar(_same(field.name, origin), arrow), rows))
        if self._rescued is None:
            self.undeclared += undeclared
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _fast(self, data: bytes, offsets: Sequence[int]) -> Rows | None:
        """The rows by a typed decoder: the strict one where all is declared, else the one that looks past the rest."""
        for typed in (self._strict, self._typed):
            if typed is None:
                continue
            try:
                if self._raw and not data.isascii():
                    data.decode()
                messages = typed.decode_lines(data)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            if not one_a_line(len(messages), data):
                return None
            rows = Rows.of(messages, offsets, blank=self._blank(typed))
            rows.declared = typed is self._strict
            return rows
        return None

    def _blank(self, typed: msgspec.json.Decoder[Any]) -> Any:
        """What stands for the record of a message that has none; None where such a message is not a row."""
        return typed.decode(_EMPTY).record if self._all else None

    def _assemble(self, rows: Rows, data: bytes, origin: Origin) -> pa.RecordBatch:
        import pyarrow as pa

        arrays: list[pa.Array] = []
        properties = transposed(rows.records, len(self._record.fields))
        for index, (field, position, arrow) in enumerate(self._plan):
            if index == self._rescued:
                # What was lost is known when all others are built.
                arrays.append(None)
                continue
            if position is None and field.name == FILES:
                arrays.append(files_array(rows.offsets, origin.files, arrow))
                continue
            values = self._own(field.name, rows, data, origin) if position is None else properties[position]
            try:
                arrays.append(build(values, field, arrow))
            except (pa.ArrowException, OverflowError, UnicodeEncodeError):
                if position is None and field.name == OFFSET:
                    misfit = MisfitError(field.name, describe(field.type), "a larger number")
                    raise value_error(
                        Lost((field.name,), str(rows.offsets[-1]), misfit), rows.offsets[-1], origin, hint=_BIGINT
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
        undeclared = self._undeclared(rows, data)
        rest = {row: [*rows.lost.get(row, ()), *undeclared.get(row, ())] for row in {**rows.lost, **undeclared}}
        if rest and self._mode is Mode.FAILFAST:
            row = min(rest)
            raise value_error(rest[row][0], rows.offsets[row], origin)
        if self._rescued is not None:
            arrays[self._rescued] = rescued_text(rest, len(rows), self._schema.field(self._rescued).type)
        else:
            self.undeclared += len(undeclared.keys() - (rows.lost if self._mode is Mode.DROPMALFORMED else ()))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self.rescued += len(rows.lost)
        if rows.lost and self._mode is Mode.DROPMALFORMED:
            self.dropped += len(rows.lost)
            batch = batch.filter(pa.array([row not in rows.lost for row in range(len(rows))], pa.bool_()))
        return batch

    def _undeclared(self, rows: Rows, data: bytes) -> dict[int, list[Lost]]:
        if self._known is None or rows.declared:
            return {}
        undeclared = {
            row: list(self._slow_path.undeclared(rows.line(data, row)))
            for row in range(len(rows))
            if rows.is_record(row)
        }
        return {row: each for row, each in undeclared.items() if each}

    def _mended(
        self, given: Sequence[Any], field: Field, arrow: pa.DataType, rows: Rows, data: bytes, origin: Origin
    ) -> list[Any]:
        """The values of a column as its array takes them, what it does not take being told in ``rows.lost``."""
        values = list(given)
        for row in list(misfits(values, field, arrow)):
            line = rows.line(data, row)
            value, lost = self._slow_path.again(line, field)
            try:
                values[row], mended = mend(value, field, arrow, (field.name,))
            except MisfitError as misfit:
                if not lost or self._mode is not Mode.DROPMALFORMED:
                    cause = lost[0] if lost else Lost((field.name,), "null", misfit)
                    raise value_error(cause, rows.offsets[row], origin, hint=_NOT_NULL) from None
                values[row], mended = None, []
            lost += [Lost(keys, self._slow_path.text_at(line, keys), misfit) for keys, misfit in mended]
            if lost:
                known = rows.lost.setdefault(row, [])
                known += [each for each in lost if each.keys not in {other.keys for other in known}]
        return values

    def _own(self, name: str, rows: Rows, data: bytes, origin: Origin) -> Sequence[Any]:
        if name == OFFSET:
            return rows.offsets
        if name in ENVELOPE:
            return [getattr(message, ENVELOPE[name]) for message in rows.envelopes]
        if name == TYPE:
            return [_RECORD if rows.is_record(row) else "ACTIVATE_VERSION" for row in range(len(rows))]
        if name == RECORD:
            return [captured(rows.line(data, row)) if rows.is_record(row) else None for row in range(len(rows))]
        return [_same(name, origin)] * len(rows)


_RECORD = "RECORD"
_EMPTY = b'{"type":"RECORD","record":{}}'


def _same(name: str, origin: Origin) -> str:
    """What is the same for all records of a file."""
    return {VERSION: origin.version, FILE: origin.path, TYPE: _RECORD}[name]
