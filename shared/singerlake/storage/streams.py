"""Binary streams: a part of another one or of a file, and chunks that are asked for as they are wanted."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

_BUFFER = 1 << 20
AT_ONCE = 1 << 17
"""Bytes of a file that are read at a time. botocore asks for 1 MiB, two of which each connection would hold; where it
sends a checksum behind them, it copies what is left of them for each piece that it sends."""


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


class FilePart(io.RawIOBase):
    """The bytes [start, end) of a file as a request's body. A read gives ``AT_ONCE`` at most, or all."""

    def __init__(self, path: Path, start: int, end: int) -> None:
        self._file = path.open("rb", buffering=0)
        self._start = start
        self._end = end
        self._file.seek(start)

    def __len__(self) -> int:
        return self._end - self._start

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self._end - self._file.tell())
        return self._file.read(left if size is None or size < 0 else min(size, left, AT_ONCE))

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        origin = {io.SEEK_SET: self._start, io.SEEK_CUR: self._file.tell(), io.SEEK_END: self._end}[whence]
        return self._file.seek(origin + offset) - self._start

    def tell(self) -> int:
        return self._file.tell() - self._start

    def close(self) -> None:
        self._file.close()
        super().close()
