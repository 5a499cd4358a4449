"""The requests of a lake in a bucket of Google Cloud Storage, for ``CloudStorage``.

google-cloud-storage gives credentials, sessions and batches. The ETag of the port is an object's generation. No object
gets a Content-Encoding: clients, and Google itself, would then unpack the gzip that is the file format.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from singerlake.clock import IdSource, random_id
from singerlake.errors import CorruptObjectError, NameTooLongError, SettingError, SingerlakeError
from singerlake.storage.cloud.compose import Sources
from singerlake.storage.cloud.driver import Ask, Driver, Fetched, Page
from singerlake.storage.drivers.gcs.bucket import MOST_IN_BATCH, Bucket, Seen, crc32c, seen_in
from singerlake.storage.drivers.gcs.client import Client
from singerlake.storage.drivers.gcs.errors import GCS_ERRORS, translate
from singerlake.storage.drivers.gcs.settings import GcsSettings, endpoint_of
from singerlake.storage.drivers.gcs.upload import BLOCK, LONG, Composer, send_blocks, send_whole
from singerlake.storage.keys import root_prefix
from singerlake.storage.port import Entry, Part

_LONGEST_NAME = 1024
"""Bytes (https://cloud.google.com/storage/docs/objects#naming)."""
_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
"""https://cloud.google.com/storage/docs/buckets#naming."""


class GcsDriver(Driver):
    """A ``Driver`` below a prefix of a bucket. ``prefix`` has no slash at either end."""

    errors = GCS_ERRORS
    lists_in_order = True
    most_deleted = MOST_IN_BATCH

    def __init__(self, bucket: str, prefix: str, settings: GcsSettings, ids: IdSource = random_id) -> None:
        if not _BUCKET_NAME.fullmatch(bucket):
            raise SettingError("that is not a bucket name", hint="check lake_root", bucket=bucket)
        self._name = bucket
        self._prefix = root_prefix(prefix)
        self._settings = settings
        self._ids = ids
        self._endpoint = endpoint_of(settings)
        self._bucket = Bucket(bucket, Client(settings), ids, kms_key_name=settings.kms_key_name)

    @property
    def url(self) -> str:
        return f"gs://{self._name}/{self._prefix}".rstrip("/")

    @property
    def place(self) -> str:
        return self._endpoint or "Google Cloud Storage"

    @property
    def identity(self) -> tuple[str, str]:
        return self._endpoint or "", self._name

    def translate(self, error: Exception, **context: object) -> SingerlakeError:
        return translate(error, self._settings, **context)

    def get(self, key: str) -> Fetched | None:
        return self._bucket.fetch(self._full(key))

    def get_range(self, key: str, start: int, length: int) -> Fetched | None:
        return self._bucket.fetch(self._full(key), start, length)

    def head(self, key: str) -> Entry | None:
        seen = self._bucket.look(self._full(key))
        return None if seen is None else self._entry(seen)

    def put(self, key: str, body: bytes, *, if_absent: bool, if_match: str | None) -> str:
        made = self._bucket.put(self._full(key), body, generation="0" if if_absent else if_match)
        return str(made["generation"])

    def delete(self, key: str, *, if_match: str | None) -> None:
        self._bucket.delete(self._full(key), generation=if_match)

    def delete_many(self, keys: Sequence[str]) -> Sequence[str]:
        gone = self._bucket.delete_many([self._full(key) for key in keys])
        return [key for key, is_gone in zip(keys, gone, strict=True) if not is_gone]

    def page(self, prefix: str, *, folders: bool, start_after: str, token: str | None) -> Page:
        start = self._full(start_after) if start_after else None
        found = self._bucket.page(
            self._checked(self._prefix + prefix), delimiter="/" if folders else None, start=start, token=token
        )
        cut = len(self._prefix)
        entries = [self._entry(seen_in(item)) for item in found.get("items", ())]
        return Page(entries, [name[cut:] for name in found.get("prefixes", ())], found.get("nextPageToken"))

    def upload(self, key: str, path: Path, size: int, ask: Ask, ready: Callable[[], object]) -> bool:
        ready()
        name = self._full(key)
        if size == 0:
            send_whole(self._bucket, name, b"", crc32c(b""), ask)
            return False
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        self._send(name, mapped, ask)
        # An error that was waited for may still refer to some bytes; they are let go with it.
        with suppress(BufferError):
            mapped.close()
        return False

    def compose(self, key: str, pieces: Sequence[bytes | Part], ask: Ask) -> None:
        Composer(self._bucket, self._prefix, self._full, self._ids, Sources(self, ask)).compose(key, pieces)

    def _send(self, name: str, mapped: mmap.mmap, ask: Ask) -> None:
        body = memoryview(mapped)
        checksum = crc32c(body)
        if len(body) < LONG:
            send_whole(self._bucket, name, body, checksum, ask)
            return
        slices = [body[start : start + BLOCK] for start in range(0, len(body), BLOCK)]
        send_blocks(self._bucket, name, len(body), checksum, lambda: slices, ask)

    def _full(self, key: str) -> str:
        return self._checked(self._prefix + key)

    def _checked(self, name: str) -> str:
        """A name that Google takes, by length and characters. Raises ``NameTooLongError``, ``CorruptObjectError``."""
        try:
            length = len(name.encode())
        except UnicodeEncodeError:
            length = -1
        if length < 0 or "\n" in name or "\r" in name:
            raise CorruptObjectError(
                "no object of Google Cloud Storage can have this key",
                hint="find out where this name comes from, and correct it there",
                key=name,
            )
        if length > _LONGEST_NAME:
            raise NameTooLongError(
                "a name is too long for Google Cloud Storage",
                hint="shorten the tap id, the stream name or lake_root",
                key=name,
            )
        return name

    def _entry(self, seen: Seen) -> Entry:
        return Entry(
            key=seen.name[len(self._prefix) :], size=seen.size, last_modified=seen.created, etag=seen.generation
        )
