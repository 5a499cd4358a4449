"""Objects that are sent whole, in one request or in blocks, and appear at their name when storage has all of them.

What is long goes up in one resumable upload (https://cloud.google.com/storage/docs/resumable-uploads): a break costs
one block. Parts that are sent side by side and then joined may be quicker where one connection is slow, but are objects
meanwhile: a retention policy keeps them, and soft delete bills them for days.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from singerlake.errors import StorageUnavailableError
from singerlake.storage.cloud.driver import Ask
from singerlake.storage.drivers.gcs.bucket import KIND, MADE, Bucket
from singerlake.storage.drivers.gcs.client import Body, not_gcs, parsed
from singerlake.storage.drivers.gcs.errors import meaning
from singerlake.storage.lost_replies import Meaning

Result = TypeVar("Result")

LONG = 64 << 20
"""Bytes from which an object is sent in blocks."""
BLOCK = 64 << 20
"""Bytes; a multiple of 256 KiB, as every block but the last has to be."""
_INCOMPLETE = 308


class Asked:
    """An ``Ask`` that knows whether a request was sent more than once, so that what is there may be one's own."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.repeated = False

    def __call__(self, request: Callable[[], Result], /, *, key: str | None = None) -> Result:
        tries = 0

        def once() -> Result:
            nonlocal tries
            tries += 1
            self.repeated = self.repeated or tries > 1
            return request()

        return self._ask(once, key=key)


Make = Callable[[str | None, Asked], dict[str, Any] | None]
"""Makes an object under a condition on its generation, until that is known; None where it did not hold."""


def refused_as_none(request: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """What a request gives; None where its condition does not hold."""
    from google.api_core.exceptions import PreconditionFailed

    try:
        return request()
    except PreconditionFailed as error:
        if meaning(error) is not Meaning.REFUSED:
            raise
        return None


def place(bucket: Bucket, name: str, size: int, checksum: str | None, make: Make, ask: Ask) -> None:
    """Have ``make`` make an object at a name that nobody else writes.

    It is made where there is none, so that a second try after a lost reply replaces nothing: that would need the
    permission to delete, and a retention policy forbids it. What is there already is one's own where it is the same.
    Raises ``StorageUnavailableError`` where storage made another one.
    """
    asked = Asked(ask)
    made = make("0", asked)
    if made is None:
        seen = ask(lambda: bucket.look(name))
        if seen is not None and seen.size == size and (seen.crc32c == checksum if checksum else asked.repeated):
            return
        made = make(None, asked)
    stored, told = made or {}, (made or {}).get("crc32c")
    if int(stored.get("size", size)) != size or (checksum is not None and told not in (None, checksum)):
        raise StorageUnavailableError("storage has other bytes than were sent", hint="run again", sent=size)


def send_whole(bucket: Bucket, name: str, body: bytes | memoryview, checksum: str | None, ask: Ask) -> None:
    """Send an object in one request."""

    def make(generation: str | None, ask: Asked) -> dict[str, Any] | None:
        return ask(lambda: refused_as_none(lambda: bucket.put(name, body, generation=generation)))

    place(bucket, name, len(body), checksum, make, ask)


def send_blocks(
    bucket: Bucket,
    name: str,
    size: int,
    checksum: str | None,
    blocks: Callable[[], Iterable[bytes | memoryview]],
    ask: Ask,
) -> None:
    """Send an object of ``size`` bytes block after block."""

    def make(generation: str | None, ask: Asked) -> dict[str, Any] | None:
        upload = _Upload(bucket, name, size, checksum, generation, ask)
        for block in blocks():
            if upload.refused or upload.made is not None:
                break
            upload.send(block)
        if upload.made is None and not upload.refused:
            raise StorageUnavailableError("storage has not all of an upload", hint="run again", sent=size)
        return upload.made

    place(bucket, name, size, checksum, make, ask)


class _Upload:
    """One resumable upload, which is begun with the first block. Its URL is a secret: whoever has it may write."""

    def __init__(
        self, bucket: Bucket, name: str, size: int, checksum: str | None, generation: str | None, ask: Asked
    ) -> None:
        self._bucket = bucket
        # Storage compares the checksum with what it has in the end.
        self._about = {"name": name, "contentType": KIND, **({"crc32c": checksum} if checksum else {})}
        self._size = size
        self._generation = generation
        self._ask = ask
        self._session: str | None = None
        self._stored = 0
        self._is_clear = True
        self.made: dict[str, Any] | None = None
        self.refused = False

    def send(self, block: bytes | memoryview) -> None:
        """Add a block. Afterwards the object may be ``made``, or ``refused`` since its condition does not hold."""
        start = self._stored
        if self._session is None:
            self._session = self._ask(self._begin)
        while not (self.refused or self.made is not None) and self._stored < start + len(block):
            self._ask(lambda: self._step(start, block))
            if self._stored < start:
                raise StorageUnavailableError("storage lost a part of an upload", hint="run again")

    def _begin(self) -> str:
        query = {"uploadType": "resumable", "fields": MADE, **self._bucket.written(self._generation)}
        headers = {
            "Content-Type": "application/json; charset=UTF-8",
            "X-Upload-Content-Type": KIND,
            "X-Upload-Content-Length": str(self._size),
        }
        path = f"/upload/storage/v1{self._bucket.objects}"
        reply = refused_as_none(
            lambda: {"at": self._bucket.client.send("POST", path, query, json.dumps(self._about).encode(), headers)}
        )
        if reply is None:
            self.refused = True
            return ""
        parts = urlsplit(reply["at"].headers.get("Location", ""))
        if not parts.query:
            raise not_gcs()
        return f"{parts.path}?{parts.query}"

    def _step(self, start: int, block: bytes | memoryview) -> None:
        """Send what storage has not yet of a block that begins at ``start``. After a try that failed, storage says
        first how far it is."""
        if self._is_clear:
            self._is_clear = False
            at = self._stored
            rest = memoryview(block)[at - start :]
            self._exchange(f"bytes {at}-{at + len(rest) - 1}/{self._size}", Body(rest))
        else:
            self._exchange(f"bytes */{self._size}", b"")
        self._is_clear = True

    def _exchange(self, told: str, body: bytes | Body) -> None:
        from google.api_core.exceptions import GoogleAPICallError

        path, _, query = (self._session or "").partition("?")
        try:
            reply = self._bucket.client.send("PUT", path, query, body, {"Content-Range": told}, also=_INCOMPLETE)
        except GoogleAPICallError as error:
            if error.code == 412:
                self.refused = True
                return
            if error.code in (404, 410):
                raise StorageUnavailableError("storage ended an upload", hint="run again") from error
            raise
        if reply.status_code == _INCOMPLETE:
            found = re.fullmatch(r"bytes=0-(\d+)", reply.headers.get("Range", ""))
            self._stored = int(found[1]) + 1 if found else 0
        else:
            self._stored = self._size
            self.made = parsed(reply)
