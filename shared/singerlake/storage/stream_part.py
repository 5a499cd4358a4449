"""A part of a binary stream, as a stream of its own."""

from __future__ import annotations

import io
from typing import BinaryIO, cast

_BUFFER = 1 << 20


class _Window(io.RawIOBase):
    """The next ``length`` bytes of ``source``, which it owns and closes."""

    def __init__(self, source: BinaryIO, length: int) -> None:
        self._source = source
        self._left = length

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast(bytearray, buffer)).cast("B")
        data = self._source.read(min(len(view), self._left))
        view[: len(data)] = data
        self._left -= len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()


def window(source: BinaryIO, length: int) -> BinaryIO:
    """A buffered stream of at most the next ``length`` bytes; closing it closes ``source``."""
    return cast(BinaryIO, io.BufferedReader(_Window(source, max(0, length)), _BUFFER))
