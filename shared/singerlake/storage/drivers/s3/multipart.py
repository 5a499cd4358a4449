"""An object of S3 that is sent in parts: it is there as a whole at the end, or not at all."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from singerlake.storage.drivers.s3.errors import is_lost_upload


@dataclass(slots=True)
class Multipart:
    """One such upload under way. ``parts`` is to get what S3 answered to each, in their order; ``etag`` is that of the
    object, when it is there."""

    where: dict[str, str]
    parts: list[dict[str, Any]] = field(default_factory=list)
    etag: str = ""

    def part(self, number: int) -> dict[str, Any]:
        """The arguments that name a part, the first of which is 1."""
        return {**self.where, "PartNumber": number}

    def is_proved(self) -> bool:
        """Whether S3's answers prove that the object has all parts, each as it was sent: it took a checksum with each,
        and the object's ETag is the MD5 of theirs and how many there are, as it is where no key of KMS encrypts
        (https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html)."""
        etags = [etag_of(each) for each in self.parts]
        if not all("ChecksumCRC32" in each for each in self.parts) or not all(map(_DIGEST.fullmatch, etags)):
            return False
        digest = hashlib.md5(b"".join(map(bytes.fromhex, etags)), usedforsecurity=False)
        return self.etag == f"{digest.hexdigest()}-{len(etags)}"


_DIGEST = re.compile("[0-9a-f]{32}")


def etag_of(answer: dict[str, Any]) -> str:
    """The ETag in an answer, without its quotes; none is empty."""
    return str(answer.get("ETag", "")).strip('"')


@contextmanager
def multipart(client: Any, bucket: str, key: str, arguments: dict[str, str]) -> Iterator[Multipart]:
    """Begin an upload with more ``arguments``; the block sends its parts. Behind the block the object is made of them.
    Where something failed, S3 is asked to remove them. Raises botocore's errors."""
    made = client.create_multipart_upload(Bucket=bucket, Key=key, **arguments)
    upload = Multipart({"Bucket": bucket, "Key": key, "UploadId": made["UploadId"]})
    try:
        yield upload
        parts = [{"PartNumber": number, **_named(answer)} for number, answer in enumerate(upload.parts, 1)]
        upload.etag = etag_of(client.complete_multipart_upload(**upload.where, MultipartUpload={"Parts": parts}))
    except BaseException as error:
        # One that is not there any more has ended, perhaps by a try whose reply was lost.
        if not is_lost_upload(error):
            with suppress(Exception):
                client.abort_multipart_upload(**upload.where)
        raise


def _named(answer: dict[str, Any]) -> dict[str, str]:
    """What names a part at the end: its ETag, and the checksum that S3 took."""
    return {name: answer[name] for name in ("ETag", "ChecksumCRC32") if name in answer}
