"""Where to cut a block of messages, found without taking messages apart wherever that can be avoided."""

from __future__ import annotations

import json

import msgspec


class _Kind(msgspec.Struct):
    type: str


_KIND = msgspec.json.Decoder(_Kind)


def end_of(data: bytes, lines: int, start: int = 0) -> int:
    """The position behind the ``lines``-th newline from ``start`` on. Raises ``ValueError`` where there are fewer."""
    for _ in range(lines):
        start = data.index(b"\n", start) + 1
    return start


def take(data: bytes, start: int, messages: int, limit: int | None) -> tuple[int, int]:
    """How many of the ``messages`` lines from ``start`` on hold no more than ``limit`` records, and how many records
    those are: ``(messages, records)``. Stops right behind the last record that the limit allows."""
    records = 0
    for count in range(messages):
        end = data.index(b"\n", start) + 1
        records += is_record(data[start:end])
        if records == limit:
            return count + 1, records
        start = end
    return messages, records


def is_record(line: bytes) -> bool:
    """Whether a message is a RECORD; also for JSON that Python reads and msgspec refuses."""
    try:
        return _KIND.decode(line).type == "RECORD"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return bool(json.loads(line)["type"] == "RECORD")
