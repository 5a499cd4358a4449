"""An object of S3 that is sent in parts: it is there as a whole at the end, or not at all."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from singerlake.storage.drivers.s3.errors import is_lost_upload

Result = TypeVar("Result")


class Send(Protocol):
    """Sends a request until it is answered. Raises this package's errors."""

    def __call__(self, request: Callable[[], Result], /) -> Result: ...


@dataclass(frozen=True, slots=True)
class Target:
    """An object that is to be made. ``where`` names it, and ``encryption`` are arguments of whatever begins it."""

    client: Any
    where: dict[str, Any]
    encryption: dict[str, str]
    send: Send


@dataclass(slots=True)
class Multipart:
    """One such upload under way. ``parts`` is to get what S3 answered to each, in their order; ``etag`` is that of the
    object, when it is there. ``is_over``: S3 does not know it, perhaps since a try whose reply was lost ended it."""

    target: Target
    where: dict[str, Any]
    parts: list[dict[str, Any]] = field(default_factory=list)
    etag: str = ""
    is_over: bool = False

    def send(self, request: Callable[..., Result], **arguments: Any) -> Result:
        """What S3 answers to a request about the upload."""

        def once() -> Result:
            try:
                return request(**self.where, **arguments)
            except Exception as error:
                self.is_over = is_lost_upload(error)
                raise

        return self.target.send(once)

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
def multipart(target: Target, **arguments: str) -> Iterator[Multipart]:
    """Begin an upload with more ``arguments``; the block sends its parts. Behind the block the object is made of them.
    Where something failed, S3 is asked to remove them. Raises what ``target.send`` raises."""
    client = target.client
    made = target.send(lambda: client.create_multipart_upload(**target.where, **target.encryption, **arguments))
    upload = Multipart(target, {**target.where, "UploadId": made["UploadId"]})
    try:
        yield upload
        parts = [{"PartNumber": number, **_named(answer)} for number, answer in enumerate(upload.parts, 1)]
        upload.etag = etag_of(upload.send(client.complete_multipart_upload, MultipartUpload={"Parts": parts}))
    except BaseException:
        if not upload.is_over:
            with suppress(Exception):
                upload.send(client.abort_multipart_upload)
        raise


def _named(answer: dict[str, Any]) -> dict[str, str]:
    """What names a part at the end: its ETag, and the checksum that S3 took."""
    return {name: answer[name] for name in ("ETag", "ChecksumCRC32") if name in answer}
