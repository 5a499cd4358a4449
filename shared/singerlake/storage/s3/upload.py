"""Uploads of whole files, in one request or in parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MULTIPART_THRESHOLD = 64 << 20
"""Bytes from which a file is uploaded in parts."""
PART_SIZE = 16 << 20
_MOST_PARTS = 10_000


def upload(client: Any, bucket: str, key: str, path: Path, size: int, encryption: dict[str, str]) -> None:
    """Send a file of ``size`` bytes. Raises what botocore and boto3 raise; ``cause_of_upload`` knows the latter."""
    if size < MULTIPART_THRESHOLD:
        with path.open("rb") as file:
            client.put_object(Bucket=bucket, Key=key, Body=file, **encryption)
        return
    from boto3.s3.transfer import TransferConfig

    config = TransferConfig(
        multipart_threshold=MULTIPART_THRESHOLD,
        multipart_chunksize=max(PART_SIZE, size // _MOST_PARTS + 1),
        max_concurrency=4,
    )
    client.upload_file(str(path), bucket, key, ExtraArgs=encryption, Config=config)


def cause_of_upload(error: Exception) -> Exception:
    """The botocore error inside boto3's upload error, which keeps only its text."""
    from boto3.exceptions import S3UploadFailedError

    inside = error.__context__ if isinstance(error, S3UploadFailedError) else None
    return inside if isinstance(inside, Exception) else error
