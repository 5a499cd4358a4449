"""Where to cut a block of messages, found without taking messages apart wherever that can be avoided."""

from __future__ import annotations

from singerlake.format.lines.messages import is_record_line


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
        records += is_record_line(data[start:end])
        if records == limit:
            return count + 1, records
        start = end
    return messages, records
