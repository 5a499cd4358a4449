"""Objects of S3 in one request or in parts: files that are sent, and objects made of parts of others, copied by the
server where its sizes allow: at least 5 MiB, except the last, and at most 5 GiB to copy
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html). An upload that a killed process began is for the
bucket's lifecycle rules to remove."""

from __future__ import annotations

import hashlib
import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from singerlake.storage.cloud.compose import NotCopiedError, Sources, Together, compose
from singerlake.storage.drivers.s3.errors import is_lost_upload, meaning
from singerlake.storage.port import Part
from singerlake.storage.streams import FilePart

Result = TypeVar("Result")

LEAST = 5 << 20
LONGEST = 5 << 30

MULTIPART_THRESHOLD = 64 << 20
"""Bytes from which a file is uploaded in parts."""
PART_SIZE = 16 << 20
"""Bytes of a part, about: a file's parts are as many as its connections take in a whole number of turns."""
CONNECTIONS = 8
_MOST_PARTS = 10_000
"""What S3 takes: bytes of each part but the last, and parts of a file."""
_SMALL = 1 << 20
"""Bytes of a file that is sent from memory."""
_DIGESTED = 16 << 20
"""Bytes of a file up to which it is digested, beside its request: more takes longer than to ask for its size."""


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


def compose_object(
    target: Target, pieces: Sequence[bytes | Part], sources: Sources, where: Callable[[str], dict[str, Any]]
) -> None:
    """Make the object ``target``; ``where`` names a source. Raises ``MissingFileError`` where a part is not there."""

    def put(body: bytes) -> None:
        target.send(lambda: target.client.put_object(**target.where, **target.encryption, Body=body))

    def in_parts(parts: Sequence[Part | Together], pool: ThreadPoolExecutor) -> None:
        with multipart(target) as upload:
            for number, part in enumerate(parts, 1):
                if isinstance(part, Part):
                    etag = _copied(upload, number, part, sources, where(part.key))
                else:
                    body = sources.fetched(part, pool)
                    etag = upload.send(target.client.upload_part, PartNumber=number, Body=body)["ETag"]
                upload.parts.append({"ETag": etag})

    compose(pieces, sources, put=put, in_parts=in_parts, least=LEAST, longest=LONGEST)


def _copied(upload: Multipart, number: int, part: Part, sources: Sources, source: dict[str, Any]) -> str:
    """Have the server copy a part; gives its ETag."""

    def request(**arguments: Any) -> dict[str, Any] | Exception:
        try:
            copied: dict[str, Any] = upload.target.client.upload_part_copy(**arguments)
            return copied
        except Exception as error:
            if is_lost_upload(error) or meaning(error).may_pass:
                raise
            return error

    found = f"bytes={part.start}-{part.end - 1}"
    answer = upload.send(request, PartNumber=number, CopySource=source, CopySourceRange=found)
    if isinstance(answer, Exception):
        # Stores have several codes for a source that is not there. Some know no copies, and Ceph 16 looks for a source
        # whose key has a % under another name.
        sources.check(part)
        raise NotCopiedError from answer
    etag: str = answer["CopyPartResult"]["ETag"]
    return etag


def upload(target: Target, path: Path, size: int, ready: Callable[[], object]) -> bool:
    """Send a file of ``size`` bytes, when ``ready`` returns. True where the answer proves that storage has them: the
    ETag is their MD5, as on most stores without KMS, or the parts are proved. Raises as both."""
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
        with FilePart(path, 0, size) as file:
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
            with FilePart(path, start, min(start + length, size)) as part:
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


def part_size(size: int) -> int:
    """Bytes of each part but the last, so that no connection has one more to send when the others have ended."""
    turns = max(1, round(size / (CONNECTIONS * PART_SIZE)))
    return max(LEAST, math.ceil(size / (CONNECTIONS * turns)), math.ceil(size / _MOST_PARTS))
