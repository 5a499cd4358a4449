"""Single requests to a container of Azure Blob Storage, by Microsoft's own library.

No object gets a Content-Encoding: clients would then unpack the gzip that is the file format. ETags are kept without
quotes: a listing gives them bare, a HEAD quoted.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from singerlake.clock import SystemClock
from singerlake.errors import SingerlakeError
from singerlake.storage.cloud.driver import Ask, Fetched, Page
from singerlake.storage.drivers.azure.access import find_access
from singerlake.storage.drivers.azure.blocks import ONE_PUT, Composer, Source, upload_blocks
from singerlake.storage.drivers.azure.client import Client, connect
from singerlake.storage.drivers.azure.errors import AZURE_ERRORS, is_absent, is_past_end, translate
from singerlake.storage.drivers.azure.names import begins, checked_root, key_of, name_of
from singerlake.storage.drivers.azure.settings import AzureSettings
from singerlake.storage.port import Entry, Part

_DIRECTORY = "hdi_isfolder"
"""Metadata of the directories of a hierarchical namespace, which the API for blobs shows as empty blobs
(https://learn.microsoft.com/azure/storage/blobs/data-lake-storage-known-issues). Listings show it on request alone."""
_SOURCE_LASTS = timedelta(hours=2)
"""How long the server may read a source that it copies."""


class AzureDriver:
    """A ``Driver`` below a prefix of a container. ``account_host`` is that of an ``abfss://`` root; None: the settings
    or the environment name the account. Raises ``SettingError`` where nothing does, or they contradict each other."""

    errors = AZURE_ERRORS
    lists_in_order = False
    """A hierarchical namespace has an order of its own, and names are not keys."""
    most_deleted = 256
    """https://learn.microsoft.com/rest/api/storageservices/blob-batch"""

    def __init__(
        self, container: str, prefix: str, settings: AzureSettings, *, account_host: str | None = None
    ) -> None:
        self._container = container
        self._prefix = checked_root(prefix)
        self._account_host = account_host
        self._access = find_access(settings, account_host, os.environ)
        self._lock = threading.Lock()
        self._connected: Client | None = None

    @property
    def url(self) -> str:
        place = f"abfss://{self._container}@{self._account_host}" if self._account_host else f"az://{self._container}"
        return f"{place}/{self._prefix}".rstrip("/")

    @property
    def place(self) -> str:
        return self._access.endpoint

    @property
    def identity(self) -> tuple[str, str]:
        return self._access.endpoint, self._container

    def translate(self, error: Exception, **context: object) -> SingerlakeError:
        access = self._access
        has_expired = access.has_expired(SystemClock().now())
        return translate(error, access.secrets(), sas_from=access.sas_from, has_expired=has_expired, **context)

    def get(self, key: str) -> Fetched | None:
        return self._fetched(key)

    def get_range(self, key: str, start: int, length: int) -> Fetched | None:
        try:
            return self._fetched(key, offset=start, length=length)
        except Exception as error:
            if not is_past_end(error):
                raise
        entry = self.head(key)
        return Fetched(b"", entry.size, entry.etag, entry.last_modified) if entry is not None else None

    def head(self, key: str) -> Entry | None:
        try:
            found = self._blob(key).get_blob_properties()
        except Exception as error:
            if is_absent(error):
                return None
            raise
        return None if _is_directory(found) else _entry(key, found)

    def put(self, key: str, body: bytes, *, if_absent: bool, if_match: str | None) -> str:
        conditions: dict[str, Any] = {"overwrite": not if_absent, **_matching(if_match)}
        reply = self._blob(key).upload_blob(body, length=len(body), **conditions)
        return _bare(reply["etag"])

    def delete(self, key: str, *, if_match: str | None) -> None:
        try:
            self._blob(key).delete_blob(**_matching(if_match))
        except Exception as error:
            if not is_absent(error):
                raise

    def delete_many(self, keys: Sequence[str]) -> Sequence[str]:
        if not keys:
            return ()
        names = [self._prefix + name_of(key) for key in keys]
        replies = list(self._client.container.delete_blobs(*names, raise_on_any_failure=False))
        gone = len(replies) == len(keys) and all(_is_gone(reply) for reply in replies)
        # Which reply is whose is not asked: one by one, those that are gone are gone none the less.
        return () if gone else keys

    def page(self, prefix: str, *, folders: bool, start_after: str, token: str | None) -> Page:
        container = self._client.container
        asked: dict[str, Any] = {
            "name_starts_with": self._prefix + begins(prefix),
            "include": ["metadata"],
        }
        listing = container.walk_blobs(**asked, delimiter="/") if folders else container.list_blobs(**asked)
        pages = listing.by_page(continuation_token=token)
        entries: list[Entry] = []
        below: list[str] = []
        for item in next(pages, ()):
            key = key_of(item.name[len(self._prefix) :])
            if key is None or not key.startswith(prefix):
                continue
            if "etag" not in item or item["etag"] is None:
                below.append(key)
            elif not _is_directory(item):
                entries.append(_entry(key, item))
        return Page(entries, below, pages.continuation_token or None)

    def stream(self, key: str, start: int, ask: Ask) -> None:
        return None

    def upload(self, key: str, path: Path, size: int, ask: Ask, ready: Callable[[], object]) -> bool:
        ready()
        if size <= ONE_PUT:
            ask(lambda: self.put(key, path.read_bytes(), if_absent=False, if_match=None))
        else:
            upload_blocks(self._blob(key), path, size, ask)
        return False

    def compose(self, key: str, pieces: Sequence[bytes | Part], ask: Ask) -> None:
        Composer(self, self._blob, self._source).compose(key, pieces, ask)

    @property
    def _client(self) -> Client:
        with self._lock:
            if self._connected is None:
                self._connected = connect(self._access, self._container)
            return self._connected

    def _blob(self, key: str) -> Any:
        return self._client.container.get_blob_client(self._prefix + name_of(key))

    def _fetched(self, key: str, **part: int) -> Fetched | None:
        try:
            reply = self._blob(key).download_blob(**part)
        except Exception as error:
            if is_absent(error):
                return None
            raise
        found = reply.properties
        if _is_directory(found):
            return None
        size = int(str(found.content_range).rpartition("/")[2])
        return Fetched(reply.readall(), size, _bare(found.etag), found.last_modified)

    def _source(self, key: str) -> Source:
        """How the server reads an object that it copies by itself, as
        https://learn.microsoft.com/rest/api/storageservices/put-block-from-url asks for."""
        client, access = self._client, self._access
        blob = self._blob(key)
        if client.token is not None:
            return Source(blob.url, f"Bearer {client.token()}")
        if access.key is None:
            return Source(f"{blob.url}?{access.sas}", None)
        from azure.storage.blob import BlobSasPermissions, generate_blob_sas

        signed = generate_blob_sas(
            access.account,
            self._container,
            blob.blob_name,
            account_key=access.key,
            permission=BlobSasPermissions(read=True),
            expiry=SystemClock().now() + _SOURCE_LASTS,
        )
        return Source(f"{blob.url}?{signed}", None)


def _matching(etag: str | None) -> dict[str, Any]:
    if etag is None:
        return {}
    from azure.core import MatchConditions

    return {"etag": f'"{etag}"', "match_condition": MatchConditions.IfNotModified}


def _entry(key: str, found: Any) -> Entry:
    return Entry(key=key, size=found.size, last_modified=found.last_modified, etag=_bare(found.etag))


def _is_directory(found: Any) -> bool:
    """Names of metadata are compared without their case."""
    return any(name.lower() == _DIRECTORY and value == "true" for name, value in (found.metadata or {}).items())


def _is_gone(reply: Any) -> bool:
    return bool(reply.status_code == 202 or reply.headers.get("x-ms-error-code") == "BlobNotFound")


def _bare(etag: str) -> str:
    return etag.removeprefix("W/").strip('"')
