"""The requests for objects of one bucket, under their full names: the JSON API of Google Cloud Storage
(https://cloud.google.com/storage/docs/json_api/v1/objects).

An object's generation is what conditions are about: each write gives a new one, and 0 stands for no object
(https://cloud.google.com/storage/docs/request-preconditions). The last time of an object is that of its creation:
``updated`` would change with a hold or a storage class, too.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

from singerlake.clock import IdSource, parse_timestamp
from singerlake.storage.cloud.driver import Fetched
from singerlake.storage.drivers.gcs.client import TIMEOUTS, Client, Query, body_of, not_gcs, parsed
from singerlake.storage.drivers.gcs.errors import is_no_bucket, is_no_object, no_bucket

KIND = "application/octet-stream"
MADE = "generation,size,crc32c"
"""What a write is asked to tell of the object that it made."""
_SHOWN = "name,size,generation,timeCreated,crc32c,storageClass"
MOST_IN_BATCH = 100
"""Requests (https://cloud.google.com/storage/docs/batch)."""
_PAGE = 1000
_TRIES = 10


@dataclass(frozen=True, slots=True)
class Seen:
    """An object as its metadata shows it."""

    name: str
    size: int
    generation: str
    created: datetime
    crc32c: str
    storage_class: str


class Bucket:
    """One bucket. A 404 that says that it is not there is an error; an object that is not there is None."""

    def __init__(self, name: str, client: Client, ids: IdSource, *, kms_key_name: str | None = None) -> None:
        self.client = client
        self.objects = f"/b/{quote(name, safe='')}/o"
        self.kms_key_name = kms_key_name
        self._ids = ids
        self._exists = False

    def fetch(self, name: str, start: int | None = None, length: int = 0) -> Fetched | None:
        """The object, or up to ``length`` bytes of it from ``start``, and what it was when they were sent."""
        from google.api_core.exceptions import NotFound, RequestRangeNotSatisfiable

        path = f"/download{self._path(name)}"
        ranged = {} if start is None else {"Range": f"bytes={start}-{start + length - 1}"}
        for _ in range(_TRIES):
            try:
                reply = self.client.send("GET", path, {"alt": "media"}, headers=ranged, stream=True)
            except NotFound as error:
                self._check_bucket(error)
                return None
            except RequestRangeNotSatisfiable:
                break
            with reply:
                found = self._fetched(reply, name, start, length)
            if found is not None:
                return found
        seen = self.look(name)
        if seen is None:
            return None
        # It ended before ``start`` when it was asked for.
        return Fetched(b"", min(seen.size, start or 0), seen.generation, seen.created)

    def look(self, name: str, generation: str | None = None) -> Seen | None:
        """The object's metadata: of the object that is there, or of one generation."""
        from google.api_core.exceptions import NotFound

        try:
            reply = self.client.send("GET", self._path(name), {"fields": _SHOWN, "generation": generation})
        except NotFound as error:
            self._check_bucket(error)
            return None
        return seen_in(parsed(reply))

    def put(
        self, name: str, body: bytes | memoryview, *, generation: str | None, storage_class: str | None = None
    ) -> dict[str, Any]:
        """Write an object in one request, where it has this generation, None: whatever there is."""
        from google.api_core.exceptions import NotFound

        about = {"name": name, "contentType": KIND, "storageClass": storage_class, "crc32c": crc32c(body)}
        metadata = json.dumps({key: value for key, value in about.items() if value is not None})
        # No boundary may be within the body; nobody can know this one beforehand.
        boundary = f"singerlake-{self._ids()}"
        head = f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{metadata}\r\n"
        between = f"--{boundary}\r\nContent-Type: {KIND}\r\n\r\n"
        try:
            reply = self.client.send(
                "POST",
                f"/upload/storage/v1{self.objects}",
                {"uploadType": "multipart", "fields": MADE, **self.written(generation)},
                body_of((head + between).encode(), body, f"\r\n--{boundary}--\r\n".encode()),
                {"Content-Type": f"multipart/related; boundary={boundary}"},
            )
        except NotFound as error:
            self._check_bucket(error)
            raise
        made = parsed(reply)
        if "generation" not in made:
            raise not_gcs()
        return made

    def join(
        self, name: str, sources: Sequence[tuple[str, str]], *, generation: str | None, remove: bool
    ) -> dict[str, Any]:
        """Make an object of whole others, each a name and a generation, at most 32; ``remove`` them for good where the
        server can (https://cloud.google.com/storage/docs/composing-objects)."""
        asked: dict[str, Any] = {
            "sourceObjects": [{"name": source, "generation": str(of)} for source, of in sources],
            "destination": {"contentType": KIND},
        }
        if remove:
            asked["deleteSourceObjects"] = True
        reply = self.client.send(
            "POST",
            f"{self._path(name)}/compose",
            {"fields": MADE, **self.written(generation)},
            json.dumps(asked).encode(),
            {"Content-Type": "application/json"},
        )
        return parsed(reply)

    def delete(self, name: str, *, generation: str | None) -> None:
        """Remove an object; one that is not there is no error."""
        from google.api_core.exceptions import NotFound

        try:
            self.client.send("DELETE", self._path(name), {"ifGenerationMatch": generation})
        except NotFound as error:
            self._check_bucket(error)

    def delete_many(self, names: Sequence[str]) -> Sequence[bool]:
        """Remove objects in one request, each if it can be: which of them are gone."""
        batch = self.client.library.batch(raise_exception=False)
        for name in names:
            path = f"{self.objects}/{quote(name, safe='')}"
            batch.api_request("DELETE", path, self.client.paid({}), timeout=TIMEOUTS)
        try:
            replies = batch.finish(raise_exception=False)
        except (ValueError, KeyError, IndexError, AttributeError):
            # Not the parts that were asked for, each with its answer.
            return [False] * len(names)
        return [reply.status_code < 300 or "No such object" in reply.text for reply in replies]

    def page(self, prefix: str, *, delimiter: str | None, start: str | None, token: str | None) -> dict[str, Any]:
        """A page of the names that begin with ``prefix``, from ``start`` on, in the byte order of their UTF-8
        (https://cloud.google.com/storage/docs/json_api/v1/objects/list)."""
        query: Query = {
            "prefix": prefix or None,
            "delimiter": delimiter,
            "startOffset": start,
            "pageToken": token,
            "maxResults": _PAGE,
            "fields": f"items({_SHOWN}),prefixes,nextPageToken",
        }
        return parsed(self.client.send("GET", f"/storage/v1{self.objects}", query))

    def written(self, generation: str | None) -> dict[str, str | None]:
        """The query of a write under a condition."""
        return {"ifGenerationMatch": generation, "kmsKeyName": self.kms_key_name}

    def _path(self, name: str) -> str:
        return f"/storage/v1{self.objects}/{quote(name, safe='')}"

    def _fetched(self, reply: Any, name: str, start: int | None, length: int) -> Fetched | None:
        """What a reply holds; None where it does not say when the object was made, and that is not known any more."""
        headers = reply.headers
        body = _body(reply)
        generation, made = headers.get("X-Goog-Generation"), headers.get("Last-Modified")
        size = len(body)
        if reply.status_code == 206:
            told = headers.get("Content-Range", "").rpartition("/")[2]
            size = int(told) if told.isdecimal() else -1
        elif start is not None:
            body = body[start : start + length]
        if generation is None or size < 0:
            raise not_gcs()
        if made is not None:
            return Fetched(body, size, generation, parsedate_to_datetime(made))
        seen = self.look(name, generation)
        return None if seen is None else Fetched(body, size, generation, seen.created)

    def _check_bucket(self, error: Exception) -> None:
        """Raise a 404 again that is about the bucket. Where its words leave that open, a listing tells."""
        from google.api_core.exceptions import NotFound

        if is_no_bucket(error):
            raise error
        if not self._exists and not is_no_object(error):
            try:
                self.client.send("GET", f"/storage/v1{self.objects}", {"maxResults": 1, "fields": "nextPageToken"})
            except NotFound as missing:
                raise no_bucket(missing) from None
        self._exists = True


def crc32c(body: bytes | memoryview) -> str | None:
    """The checksum of what was sent, as Google writes it; None where computing it takes longer than sending."""
    import google_crc32c

    if google_crc32c.implementation != "c":
        return None
    view, value = memoryview(body), 0
    for start in range(0, len(view), 1 << 20):
        value = google_crc32c.extend(value, bytes(view[start : start + (1 << 20)]))
    return base64.b64encode(int(value).to_bytes(4, "big")).decode("ascii")


def _body(reply: Any) -> bytes:
    """The bytes of a reply, as they are stored. Raises where they end too early, or have another checksum."""
    from requests.exceptions import ChunkedEncodingError

    headers = reply.headers
    packed = headers.get("Content-Encoding") and headers.get("X-Goog-Stored-Content-Encoding") == "identity"
    body: bytes = reply.raw.read(decode_content=bool(packed))
    wanted = headers.get("Content-Length")
    if wanted is not None and not packed and len(body) != int(wanted):
        raise ChunkedEncodingError("the reply ended too early")
    sums = [each.strip() for each in headers.get("X-Goog-Hash", "").split(",")]
    told = next((each.removeprefix("crc32c=") for each in sums if each.startswith("crc32c=")), None)
    if reply.status_code == 200 and told is not None and crc32c(body) not in (None, told):
        raise ChunkedEncodingError("the bytes are not those whose checksum came with them")
    return body


def seen_in(item: dict[str, Any]) -> Seen:
    """An object of a listing or an answer."""
    try:
        created = parse_timestamp(item["timeCreated"])
        if created is None:
            raise not_gcs()
        return Seen(
            item["name"],
            # Servers that speak protobuf inside leave out what is 0.
            int(item.get("size", 0)),
            str(item["generation"]),
            created,
            item.get("crc32c", ""),
            item.get("storageClass", ""),
        )
    except (KeyError, TypeError, ValueError):
        raise not_gcs() from None
