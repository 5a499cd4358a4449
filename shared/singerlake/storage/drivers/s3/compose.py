"""An object of S3 made of parts of others: copied by the server where its sizes allow, fetched and sent where not.

A part of a multipart upload, except the last, has at least 5 MiB; one that is copied has at most 5 GiB
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from singerlake.errors import SingerlakeError
from singerlake.storage.copy_parts import Together, arranged
from singerlake.storage.drivers.s3.errors import is_lost_upload, may_pass
from singerlake.storage.drivers.s3.multipart import multipart
from singerlake.storage.keys import ends_early
from singerlake.storage.port import Part

LEAST = 5 << 20
LONGEST = 5 << 30
_FETCHES = 8


@dataclass(frozen=True)
class Composer:
    """Composes objects in one bucket. ``read_range`` takes keys below ``prefix``, and ``translate`` gives the error for
    one of botocore's that concerns such a key. ``encryption`` are arguments of each new object."""

    client: Any
    bucket: str
    prefix: str
    encryption: dict[str, str]
    read_range: Callable[[str, int, int], bytes]
    translate: Callable[[str], Callable[[Exception], SingerlakeError]]

    def compose(self, full: str, pieces: Sequence[bytes | Part]) -> None:
        """Make the object ``full``. Raises botocore's errors about it, and this package's about the sources."""
        try:
            self._compose(full, list(arranged(pieces, least=LEAST, longest=LONGEST)))
        except _NotCopiedError:
            self._compose(full, list(arranged(pieces, least=LEAST, longest=LONGEST, copy=False)))

    def _compose(self, full: str, parts: Sequence[Part | Together]) -> None:
        with ThreadPoolExecutor(_FETCHES, thread_name_prefix="singerlake-fetch") as pool:
            if len(parts) < 2 and not isinstance(parts[0] if parts else [], Part):
                body = self._fetched(parts[0], pool) if parts else b""  # type: ignore[arg-type]  # not a Part
                self.client.put_object(Bucket=self.bucket, Key=full, Body=body, **self.encryption)
                return
            with multipart(self.client, self.bucket, full, self.encryption) as upload:
                for number, part in enumerate(parts, 1):
                    upload.parts.append({"ETag": self._put(part, upload.part(number), pool)})

    def _put(self, part: Part | Together, where: dict[str, Any], pool: ThreadPoolExecutor) -> str:
        """Add one part; gives its ETag."""
        if isinstance(part, Part):
            return self._copied(part, where)
        etag: str = self.client.upload_part(**where, Body=self._fetched(part, pool))["ETag"]
        return etag

    def _copied(self, part: Part, where: dict[str, Any]) -> str:
        source = {"Bucket": self.bucket, "Key": self.prefix + part.key}
        try:
            reply = self.client.upload_part_copy(
                **where, CopySource=source, CopySourceRange=f"bytes={part.start}-{part.end - 1}"
            )
        except Exception as error:
            if is_lost_upload(error) or may_pass(error):
                raise
            self._check_source(part, error)
            # Some stores know no copies, and Ceph 16 looks for a source whose key has a % under another name.
            raise _NotCopiedError from error
        etag: str = reply["CopyPartResult"]["ETag"]
        return etag

    def _check_source(self, part: Part, refused: Exception) -> None:
        """See whether a part is there that could not be copied: stores have several codes for one that is not."""
        try:
            there = self.client.head_object(Bucket=self.bucket, Key=self.prefix + part.key)
        except Exception as error:
            raise self.translate(part.key)(error) from refused
        if there["ContentLength"] < part.end:
            raise ends_early(part) from refused

    def _fetched(self, together: Together, pool: ThreadPoolExecutor) -> bytes:
        return b"".join(pool.map(self._bytes, together))

    def _bytes(self, piece: bytes | Part) -> bytes:
        if isinstance(piece, bytes):
            return piece
        data = self.read_range(piece.key, piece.start, piece.size)
        if len(data) != piece.size:
            raise ends_early(piece)
        return data


class _NotCopiedError(Exception):
    """The server refused to copy a part that is there, so that all of them are to be fetched and sent."""
