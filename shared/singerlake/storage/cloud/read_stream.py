"""A streamed read that asks for one range after the other: nothing has to be resumed where a connection breaks."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO, cast

AT_ONCE = 8 << 20
"""Bytes of one request: few requests, little memory."""


class _RangeStream(io.RawIOBase):
    def __init__(self, read_range: Callable[[int, int], bytes], start: int, end: int | None) -> None:
        self._read_range = read_range
        self._at = start
        self._end = end
        self._over = False
        self._block = memoryview(b"")
        # The first range now: one that is missing is told when it is opened.
        self._fetch()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast(bytearray, buffer)).cast("B")
        if not self._block and not self._over:
            self._fetch()
        count = min(len(view), len(self._block))
        view[:count] = self._block[:count]
        self._block = self._block[count:]
        return count

    def _fetch(self) -> None:
        wanted = AT_ONCE if self._end is None else max(0, min(AT_ONCE, self._end - self._at))
        data = self._read_range(self._at, wanted)
        self._at += len(data)
        self._over = len(data) < wanted or wanted == 0
        self._block = memoryview(data)


def open_ranges(read_range: Callable[[int, int], bytes], start: int, end: int | None) -> BinaryIO:
    """The bytes [start, end) of an object, None: to its end. ``read_range`` takes where to begin and how many bytes,
    and gives fewer only at the end of the object. Raises what it raises."""
    return cast(BinaryIO, io.BufferedReader(_RangeStream(read_range, start, end), 1 << 20))
