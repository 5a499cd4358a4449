"""An object of S3 made of parts of others: copied by the server where its sizes allow, fetched and sent where not.

A part of a multipart upload, except the last, has at least 5 MiB; one that is copied has at most 5 GiB
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html). An upload that a killed process began is for the
bucket's lifecycle rules to remove.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from singerlake.storage.cloud.compose import NotCopiedError, Sources, Together, compose
from singerlake.storage.drivers.s3.errors import is_lost_upload, meaning
from singerlake.storage.drivers.s3.multipart import Multipart, Target, multipart
from singerlake.storage.port import Part

LEAST = 5 << 20
LONGEST = 5 << 30


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
