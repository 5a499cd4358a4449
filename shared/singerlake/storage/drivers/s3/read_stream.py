"""A streamed read of an S3 object through smart_open: one request for all of it, and another where it breaks."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, BinaryIO, cast

_BUFFER = 1 << 20

Ask = Callable[[Callable[[], bytes]], bytes]
"""Sends a request until it is answered. Raises this package's errors."""


class _ResumingStream(io.BufferedIOBase):
    """smart_open's reader, which resumes by itself where a connection breaks. Where it gives up, another one goes on at
    the byte that is wanted next: what the first one holds or has dropped by then does not matter."""

    def __init__(self, opened: Callable[[int], Any], start: int, ask: Ask) -> None:
        self._opened = opened
        self._ask = ask
        self._at = start
        self._reader: Any = None
        self._next(lambda _: b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        return self._next(lambda reader: reader.read(-1 if size is None else size))

    def read1(self, size: int = -1, /) -> bytes:
        return self.read(_BUFFER if size < 0 else size)

    def readline(self, size: int | None = -1, /) -> bytes:
        return self._next(lambda reader: reader.readline(-1 if size is None else size))

    def close(self) -> None:
        self._drop()
        super().close()

    def _drop(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _next(self, read: Callable[[Any], bytes]) -> bytes:
        """What ``read`` makes of a reader that stands at the byte that is wanted next."""
        if self.closed:
            raise ValueError("I/O operation on closed file.")

        def request() -> bytes:
            try:
                self._reader = self._reader or self._opened(self._at)
                return read(self._reader)
            except Exception as error:
                self._drop()
                raise _cause(error) from error

        data = self._ask(request)
        self._at += len(data)
        return data


def _cause(error: Exception) -> Exception:
    """botocore's error: smart_open wraps what the store answered, has an error of its own for reads that it gave up on,
    and lets botocore's other errors through."""
    from botocore.exceptions import BotoCoreError, ResponseStreamingError

    answered: Exception | None = getattr(error, "backend_error", None)
    if answered is not None:
        return answered
    # Some of botocore's own are of the operating system's, too.
    gave_up = isinstance(error, OSError) and not isinstance(error, BotoCoreError)
    return ResponseStreamingError(error=error) if gave_up else error


def open_stream(client: Any, bucket: str, key: str, start: int, ask: Ask) -> BinaryIO:
    """The object's bytes from ``start`` on. Bucket and key go in as they are: a URL would be taken apart again."""
    from smart_open.s3 import open as smart_open_s3

    def opened(at: int) -> Any:
        reader = smart_open_s3(bucket, key, "rb", buffer_size=_BUFFER, defer_seek=True, client=client)
        reader.seek(at)
        return reader

    return cast(BinaryIO, _ResumingStream(opened, start, ask))
