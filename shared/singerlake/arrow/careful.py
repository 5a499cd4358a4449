"""The slow way: line by line, with a parser that takes what Python's own takes and says which value does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import msgspec

from singerlake.arrow.as_written import NOT_STRICT, fit_texts, text_at
from singerlake.arrow.columns import Field, Struct, Timestamp
from singerlake.arrow.rows import Rows
from singerlake.arrow.typed import holds_raw
from singerlake.arrow.values import Lost, Misfit, fit, fit_record, parse, text_of
from singerlake.errors import BrokenFile, ValueDoesNotFit

_SHOWN = 100
"""Characters of a value that an error shows."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where lines come from: the file's path in its stream's folder, the hash of its schema version, and the offset of
    its first message."""

    path: str
    version: str
    offset: int = 0

    def line(self, offset: int) -> int:
        """The line of the file, counted from 1, that holds the message with that offset; before the first message
        stands the file's SCHEMA."""
        return offset - self.offset + 2


class Careful:
    """Reads what the typed decoder refused. ``time`` is the column of the envelope's time, where it is asked for."""

    def __init__(self, record: Struct, typed: msgspec.json.Decoder[Any] | None, *, time: str | None) -> None:
        self._record = record
        self._typed = typed
        self._time = time
        self._raw = holds_raw(record)

    def rows(self, data: bytes, offset: int, origin: Origin) -> Rows:
        """The rows of whole lines. Raises ``BrokenFile`` for a line that is no Singer message."""
        messages: list[Any] = []
        lost: dict[int, list[Lost]] = {}
        next_offset = offset
        for place, line in enumerate(data.split(b"\n")[:-1]):
            try:
                if self._raw:
                    line.decode()
                message = self._typed.decode(line) if self._typed else self._message(line, place, lost)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                try:
                    message = self._message(line, place, lost)
                except (ValueError, RecursionError) as error:
                    raise _no_message(error, next_offset, origin) from None
            except ValueError as error:
                raise _no_message(error, next_offset, origin) from None
            messages.append(message)
            next_offset += message.record is not False
        return Rows.of(messages, offset, lost)

    def again(self, line: bytes, field: Field) -> tuple[Any, list[Lost]]:
        """One column's value of a line that was read before, from the text that it was written as."""
        lost: list[Lost] = []
        if field.name == self._time and self._record.get(field.name) is None:
            return self._moment(parse(line), lost), lost
        try:
            fitted = fit_texts(text_at(line, ("record",)), Struct((field,)), lost)
        except NOT_STRICT:
            lost = []
            fitted = fit_record(parse(line)["record"], Struct((field,)), lost)
        return fitted.f0, lost

    def text_at(self, line: bytes, keys: tuple[str, ...]) -> str:
        """The JSON text of the value that property names lead to."""
        of_message = keys[0] == self._time and self._record.get(keys[0]) is None
        keys = ("time_extracted",) if of_message else ("record", *keys)
        try:
            return text_at(line, keys).decode()
        except NOT_STRICT:
            value = parse(line)
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return text_of(value)

    def _message(self, line: bytes, place: int, lost: dict[int, list[Lost]]) -> SimpleNamespace:
        """A line as the typed decoder gives it. Raises ``ValueError`` where it is no message."""
        try:
            if self._raw:
                line.decode()
            return self._as_written(line, place, lost)
        except NOT_STRICT:
            message = parse(line)
        kind = message.get("type") if isinstance(message, dict) else None
        if kind == "SCHEMA":
            return SimpleNamespace(record=False)
        if kind == "ACTIVATE_VERSION":
            return SimpleNamespace(record=None)
        record = message.get("record") if kind == "RECORD" else None
        if not isinstance(record, dict):
            raise ValueError("neither RECORD nor ACTIVATE_VERSION, or without a record")
        found: list[Lost] = []
        moment = self._moment(message, found) if self._time else None
        fitted = fit_record(record, self._record, found)
        if found:
            lost[place] = found
        return SimpleNamespace(record=fitted, time_extracted=moment)

    def _as_written(self, line: bytes, place: int, lost: dict[int, list[Lost]]) -> SimpleNamespace:
        """The same of strict JSON. Raises ``ValueError``, and one of ``NOT_STRICT``."""
        record, kind = text_at(line, ("record",)), parse(text_at(line, ("type",)))
        if kind in ("SCHEMA", "ACTIVATE_VERSION"):
            return SimpleNamespace(record=False if kind == "SCHEMA" else None)
        if kind != "RECORD" or record[:1] != b"{":
            raise ValueError("neither RECORD nor ACTIVATE_VERSION, or without a record")
        found: list[Lost] = []
        moment = None
        if self._time:
            moment = self._moment({"time_extracted": parse(text_at(line, ("time_extracted",)))}, found)
        fitted = fit_texts(record, self._record, found)
        if found:
            lost[place] = found
        return SimpleNamespace(record=fitted, time_extracted=moment)

    def _moment(self, message: dict[str, Any], lost: list[Lost]) -> Any:
        assert self._time is not None
        value = message.get("time_extracted")
        try:
            return fit(value, Timestamp(), self._time)
        except Misfit as misfit:
            lost.append(Lost((self._time,), text_of(value), misfit))
            return None


_OTHERWISE = "read with mode PERMISSIVE, or give .schema(...) with another type for this column, or without it"


def value_error(lost: Lost, offset: int, origin: Origin, hint: str = _OTHERWISE) -> ValueDoesNotFit:
    """The error that names a value."""
    text = lost.text if len(lost.text) <= _SHOWN else lost.text[:_SHOWN] + "..."
    return ValueDoesNotFit(
        f"column {lost.misfit.path!r} is {lost.misfit.expected}, and a record holds {lost.misfit.found}: {text}",
        hint=hint,
        file=origin.path,
        line=origin.line(offset),
        offset=offset,
    )


def _no_message(error: Exception, offset: int, origin: Origin) -> BrokenFile:
    return BrokenFile(
        f"holds a line that is no Singer message ({type(error).__name__})",
        hint="run 'singerlake verify'",
        file=origin.path,
        offset=offset,
    )
