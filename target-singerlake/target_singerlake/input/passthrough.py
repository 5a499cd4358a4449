"""From lines to messages, without taking records apart.

A line is read just far enough to know that it is one whole JSON text, what it is, and that a record has its key
properties; its bytes then pass on as they came. The compiled scanner does that for all records up to the next other
message, of whatever streams. Without it, msgspec does, for a run of lines of one stream. What either leaves is decoded
by itself, and what msgspec refuses gets a second hearing from ``json``, which takes what Python-made taps write (NaN,
lone surrogates).
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
from singerlake.format.lines.scanner import Scanner, available
from target_singerlake.errors import MissingKeyPropertyError, RecordBeforeSchemaError, unreadable
from target_singerlake.input.messages import Block, EarlyActivations, Kind, Message, Records

BLOCK_BYTES = 2 << 20
"""Bytes of a block: what a processor's cache holds."""
_TURNS_BYTES = 8 << 20
"""The same where many streams take turns: of each a block then has enough to make handling it cheap."""
_MANY_PIECES = 64
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
        self.decode_line: Callable[[bytes], Any] = self._decode_first
        self._decode_any_time: Callable[[bytes], Any] | None = None

    def decode_odd_time(self, line: bytes) -> Any:
        """A line that ``decode_line`` refused, if only for its ``time_extracted``: a tap that writes one such time
        writes them all so. Raises as ``decode_line``."""
        if self._decode_any_time is None:
            self._decode_any_time = self._decoder(Any)
        decoded = self._decode_any_time(line)
        self.decode_line = self._decode_any_time
        return decoded

    def _decode_first(self, line: bytes) -> Any:
        """Made when a line needs it, of most streams never: making it takes as long as scanning a hundred kilobytes."""
        self.decode_line = self._decoder(datetime | None)
        return self.decode_line(line)

    def _decoder(self, time: Any) -> Callable[[bytes], Any]:
        record = _struct_of(self.key_properties)
        if record is None:
            return _refuse
        fields = [("type", Literal["RECORD"]), ("stream", Literal[self.stream]), ("record", record)]
        try:
            struct = msgspec.defstruct("Line", [*fields, ("time_extracted", time, None)], gc=False)
            return msgspec.json.Decoder(struct).decode
        except (TypeError, ValueError, UnicodeError):
            # A stream's name that msgspec cannot hold, such as one with a lone surrogate: json looks at its lines.
            return _refuse

    def require_keys(self, record: dict[str, Any], number: int) -> None:
        missing = [name for name in self.key_properties if name not in record]
        if missing:
            raise MissingKeyPropertyError(
                "a record has no value for a key property",
                hint="correct the stream's key_properties, or the tap",
                line=number,
                stream=self.stream,
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
    line after the last block, ``block_bytes`` what the next block should have. ``early`` takes the ACTIVATE_VERSION
    messages of streams that have no check yet.

    Where ``in_order``, records are given line by line in the order of the input; else those of each stream are, between
    two messages of another kind."""

    def __init__(self, checks: dict[str, RecordCheck], early: EarlyActivations, *, in_order: bool = False) -> None:
        self.checks = checks
        self.early = early
        self.next_number = 1
        self.block_bytes = BLOCK_BYTES
        self._current = ""
        self._scanner = Scanner() if available() and not in_order else None
        self._known: dict[str, RecordCheck] = {}
        for stream in checks:
            self._know(stream)

    def messages(self, block: Block, number: int) -> Iterator[Records | Message]:
        """The messages of ``block``, whose first line has the number ``number``; empty lines are left out. They hold
        copies of a block that may change. Raises ``UnreadableLineError``, ``RecordBeforeSchemaError``,
        ``MissingKeyPropertyError``; what was given before is good."""
        if self._scanner is None:
            return self._decoded(bytes(block), number)
        return self._scanned(self._scanner, block, number)

    def _scanned(self, scanner: Scanner, block: Block, number: int) -> Iterator[Records | Message]:
        start, size, pieces = 0, len(block), 0
        while start < size:
            start, lines, runs = scanner.scan(block, start)
            pieces += len(runs)
            for stream, data, count, first, times in runs:
                yield Records(stream, data, count, number + first, times)
            number += lines
            if start < size:
                end = block.index(b"\n", start) + 1
                line = bytes(block[start:end])
                _require_utf8(line, number)
                message = self._message_on(line, number)
                if message is not None:
                    yield message
                    yield from self._after(message)
                start = end
                number += 1
        self.next_number = number
        self.block_bytes = _TURNS_BYTES if pieces >= _MANY_PIECES else BLOCK_BYTES

    def _decoded(self, block: bytes, number: int) -> Iterator[Records | Message]:
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
            message = self._message_on(line, number)
            number += 1
            if message is None:
                continue
            yield message
            if type(message) is Message:
                yield from self._after(message)
            elif message.stream != self._current:
                self._current, streak = message.stream, 0
            else:
                streak += 1
                if streak >= _SHORT_RUN and not suspicious:
                    break
        return number

    def _message_on(self, line: bytes, number: int) -> Records | Message | None:
        """None where there is nothing on a line, or nothing to be done yet."""
        try:
            head = _decode_head(line)
            stream = head.stream
            if head.type == "RECORD":
                return Records(stream, line, 1, number, [self.checks[stream].decode_line(line).time_extracted])
            return self._unless_early(_message(head.type, stream, line, number))
        except (*_REFUSALS, KeyError):
            return self._second_hearing(line, number)

    def _after(self, message: Records | Message) -> Iterator[Records | Message]:
        """What follows a message that was acted on: behind a SCHEMA what waited for it."""
        if type(message) is Message and message.kind == "SCHEMA":
            self._know(message.stream)
            yield from self.early.release(message.stream, _activation(message.stream))

    def _know(self, stream: str) -> None:
        check = self.checks.get(stream)
        if check is not None and self._scanner is not None and self._known.get(stream) is not check:
            self._scanner.know(stream, check.key_properties)
            self._known[stream] = check

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
    """A line as JSON. ``exact`` keeps every digit of every number; otherwise numbers are only looked past. Raises
    ``UnreadableLineError``."""
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
