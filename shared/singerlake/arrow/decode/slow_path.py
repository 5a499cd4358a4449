"""The slow way: line by line, with a parser that takes what Python's own takes and says which value does not fit.

JSON text stays as it was written: it is found without parsing what lies in it, however deep it is nested. That is for
strict JSON; what ``json.loads`` takes beyond it is read by ``values``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec

from singerlake.arrow.decode.rows import Files, Rows
from singerlake.arrow.schema.columns import Array, Column, Field, JsonText, Struct, Variant
from singerlake.arrow.schema.own import ENVELOPE, METADATA
from singerlake.arrow.values.known import KnownObject, undeclared, undeclared_in
from singerlake.arrow.values.typed import holds_raw
from singerlake.arrow.values.values import Lost, MisfitError, describe, fit, fit_record, kind, parse, slot, text_of
from singerlake.errors import BrokenFileError, ValueDoesNotFitError
from singerlake.interpreter.process import with_room

_SHOWN = 100
"""Characters of a value that an error shows."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where lines come from: the file's path in its stream's folder, the hash of its schema version, the offset of its
    first message, and what is attached to its records."""

    path: str
    version: str
    offset: int = 0
    files: Files = field(default_factory=dict)

    def line(self, offset: int) -> int:
        """The line of the file, counted from 1, that holds the message with that offset; before the first message
        stands the file's SCHEMA."""
        return offset - self.offset + 2


@dataclass(eq=False)
class SlowPath:
    """Reads what the typed decoder refused. ``envelope`` are the columns from beside the record that are asked for,
    ``known`` is what of a record is declared; ``every``: an ACTIVATE_VERSION message is a row, too."""

    record: Struct
    typed: msgspec.json.Decoder[Any] | None
    envelope: Sequence[str]
    known: KnownObject | None
    every: bool

    def __post_init__(self) -> None:
        nothing = {slot(index): None for index in range(len(self.record.fields))}
        self._blank = SimpleNamespace(**nothing) if self.every else None
        self._raw = holds_raw(self.record)

    def rows(self, data: bytes, offsets: Sequence[int], origin: Origin) -> Rows:
        """The rows of whole lines, whose messages have these ``offsets``; there may be more of them. Raises
        ``BrokenFileError`` for a line that is not a Singer message."""
        messages: list[Any] = []
        lost: dict[int, list[Lost]] = {}
        count = 0
        for position, line in enumerate(data.split(b"\n")[:-1]):
            try:
                if self._raw:
                    line.decode()
                message = self.typed.decode(line) if self.typed else self._message(line, position, lost)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                try:
                    message = with_room(partial(self._message, line, position, lost))
                except (ValueError, RecursionError) as error:
                    raise _no_message(error, offsets[count], origin) from None
            except ValueError as error:
                raise _no_message(error, offsets[count], origin) from None
            messages.append(message)
            count += message.record is not False
        return Rows.of(messages, offsets, lost, blank=self._blank)

    def again(self, line: bytes, field: Field) -> tuple[Any, list[Lost]]:
        """One column's value of a line that was read before, from the text that it was written as."""
        lost: list[Lost] = []
        if field.name in self.envelope:
            return getattr(self._beside(parse(line), lost), ENVELOPE[field.name]), lost
        try:
            fitted = fit_texts(text_at(line, ("record",)), Struct((field,)), lost)
        except NOT_STRICT:
            lost = []
            fitted = fit_record(parse(line)["record"], Struct((field,)), lost)
        return fitted.f0, lost

    def undeclared(self, line: bytes) -> Iterable[Lost]:
        if self.known is None:
            return []
        try:
            return undeclared(line, self.known)
        except NOT_STRICT:
            return undeclared_in(parse(line)["record"], self.known)

    def text_at(self, line: bytes, keys: tuple[str, ...]) -> str:
        """The JSON text of the value that property names lead to."""
        keys = (ENVELOPE[keys[0]],) if keys[0] in self.envelope else ("record", *keys)
        try:
            return text_at(line, keys).decode()
        except NOT_STRICT:
            value = parse(line)
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return text_of(value)

    def _message(self, line: bytes, position: int, lost: dict[int, list[Lost]]) -> SimpleNamespace:
        """A line as the typed decoder gives it. Raises ``ValueError`` where it is not a message."""
        try:
            if self._raw:
                line.decode()
            return self._as_written(line, position, lost)
        except NOT_STRICT:
            message = parse(line)
        kind = message.get("type") if isinstance(message, dict) else None
        misfits: list[Lost] = []
        read = self._without_record(kind, message, position, lost)
        if read is not None:
            return read
        record = message.get("record") if kind == "RECORD" else None
        if not isinstance(record, dict):
            raise ValueError("neither RECORD nor ACTIVATE_VERSION, or without a record")
        read = self._beside(message, misfits)
        read.record = fit_record(record, self.record, misfits)
        if misfits:
            lost[position] = misfits
        return read

    def _as_written(self, line: bytes, position: int, lost: dict[int, list[Lost]]) -> SimpleNamespace:
        """The same of strict JSON. Raises ``ValueError``, and one of ``NOT_STRICT``."""
        record, kind = text_at(line, ("record",)), parse(text_at(line, ("type",)))
        message = {key: parse(text_at(line, (key,))) for key in map(ENVELOPE.__getitem__, self.envelope)}
        read = self._without_record(kind, message, position, lost)
        if read is not None:
            return read
        if kind != "RECORD" or record[:1] != b"{":
            raise ValueError("neither RECORD nor ACTIVATE_VERSION, or without a record")
        misfits: list[Lost] = []
        read = self._beside(message, misfits)
        read.record = fit_texts(record, self.record, misfits)
        if misfits:
            lost[position] = misfits
        return read

    def _without_record(
        self, kind: Any, message: dict[str, Any], position: int, lost: dict[int, list[Lost]]
    ) -> SimpleNamespace | None:
        """A SCHEMA or an ACTIVATE_VERSION message; None for any other."""
        if kind == "SCHEMA":
            return SimpleNamespace(record=False)
        if kind != "ACTIVATE_VERSION":
            return None
        misfits: list[Lost] = []
        read = self._beside(message, misfits)
        read.record = None
        if misfits and self._blank is not None:
            lost[position] = misfits
        return read

    def _beside(self, message: dict[str, Any], lost: list[Lost]) -> SimpleNamespace:
        read = SimpleNamespace()
        for name in self.envelope:
            field = METADATA.get(name)
            assert field is not None
            value = message.get(ENVELOPE[name])
            try:
                fitted = fit(value, field.type, name)
            except MisfitError as misfit:
                lost.append(Lost((name,), text_of(value), misfit))
                fitted = None
            setattr(read, ENVELOPE[name], fitted)
        return read


_OTHERWISE = "read with mode PERMISSIVE, or give .schema(...) with another type for this column, or without it"


_NO_COLUMN = (
    "read with mode PERMISSIVE, which keeps what no schema declares in _rescued_data, or with DROPMALFORMED, which "
    "counts it; a query on a stream has the columns of newer schemas when it is started again"
)


def value_error(lost: Lost, offset: int, origin: Origin, hint: str = _OTHERWISE) -> ValueDoesNotFitError:
    """The error that names a value."""
    text = lost.text if len(lost.text) <= _SHOWN else lost.text[:_SHOWN] + "..."
    if lost.misfit is None:
        what = f"property {path_of(lost.keys)!r} has no column, and a record holds it: {text}"
        hint = _NO_COLUMN
    else:
        what = f"column {lost.misfit.path!r} is {lost.misfit.expected}, and a record holds {lost.misfit.found}: {text}"
    return ValueDoesNotFitError(what, hint=hint, file=origin.path, line=origin.line(offset), offset=offset)


def path_of(keys: Iterable[str | int]) -> str:
    """How errors name what keys lead to: ``address.zip``, ``items[].more``."""
    return "".join("[]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


def _no_message(error: Exception, offset: int, origin: Origin) -> BrokenFileError:
    return BrokenFileError(
        f"holds a line that is not a Singer message ({type(error).__name__})",
        hint="run 'singerlake verify'",
        file=origin.path,
        offset=offset,
    )


NOT_STRICT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What is raised for a line that is not strict JSON, or is nested deeper than the interpreter goes."""
_PARSER = json.JSONDecoder()
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_NOTHING = b"null"


def text_at(line: bytes, keys: tuple[str, ...]) -> bytes:
    """The JSON text that names of properties lead to in a line, or ``null``. Raises one of ``NOT_STRICT``."""
    text = line.strip(b" \t\r\n")  # JSON's white space; Python's own has more
    for key in keys:
        text = bytes(_OBJECT.decode(text).get(key, _NOTHING)) if text[:1] == b"{" else _NOTHING
    return text


def captured(line: bytes) -> str:
    """The record of a RECORD message as it was written; anew, with the same values, where that is not UTF-8."""
    try:
        return text_at(line, ("record",)).decode()
    except NOT_STRICT:
        pass
    text = line.decode("utf-8", "surrogatepass")
    record = _member(text, "record")
    try:
        record.encode()
    except UnicodeEncodeError:
        return text_of(parse(line)["record"])
    return record


def _member(text: str, name: str) -> str:
    """The text of an object's last member of that name, by a parser that takes what ``json.loads`` takes."""
    written, at = "", text.index("{")
    while text[at] != "}":
        key, at = _PARSER.raw_decode(text, _behind_space(text, at + 1))
        begin = _behind_space(text, _behind_space(text, at) + 1)
        _, end = _PARSER.raw_decode(text, begin)
        if key == name:
            written = text[begin:end]
        at = _behind_space(text, end)
    return written


def _behind_space(text: str, at: int) -> int:
    while text[at] in " \t\n\r":
        at += 1
    return at


def fit_text(text: bytes, column: Column, path: str, lost: list[Lost] | None, keys: tuple[str, ...]) -> Any:
    """As ``values.fit``, of a value's JSON text. Raises ``Misfit``, and one of ``NOT_STRICT`` for what is not strict
    JSON."""
    if text == _NOTHING:
        return None
    if isinstance(column, JsonText | Variant):
        return text.decode()
    if isinstance(column, Struct) and text[:1] == b"{":
        return _fit_object(text, column, path, lost, keys)
    if isinstance(column, Array) and text[:1] == b"[":
        return [fit_text(bytes(item), column.element, path + "[]", None, ()) for item in _ARRAY.decode(text)]
    if text[:1] in (b"{", b"["):
        raise MisfitError(path, describe(column), kind({} if text[:1] == b"{" else []))
    return fit(parse(text), column, path)


def fit_texts(record: bytes, columns: Struct, lost: list[Lost]) -> SimpleNamespace:
    """As ``values.fit_record``, of a record's JSON text. Raises one of ``NOT_STRICT``."""
    return _fit_object(record, columns, "", lost, ())


def _fit_object(
    text: bytes, columns: Struct, path: str, lost: list[Lost] | None, keys: tuple[str, ...]
) -> SimpleNamespace:
    properties = _OBJECT.decode(text)
    prefix = path + "." if path else ""
    fitted = SimpleNamespace()
    for index, each in enumerate(columns.fields):
        written = bytes(properties.get(each.name, _NOTHING))
        here = (*keys, each.name)
        try:
            value = fit_text(written, each.type, prefix + each.name, lost, here)
        except MisfitError as misfit:
            if lost is None:
                raise
            lost.append(Lost(here, written.decode(), misfit))
            value = None
        setattr(fitted, slot(index), value)
    return fitted
