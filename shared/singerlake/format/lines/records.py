"""The records of RECORD lines, cut out as they stand: compiled, where there was a compiler to do it, else by msgspec.

The compiled cutter leaves a line that is not strict JSON or not plain, and Python cuts that: NaN, lone surrogates,
names with escapes, deep nesting, a member that comes twice. Of that the last one counts, as for Python's own parser.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec

from singerlake.format.decoders import prepare_decoders
from singerlake.format.lines.messages import REFUSALS
from singerlake.format.lines.spans import members
from singerlake.interpreter.process import with_room

try:
    from singerlake.format.lines import _records as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Cut:
    """``count`` records of lines in a row with one stream and version, a newline behind each; ``end`` is where the next
    line begins. ``version`` and ``time_extracted``, the last of these, are None where there is none."""

    records: bytes | bytearray
    count: int
    end: int
    stream: Any = None
    version: Any = None
    time_extracted: Any = None


class _Message(msgspec.Struct, gc=False):
    type: Any = None
    stream: Any = None
    record: msgspec.Raw = msgspec.Raw()
    version: Any = None
    time_extracted: Any = None


_decode = msgspec.json.Decoder(_Message).decode
_LINE = 1 << 12
"""Bytes among which the end of a line is looked for first."""


def cut(lines: bytes | memoryview, start: int = 0) -> Cut:
    """The records of the RECORD lines from ``start`` on, as far as they have the first one's stream and version; none
    where the line at ``start`` is not a RECORD with an object. ``lines`` are whole lines, each a JSON object."""
    if compiled is not None:
        records, count, end, stream, version, time = compiled.cut(lines, start)
        if count:
            return Cut(
                records, count, end, *(None if text is None else json.loads(text) for text in (stream, version, time))
            )
    return _cut_in_python(lines, start)


def _cut_in_python(lines: bytes | memoryview, start: int) -> Cut:
    """The same. Where there is a compiled cutter, only the line that it left."""
    found: list[bytes] = []
    head = time = None
    end = start
    while end < len(lines):
        line = line_at(lines, end)
        message = _message(line)
        record = bytes(message.record)
        if message.type != "RECORD" or not record.startswith(b"{"):
            break
        if head is not None and _of(message) != _of(head):
            break
        head = head or message
        time = message.time_extracted if message.time_extracted is not None else time
        found.append(record)
        end += len(line)
        if compiled is not None:
            break
    if head is None:
        return Cut(b"", 0, start)
    return Cut(b"".join(record + b"\n" for record in found), len(found), end, head.stream, head.version, time)


def line_at(lines: bytes | memoryview, start: int) -> bytes:
    """The line that begins at ``start``, with its newline."""
    size = _LINE
    while not (end := (piece := bytes(lines[start : start + size])).find(b"\n") + 1):
        size *= 16
    return piece[:end]


def _of(message: _Message) -> tuple[Any, str]:
    # As JSON spells it: 1 and true are equal in Python.
    return message.stream, json.dumps(message.version)


def _message(line: bytes) -> _Message:
    try:
        return _decode(line)
    except REFUSALS:
        return with_room(lambda: _members(line))


def _members(line: bytes) -> _Message:
    """A message whose members are read by the standard library, which takes all that a lake holds."""
    text = line.decode()
    message = _Message()
    for member in members(text):
        if member.name == "record":
            message.record = msgspec.Raw(text[member.begin : member.end].encode())
        elif member.name in ("type", "stream", "version", "time_extracted"):
            setattr(message, member.name, member.value)
    return message


prepare_decoders(_Message)
