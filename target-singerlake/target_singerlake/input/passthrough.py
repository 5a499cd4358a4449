"""From lines to messages, without taking records apart.

A line is decoded just far enough to know that it is one whole JSON text, what it is, and that a record has its key
properties; its bytes then pass on as they came. msgspec does that in C for a run of lines of one stream; what it
refuses gets a second hearing from ``json``, which takes what Python-made taps write (NaN, lone surrogates).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from operator import attrgetter
from typing import Any, Literal

import msgspec

from singerlake.format.decoders import prepare_decoders
from target_singerlake.errors import MissingKeyPropertyError, RecordBeforeSchemaError, unreadable
from target_singerlake.input.early_activations import EarlyActivations
from target_singerlake.input.messages import Kind, Message, Records

_KINDS = ("RECORD", "SCHEMA", "STATE", "ACTIVATE_VERSION", "BATCH")
_SHORT_RUN = 8
"""Lines of one stream in a row below which streams count as interleaved, and lines are looked at one by one."""
_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _MessageHead(msgspec.Struct, gc=False):
    type: Kind
    stream: str = ""


_decode_head = msgspec.json.Decoder(_MessageHead).decode
_time_extracted = attrgetter("time_extracted")


class RecordCheck:
    """Whether lines are RECORDs of one stream, with all its key properties. ``decode_line`` gives their
    ``time_extracted`` by the way: as moments, which msgspec makes as fast as it looks past a text, until a line has one
    that it does not take for a moment; then as they come."""

    def __init__(self, stream: str, key_properties: Sequence[str]) -> None:
        self.stream = stream
        self.key_properties = tuple(dict.fromkeys(key_properties))
        self.decode_line: Callable[[bytes], Any] = _refuse
        self._decode_any_time: Callable[[bytes], Any] = _refuse
        record = _struct_of(self.key_properties)
        if record is not None:
            fields = [("type", Literal["RECORD"]), ("stream", Literal[stream]), ("record", record)]
            try:
                for_moments, for_any = (
                    msgspec.defstruct("Line", [*fields, ("time_extracted", kind, None)], gc=False)
                    for kind in (datetime | None, Any)
                )
                self.decode_line = msgspec.json.Decoder(for_moments).decode
                self._decode_any_time = msgspec.json.Decoder(for_any).decode
            except (TypeError, ValueError, UnicodeError):
                # A stream's name that msgspec cannot hold, such as one with a lone surrogate: json looks at its lines.
                self.decode_line = self._decode_any_time = _refuse

    def decode_odd_time(self, line: bytes) -> Any:
        """A line that ``decode_line`` refused, if only for its ``time_extracted``: a tap that writes one such time
        writes them all so. Raises as ``decode_line``."""
        decoded = self._decode_any_time(line)
        self.decode_line = self._decode_any_time
        return decoded

    def require_keys(self, record: dict[str, Any], number: int, *, stream: str | None = None) -> None:
        """Raises ``MissingKeyPropertyError``."""
        missing = [name for name in self.key_properties if name not in record]
        if missing:
            raise MissingKeyPropertyError(
                "a record has no value for a key property",
                hint="correct the stream's key_properties, or the tap",
                line=number,
                stream=stream or self.stream,
                missing=missing,
            )


def _struct_of(names: Sequence[str]) -> type[msgspec.Struct] | None:
    fields = [(f"key{index}", msgspec.Raw) for index in range(len(names))]
    rename = {f"key{index}": name for index, name in enumerate(names)}
    try:
        return msgspec.defstruct("Record", fields, gc=False, rename=rename)
    except (TypeError, ValueError, UnicodeError):
        return None


def _refuse(_: bytes) -> Any:
    raise msgspec.DecodeError


class PassthroughDecoder:
    """Cuts blocks of whole lines into messages. ``checks`` (stream -> check) is the caller's, who adds to it as SCHEMA
    messages come by: each message is acted on before the next one is looked at. ``next_number`` is the number of the
    line after the last block. ``early`` takes the ACTIVATE_VERSION messages of streams that have no check yet."""

    def __init__(self, checks: dict[str, RecordCheck], early: EarlyActivations) -> None:
        self.checks = checks
        self.early = early
        self.next_number = 1
        self._current = ""

    def messages(self, block: bytes, number: int) -> Iterator[Records | Message]:
        """The messages of ``block``, whose first line has the number ``number``; empty lines are left out.

        Raises ``UnreadableLineError``, ``RecordBeforeSchemaError``, ``MissingKeyPropertyError``; what was given before
        is good.
        """
        suspicious = not _is_utf8(block)
        view = io.BytesIO(block)
        size = len(block)
        while (start := view.tell()) < size:
            check = None if suspicious else self.checks.get(self._current)
            if check is not None:
                data, times = _run(check, view, block, start)
                if times:
                    yield Records(check.stream, data, len(times), number, times)
                    number += len(times)
                view.seek(start + len(data))
            number = yield from self._one_by_one(view, number, suspicious)
        self.next_number = number

    def _one_by_one(self, view: io.BytesIO, number: int, suspicious: bool) -> Generator[Records | Message, None, int]:
        """Lines until a run of one stream's RECORDs seems to begin; gives the next line's number back."""
        streak = 0
        for line in view:
            if suspicious:
                _require_utf8(line, number)
            try:
                head = _decode_head(line)
                stream = head.stream
                if head.type == "RECORD":
                    time = self.checks[stream].decode_line(line).time_extracted
                    message: Records | Message | None = Records(stream, line, 1, number, [time])
                else:
                    message = self._unless_early(_message(head.type, stream, line, number))
            except (*_REFUSALS, KeyError):
                message = self._second_hearing(line, number)
            if message is None:
                number += 1
                continue
            yield message
            number += 1
            if message.stream == self._current and type(message) is Records:
                streak += 1
                if streak >= _SHORT_RUN and not suspicious:
                    break
            elif type(message) is Records:
                self._current, streak = message.stream, 0
            elif type(message) is Message and message.kind == "SCHEMA":
                yield from self.early.release(message.stream, _activation(message.stream))
        return number

    def _unless_early(self, message: Message) -> Message | None:
        if message.kind != "ACTIVATE_VERSION" or message.stream in self.checks:
            return message
        self.early.hold(message)
        return None

    def _second_hearing(self, line: bytes, number: int) -> Records | Message | None:
        """A line as ``json`` sees it; None where there is nothing on it, or nothing to be done yet."""
        if not line.strip():
            return None
        content = parse(line, number, exact=False)
        kind, stream = envelope(content, line, number)
        if kind != "RECORD":
            return self._unless_early(_message(kind, stream, line, number))
        check = self.require(stream, number)
        check.require_keys(content["record"], number)
        with suppress(*_REFUSALS):
            check.decode_odd_time(line)
        return Records(stream, line, 1, number, [content.get("time_extracted")])

    def require(self, stream: str, number: int) -> RecordCheck:
        """The check of a stream whose SCHEMA has come. Raises ``RecordBeforeSchemaError``."""
        check = self.checks.get(stream)
        if check is None:
            raise RecordBeforeSchemaError(
                "a record came before its stream's SCHEMA",
                hint="the tap must send SCHEMA first; a stream map may have renamed the stream",
                line=number,
                stream=stream,
            )
        return check


def _run(check: RecordCheck, view: io.BytesIO, block: bytes, start: int) -> tuple[bytes, list[Any]]:
    """The lines from ``start`` on that are RECORDs of the check's stream, and the time of each."""
    times: list[Any] = []
    try:
        times.extend(map(_time_extracted, map(check.decode_line, view)))
    except _REFUSALS:
        after = view.tell()
        end = block.rfind(b"\n", 0, after - 1) + 1
        return block[start:end], times
    data = block[start:] if start else block
    return data, times


def _activation(stream: str) -> Callable[[bytes, int], tuple[Message]]:
    return lambda line, number: (Message("ACTIVATE_VERSION", stream, line, number),)


def _message(kind: Kind, stream: str, line: bytes, number: int) -> Message:
    if not stream and kind != "STATE":
        raise unreadable(f"a {kind} message names no stream", line, number)
    return Message(kind, stream, line, number)


def envelope(content: Any, line: bytes, number: int) -> tuple[Kind, str]:
    """Type and stream of a parsed message. Raises ``UnreadableLineError`` for what no Singer message may be."""
    if not isinstance(content, dict):
        raise unreadable("a line is JSON but not an object", line, number)
    kind = content.get("type")
    if kind is None:
        raise unreadable("a message has no type", line, number)
    if kind not in _KINDS:
        raise unreadable(f"a message has the unknown type {str(kind)[:40]!r}", line, number)
    stream = content.get("stream", "")
    if kind != "STATE" and (not isinstance(stream, str) or not stream):
        raise unreadable(f"a {kind} message names no stream", line, number)
    if kind == "RECORD" and not isinstance(content.get("record"), dict):
        raise unreadable("a RECORD message has no object as its record", line, number)
    return kind, stream


def _some_number(_: str) -> int:
    """Replaces a number that is not used: converting one of many thousand digits is slow, and may be refused."""
    return 0


_loose = json.JSONDecoder(parse_float=_some_number, parse_int=_some_number)


def parse(line: bytes, number: int, *, exact: bool = True) -> Any:
    """A line as JSON. ``exact`` keeps every digit of every number; otherwise numbers are only looked past.

    Raises ``UnreadableLineError``.
    """
    try:
        text = line.decode("utf-8")
        if exact:
            from singer_sdk.singerlib.json import deserialize_json

            return deserialize_json(text)
        return _loose.decode(text)
    except UnicodeDecodeError as error:
        raise unreadable("a line is not UTF-8", line, number) from error
    except RecursionError as error:
        raise unreadable("a line is nested too deeply", line, number) from error
    except ValueError as error:
        problem = error.msg if isinstance(error, json.JSONDecodeError) else "a number that is too long"
        raise unreadable(f"a line is not JSON ({problem.lower()})", line, number) from None


def _is_utf8(block: bytes) -> bool:
    if block.isascii():
        return True
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _require_utf8(line: bytes, number: int) -> None:
    if not _is_utf8(line):
        raise unreadable("a line is not UTF-8", line, number)


prepare_decoders(_MessageHead)
