"""A streamed read of an S3 object through smart_open, with this package's errors and patience."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from singerlake.errors import SingerlakeError, StorageUnavailableError
from singerlake.storage.patience import Patience, RetryReason

_BUFFER = 1 << 20

Translate = Callable[[Exception], SingerlakeError]


class _ResumingStream(io.BufferedIOBase):
    """smart_open's reader, which resumes by itself where a connection breaks. Where it gives up, another one goes on at
    the byte that is wanted next: what the first one holds or has dropped by then does not matter."""

    def __init__(self, opened: Callable[[int], Any], start: int, translate: Translate, patience: Patience) -> None:
        self._opened = opened
        self._translate = translate
        self._patience = patience
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
        wait = self._patience.begin()
        while True:
            try:
                self._reader = self._reader or self._opened(self._at)
                data = read(self._reader)
            except Exception as error:
                # smart_open wraps what the store answered, has an error of its own for reads that it gave up on, and
                # lets botocore's other errors through, for which the client has waited already.
                inside = getattr(error, "backend_error", None)
                if inside is not None or not isinstance(error, OSError):
                    raise self._translate(error if inside is None else inside) from error
                if not wait.again(RetryReason.SILENT):
                    raise StorageUnavailableError(
                        "a read broke off and could not be resumed", hint="run again", at=self._at, reason=str(error)
                    ) from error
                self._drop()
            else:
                self._at += len(data)
                return data


def open_stream(
    client: Any, bucket: str, key: str, start: int, *, translate: Translate, patience: Patience
) -> BinaryIO:
    """The object's bytes from ``start`` on. Bucket and key go in as they are: a URL would be taken apart again."""
    from smart_open.s3 import open as smart_open_s3

    def opened(at: int) -> Any:
        reader = smart_open_s3(bucket, key, "rb", buffer_size=_BUFFER, defer_seek=True, client=client)
        reader.seek(at)
        return reader

    return cast(BinaryIO, _ResumingStream(opened, start, translate, patience))
