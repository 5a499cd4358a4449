"""The envelope of a Singer message: what stands beside the record, read without taking the record apart."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

import msgspec

from singerlake.format.decoders import prepare_decoders
from singerlake.format.newlines import look
from singerlake.interpreter.process import with_room

REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a line. Python-made taps write some that ``json`` takes: NaN, lone surrogates."""


class Envelope(msgspec.Struct, gc=False):
    """Whatever JSON value a message has in each place; None where it has none."""

    type: Any = None
    stream: Any = None
    time_extracted: Any = None


class _Version(msgspec.Struct, gc=False):
    version: Any = None


_DECODER = msgspec.json.Decoder(Envelope)
_VERSION = msgspec.json.Decoder(_Version)
_BORDERS = re.compile(rb"\}\n\{")


def envelope(line: bytes) -> Envelope | None:
    """The envelope of one line; None where the line is not a JSON object, whichever of the two readers is asked."""
    try:
        return _DECODER.decode(line)
    except (*REFUSALS, ValueError):
        # ValueError: a number of more digits than the interpreter converts.
        pass
    try:
        message = loads(line, parse_int=integer)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    return Envelope(message.get("type"), message.get("stream"), message.get("time_extracted"))


def loads(line: bytes, *, parse_int: Callable[[str], Any] = int) -> Any:
    """A line as the standard library takes it, with all that a writer keeps: NaN, lone surrogates, deep nesting. Raises
    ``ValueError``, also for what is not UTF-8 or begins with a byte order mark, and ``RecursionError``."""
    text = line.decode()
    return with_room(lambda: json.loads(text, parse_int=parse_int))


def integer(text: str) -> int | float:
    """Infinity where it has more digits than the interpreter converts: a writer keeps such a line too."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def table_version(line: bytes) -> int | None:
    """The ``version`` of a message as tables take it: an integer of 64 bits, ``7.0`` too; None: it has none."""
    try:
        version = _VERSION.decode(line).version
    except (*REFUSALS, ValueError):
        try:
            version = loads(line, parse_int=integer).get("version")
        except (ValueError, RecursionError, AttributeError):
            return None
    if isinstance(version, bool) or not isinstance(version, int | float) or not -(2**63) <= version < 2**63:
        return None
    return int(version) if version == int(version) else None


def envelopes(block: bytes) -> list[Envelope] | None:
    """The envelopes of a block of whole lines, at full speed; None where it has to be looked at line by line."""
    try:
        heads = _DECODER.decode_lines(block)
    except (*REFUSALS, ValueError):
        return None
    return heads if one_a_line(len(heads), block) else None


def records(block: bytes, stream: str, *, times: bool) -> Sequence[Any] | None:
    """One object for each line of a block of whole lines, with its ``time_extracted`` where ``times`` are wanted; None
    unless all of them are RECORD messages of ``stream`` whose times are such. Twice as fast as ``envelopes``."""
    decoder = _records_decoder(stream, times)
    if decoder is None:
        return None
    try:
        heads = decoder.decode_lines(block)
    except REFUSALS:
        return None
    return heads if one_a_line(len(heads), block) else None


@lru_cache(maxsize=64)
def _records_decoder(stream: str, times: bool) -> msgspec.json.Decoder[Any] | None:
    """None for a name that has no UTF-8. Threads that come first together each make a type of their own, which msgspec
    has learned whole before another thread can see it (see ``prepare_decoders``)."""
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("type", Literal["RECORD"]),
        ("stream", Literal[stream]),
    ]
    if times:
        fields.append(("time_extracted", datetime | None, None))
    try:
        return msgspec.json.Decoder(msgspec.defstruct("RecordLine", fields, gc=False))
    except UnicodeEncodeError:
        return None


def one_a_line(values: int, block: bytes) -> bool:
    """Whether the ``values`` objects that msgspec read from a block of whole lines stand one on each line, without
    white space around them. msgspec also takes several on one line, one on several lines, and an empty line.

    No JSON value holds ``}``, a newline and ``{`` in turn: a newline between two such braces stands between two values.
    """
    if values != look(block)[0] or not (block.startswith(b"{") and block.endswith(b"}\n")):
        return False
    # Finding them takes a fourth of the time that bytes.count does.
    return values == len(_BORDERS.findall(block)) + 1


def is_schema_line(line: bytes) -> bool:
    """Whether a line is a SCHEMA message, and not a record that merely holds the word."""
    if b'"SCHEMA"' not in line:
        return False
    head = envelope(line)
    return head is not None and head.type == "SCHEMA"


def messages_in(lines: bytes) -> int:
    """How many of whole lines are not SCHEMA messages."""
    count, has_word = look(lines)
    return count - sum(map(is_schema_line, lines.split(b"\n"))) if has_word else count


def is_record_line(line: bytes) -> bool:
    head = envelope(line)
    return head is not None and head.type == "RECORD"


prepare_decoders(Envelope, _Version)
