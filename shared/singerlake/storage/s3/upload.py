"""Uploads of whole files, in one request or in parts."""

from __future__ import annotations

import hashlib
import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

MULTIPART_THRESHOLD = 64 << 20
"""Bytes from which a file is uploaded in parts."""
PART_SIZE = 16 << 20
"""Bytes of a part, about: a file's parts are as many as its connections take in a whole number of turns."""
CONNECTIONS = 8
_LEAST_PART = 5 << 20
_MOST_PARTS = 10_000
"""What S3 takes: bytes of each part but the last, and parts of a file."""
_AT_ONCE = 1 << 17
"""Bytes of a part that are read at a time."""
_SMALL = 1 << 20
"""Bytes of a file that is sent from memory."""
_DIGESTED = 16 << 20
"""Bytes of a file up to which it is digested, beside its request: more takes longer than to ask for its size."""


def upload(client: Any, bucket: str, key: str, path: Path, size: int, encryption: dict[str, str]) -> bool:
    """Send a file of ``size`` bytes. True where the answer proves that storage has just these: its ETag is their MD5,
    as it is on most stores where no key of KMS encrypts. Raises what botocore and boto3 raise; ``cause_of_upload``
    knows the latter."""
    if size <= _SMALL:
        body = path.read_bytes()
        reply = client.put_object(Bucket=bucket, Key=key, Body=body, **encryption)
        return _etag(reply) == hashlib.md5(body, usedforsecurity=False).hexdigest()
    if size < MULTIPART_THRESHOLD and size <= _DIGESTED:
        with ThreadPoolExecutor(1) as beside:
            digest = beside.submit(_md5, path)
            return _put_file(client, bucket, key, path, encryption) == digest.result()
    if size < MULTIPART_THRESHOLD:
        _put_file(client, bucket, key, path, encryption)
        return False
    from boto3.s3.transfer import S3Transfer, TransferConfig

    config = TransferConfig(
        multipart_threshold=MULTIPART_THRESHOLD,
        multipart_chunksize=part_size(size),
        max_concurrency=CONNECTIONS,
        # A client of the CRT would send on its own connections and try again by rules of its own.
        preferred_transfer_client="classic",
    )
    with S3Transfer(client, config, _small_reads()) as transfer:
        transfer.upload_file(str(path), bucket, key, extra_args=encryption)
    return False


def _put_file(client: Any, bucket: str, key: str, path: Path, encryption: dict[str, str]) -> str:
    """Send a file in one request; its ETag."""
    with path.open("rb") as file:
        return _etag(client.put_object(Bucket=bucket, Key=key, Body=file, **encryption))


def _etag(reply: dict[str, Any]) -> str:
    return str(reply.get("ETag", "")).strip('"')


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()


def _small_reads() -> Any:
    """Opens parts whose bytes come a few at a time. botocore signs and frames them by the megabyte, two of which each
    connection then holds."""
    from s3transfer.utils import OSUtils, ReadFileChunk

    class Part(ReadFileChunk):  # type: ignore[misc]
        def read(self, amount: int | None = None) -> bytes:
            data: bytes = super().read(None if amount is None else min(amount, _AT_ONCE))
            return data

    class Files(OSUtils):  # type: ignore[misc]
        def open_file_chunk_reader_from_fileobj(
            self, fileobj: Any, chunk_size: int, full_file_size: int, callbacks: Any, close_callbacks: Any = None
        ) -> Part:
            return Part(
                fileobj,
                chunk_size,
                full_file_size,
                callbacks=callbacks,
                enable_callbacks=False,
                close_callbacks=close_callbacks,
            )

    return Files()


def part_size(size: int) -> int:
    """Bytes of each part of a file of ``size`` bytes but the last, so that no connection has one more to send when the
    others have ended."""
    turns = max(1, round(size / (CONNECTIONS * PART_SIZE)))
    return max(_LEAST_PART, math.ceil(size / (CONNECTIONS * turns)), math.ceil(size / _MOST_PARTS))


def cause_of_upload(error: Exception) -> Exception:
    """The botocore error inside boto3's upload error, which keeps only its text."""
    from boto3.exceptions import S3UploadFailedError

    inside = error.__context__ if isinstance(error, S3UploadFailedError) else None
    return inside if isinstance(inside, Exception) else error
