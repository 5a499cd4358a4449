"""The stored bytes of files on a storage that is far away, by ranges that are asked for before they are wanted."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import BinaryIO, cast

from singerlake.format.state.selection import Slice
from singerlake.storage.port import Storage
from singerlake.work.ahead import together

RANGE = 4 << 20
"""Bytes of a range, and of the largest file that is read in one request, its SCHEMA message included."""
AT_ONCE = 4
"""Requests under way: enough to hide their latency, and with ``RANGE`` all of the memory that it takes."""


class Ranges:
    """Reads ``slices`` of files below ``prefix``, each once and in their order."""

    def __init__(self, storage: Storage, prefix: str, slices: Iterable[Slice]) -> None:
        wanted = ((prefix + part.file.path, start, end) for part in slices for start, end in spans(part))
        self._chunks = together(
            lambda one: storage.read_range(one[0], one[1], one[2] - one[1]), wanted, at_once=AT_ONCE
        )

    def next_file(self, part: Slice) -> tuple[bytes, BinaryIO]:
        """What stands in the file of the next slice before its first tabled member, and a stream of what ``part`` is
        read from. Raises ``MissingFileError`` and what storage raises, as the stream does."""
        number = len(spans(part))
        first = next(self._chunks)
        if not part.member:
            return first[: _lead(part)], _stream(_Joined(first, self._chunks, number - 1))
        return first, _stream(_Joined(b"", self._chunks, number - 1))


def spans(part: Slice) -> list[tuple[int, int]]:
    """The ranges to read for a slice, each ``(start, end)``. The first one has all that stands before the first tabled
    member. The last one goes a byte beyond the file's end, to see whether there is more, or to where the slice ends
    before that."""
    member, end, lead = part.member, part.stored_end or part.file.bytes + 1, _lead(part)
    start = part.file.members[member][0] if member else max(lead, min(RANGE, end))
    return [(0, lead if member else start), *((at, min(at + RANGE, end)) for at in range(start, end, RANGE))]


def _lead(part: Slice) -> int:
    return part.file.members[0][0] if part.file.members else part.file.bytes


def _stream(joined: io.RawIOBase) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(joined, 1 << 20))


class _Joined(io.RawIOBase):
    """``first``, and the next ``number`` of ``chunks``, which are taken as they are wanted."""

    def __init__(self, first: bytes, chunks: Iterator[bytes], number: int) -> None:
        self._rest = memoryview(first)
        self._chunks = chunks
        self._left = number

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        while not self._rest and self._left:
            self._left -= 1
            self._rest = memoryview(next(self._chunks))
        view = memoryview(cast(bytearray, buffer)).cast("B")
        size = min(len(view), len(self._rest))
        view[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
