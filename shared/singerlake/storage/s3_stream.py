"""A streamed read of an S3 object through smart_open, with this package's errors."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from singerlake.errors import SingerlakeError, StorageUnavailable

_BUFFER = 1 << 20

Translate = Callable[[Exception], SingerlakeError]


class _Stream(io.BufferedIOBase):
    """smart_open's reader, which resumes by itself where a connection breaks."""

    def __init__(self, reader: Any, translate: Translate) -> None:
        self._reader = reader
        self._translate = translate

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        try:
            data: bytes = self._reader.read(-1 if size is None else size)
        except Exception as error:
            raise _translated(error, self._translate) from error
        return data

    def read1(self, size: int = -1, /) -> bytes:
        return self.read(_BUFFER if size < 0 else size)

    def readline(self, size: int | None = -1, /) -> bytes:
        try:
            line: bytes = self._reader.readline(-1 if size is None else size)
        except Exception as error:
            raise _translated(error, self._translate) from error
        return line

    def close(self) -> None:
        if not self.closed:
            self._reader.close()
        super().close()


def open_stream(client: Any, bucket: str, key: str, start: int, translate: Translate) -> BinaryIO:
    """The object's bytes from ``start`` on. Bucket and key go in as they are: a URL would be taken apart again."""
    from smart_open.s3 import open as smart_open_s3

    try:
        reader = smart_open_s3(bucket, key, "rb", buffer_size=_BUFFER, defer_seek=True, client=client)
        reader.seek(start)
    except Exception as error:
        raise _translated(error, translate) from error
    return cast(BinaryIO, _Stream(reader, translate))


def _translated(error: Exception, translate: Translate) -> SingerlakeError:
    """smart_open wraps what the store answered in OSError, has one of its own for reads that it gave up on, and lets
    botocore's other errors through."""
    inside = getattr(error, "backend_error", None)
    if inside is None and isinstance(error, OSError):
        return StorageUnavailable("a read broke off and could not be resumed", hint="run again", reason=str(error))
    return translate(error if inside is None else inside)
