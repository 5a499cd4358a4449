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


class GivenBytes(io.RawIOBase):
    """A stream of what ``given`` gives."""

    def given(self, size: int) -> bytes:
        """The next bytes, at most ``size``; none at the end."""
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast(bytearray, buffer)).cast("B")
        data = self.given(len(view))
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        # The one of the base class asks for 8 KiB at a time.
        return b"".join(iter(lambda: self.given(_BUFFER), b""))


class _Window(GivenBytes):
    """The next ``length`` bytes of ``source``, which it owns and closes."""

    def __init__(self, source: BinaryIO, length: int) -> None:
        self._source = source
        self._left = length

    def given(self, size: int) -> bytes:
        data = self._source.read(min(size, self._left))
        self._left -= len(data)
        return data

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()


def buffered(stream: GivenBytes) -> BinaryIO:
    """A buffered stream, which closes ``stream``."""
    return cast(BinaryIO, io.BufferedReader(stream, _BUFFER))


def window(source: BinaryIO, length: int) -> BinaryIO:
    """A buffered stream of at most the next ``length`` bytes; closing it closes ``source``."""
    return buffered(_Window(source, max(0, length)))


class _Joined(GivenBytes):
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def given(self, size: int) -> bytes:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._rest = memoryview(chunk)
        data, self._rest = bytes(self._rest[:size]), self._rest[size:]
        return data


def joined(chunks: Iterator[bytes]) -> BinaryIO:
    """A buffered stream of all ``chunks``, each taken when those before it are read. Raises what taking one raises."""
    return buffered(_Joined(chunks))


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
