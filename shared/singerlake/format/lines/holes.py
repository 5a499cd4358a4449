"""The lines that stand where erased records were: section 4 of ``shared/docs/format``.

A hole is told by its bytes. No message ends on them: the brace that they begin with would have to be closed twice.
"""

from __future__ import annotations

from collections.abc import Iterator

from singerlake.format.newlines import look

HOLE = b'{"type":"ERASED"}\n'


def around_holes(lines: bytes) -> Iterator[tuple[bytes, int]]:
    """Whole lines in parts: lines without holes and 0, or nothing and how many holes stand there in a row."""
    at = 0
    while (begin := _next_hole(lines, at)) >= 0:
        if begin > at:
            yield lines[at:begin], 0
        at = begin
        while lines.startswith(HOLE, at):
            at += len(HOLE)
        yield b"", (at - begin) // len(HOLE)
    if at < len(lines):
        yield lines[at:], 0


def numbered(messages: bytes, offset: int) -> tuple[bytes, list[int], int]:
    """Messages, one a line, without holes; the offset of each from ``offset`` on, and the one behind the last line."""
    parts: list[bytes] = []
    offsets: list[int] = []
    for part, holes in around_holes(messages):
        count = holes or look(part)[0]
        if part:
            parts.append(part)
            offsets += range(offset, offset + count)
        offset += count
    return b"".join(parts), offsets, offset


def _next_hole(lines: bytes, start: int) -> int:
    """Where the next hole begins that is a line; -1 where there is none."""
    found = lines.find(HOLE, start)
    while found > 0 and lines[found - 1] != 0x0A:
        found = lines.find(HOLE, found + 1)
    return found
