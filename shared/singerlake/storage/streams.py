"""Binary streams: a part of another one, and chunks that are asked for as they are wanted."""

from __future__ import annotations

import io
from collections.abc import Iterator
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


class _Joined(io.RawIOBase):
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        view = memoryview(cast(bytearray, buffer)).cast("B")
        size = min(len(view), len(self._rest))
        view[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def joined(chunks: Iterator[bytes]) -> BinaryIO:
    """A buffered stream of all ``chunks``, each taken when those before it are read. Raises what taking one raises."""
    return cast(BinaryIO, io.BufferedReader(_Joined(chunks), _BUFFER))
