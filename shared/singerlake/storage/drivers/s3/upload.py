"""Uploads of whole files, in one request or in parts."""

from __future__ import annotations

import hashlib
import io
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

from singerlake.storage.drivers.s3.multipart import Multipart, Target, etag_of, multipart

MULTIPART_THRESHOLD = 64 << 20
"""Bytes from which a file is uploaded in parts."""
PART_SIZE = 16 << 20
"""Bytes of a part, about: a file's parts are as many as its connections take in a whole number of turns."""
CONNECTIONS = 8
_LEAST_PART = 5 << 20
_MOST_PARTS = 10_000
"""What S3 takes: bytes of each part but the last, and parts of a file."""
_AT_ONCE = 1 << 17
"""Bytes of a file that are read at a time. botocore asks for 1 MiB, two of which each connection would hold; where it
sends a checksum behind them, it copies what is left of them for each piece that it sends."""
_SMALL = 1 << 20
"""Bytes of a file that is sent from memory."""
_DIGESTED = 16 << 20
"""Bytes of a file up to which it is digested, beside its request: more takes longer than to ask for its size."""


def upload(target: Target, path: Path, size: int, ready: Callable[[], object]) -> bool:
    """Send a file of ``size`` bytes, when ``ready`` returns. True where the answer proves that storage has just these:
    its ETag is their MD5, as it is on most stores where no key of KMS encrypts, or its parts are proved. Raises what
    ``ready`` and ``target.send`` raise."""
    if size >= MULTIPART_THRESHOLD:
        # S3 takes no part with a checksum that the upload did not announce. Other stores get none.
        checked = target.client.meta.config.request_checksum_calculation == "when_supported"
        checksum = {"ChecksumAlgorithm": "CRC32"} if checked else {}
        with multipart(target, **checksum) as parts:
            ready()
            _put_parts(parts, path, size, checksum)
        return parts.is_proved()
    ready()
    if size <= _SMALL:
        body = path.read_bytes()
        reply = target.send(partial(target.client.put_object, **target.where, **target.encryption, Body=body))
        return etag_of(reply) == hashlib.md5(body, usedforsecurity=False).hexdigest()
    if size <= _DIGESTED:
        with ThreadPoolExecutor(1) as beside:
            digest = beside.submit(_md5, path)
            return _put_file(target, path, size) == digest.result()
    _put_file(target, path, size)
    return False


def _put_file(target: Target, path: Path, size: int) -> str:
    """Send a file in one request; its ETag."""

    def once() -> dict[str, Any]:
        with _Part(path, 0, size) as file:
            answer: dict[str, Any] = target.client.put_object(**target.where, **target.encryption, Body=file)
            return answer

    return etag_of(target.send(once))


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()


def _put_parts(upload: Multipart, path: Path, size: int, checksum: dict[str, str]) -> None:
    """Send a file as the parts of an upload, several at once."""
    length = part_size(size)
    given_up = threading.Event()

    def send(number: int) -> dict[str, Any]:
        # Parts are begun in their order, so that what failed comes before what was given up for it.
        if given_up.is_set():
            return {}
        start = (number - 1) * length

        def once(**arguments: Any) -> dict[str, Any]:
            with _Part(path, start, min(start + length, size)) as part:
                answer: dict[str, Any] = upload.target.client.upload_part(**arguments, **checksum, Body=part)
                return answer

        try:
            return upload.send(once, PartNumber=number)
        except BaseException:
            given_up.set()
            raise

    with ThreadPoolExecutor(CONNECTIONS) as connections:
        try:
            sent = [connections.submit(send, number) for number in range(1, math.ceil(size / length) + 1)]
            wait(sent)
        finally:
            given_up.set()
    upload.parts.extend(each.result() for each in sent)


class _Part:
    """The bytes [start, end) of a file, as the body of a request. A read gives ``_AT_ONCE`` of them at most, unless it
    asks for all."""

    def __init__(self, path: Path, start: int, end: int) -> None:
        self._file = path.open("rb", buffering=0)
        self._start = start
        self._end = end
        self._file.seek(start)

    def __enter__(self) -> _Part:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes; none at the end."""
        left = max(0, self._end - self._file.tell())
        return self._file.read(left if size is None or size < 0 else min(size, left, _AT_ONCE))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to an offset, as of a file."""
        origin = {io.SEEK_SET: self._start, io.SEEK_CUR: self._file.tell(), io.SEEK_END: self._end}[whence]
        return self._file.seek(origin + offset) - self._start

    def tell(self) -> int:
        """The offset of the next byte."""
        return self._file.tell() - self._start


def part_size(size: int) -> int:
    """Bytes of each part of a file of ``size`` bytes but the last, so that no connection has one more to send when the
    others have ended."""
    turns = max(1, round(size / (CONNECTIONS * PART_SIZE)))
    return max(_LEAST_PART, math.ceil(size / (CONNECTIONS * turns)), math.ceil(size / _MOST_PARTS))
