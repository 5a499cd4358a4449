"""The requests of one container of Azure Blob Storage, through azure-storage-blob."""

from __future__ import annotations

import base64
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from singerlake.errors import MissingFileError, SettingError, SingerlakeError
from singerlake.storage.arranged import arranged
from singerlake.storage.azure.client import account_url, connect
from singerlake.storage.azure.errors import AZURE_ERRORS, is_absent, is_past_end, translate
from singerlake.storage.azure.names import is_plain, to_key, to_name, to_prefix
from singerlake.storage.azure.settings import AzureSettings
from singerlake.storage.clouds.driver import Ask, Fetched, Page
from singerlake.storage.keys import ends_early
from singerlake.storage.port import Entry, Part

_GONE = (202, 404)
"""Statuses of deletions after which the blob is not there."""
_UPLOADS = 8


class AzureDriver:
    """A ``Driver`` below a prefix of a container. ``account_host`` is that of an ``abfss`` root; None: the settings
    name the account. ETags are kept without quotes. Raises ``SettingError`` where nothing names an account."""

    lists_in_order = False
    most_deleted = 256
    errors = AZURE_ERRORS

    def __init__(
        self, container: str, prefix: str, settings: AzureSettings, *, account_host: str | None = None
    ) -> None:
        if prefix and (not is_plain(prefix) or any(part in ("", ".", "..") for part in prefix.split("/"))):
            raise SettingError(
                "lake_root has a part that Azure cannot keep",
                hint="leave out backslashes, empty parts, and dots at the end of a part",
                lake_root=prefix,
            )
        self._container = container
        self._prefix = f"{prefix}/" if prefix else ""
        self._settings = settings
        self._host = account_host
        self._lock = threading.Lock()
        self._connected: Any = None
        self.place = account_url(settings, account_host) or "Azure Blob Storage"

    @property
    def url(self) -> str:
        root = f"abfss://{self._container}@{self._host}" if self._host else f"az://{self._container}"
        return f"{root}/{self._prefix}".rstrip("/")

    @property
    def identity(self) -> tuple[str, str]:
        return self.place, self._container

    def translate(self, error: Exception, **context: object) -> SingerlakeError:
        return translate(error, self._settings, **context)

    def get(self, key: str) -> Fetched | None:
        return self._download(key)

    def get_range(self, key: str, start: int, length: int) -> Fetched | None:
        return self._download(key, offset=start, length=length)

    def head(self, key: str) -> Entry | None:
        try:
            found = self._blob(key).get_blob_properties()
        except Exception as error:
            if is_absent(error):
                return None
            raise
        return Entry(key=key, size=found.size, last_modified=found.last_modified, etag=_bare(found.etag))

    def put(self, key: str, body: bytes, *, if_absent: bool, if_match: str | None) -> str:
        reply = self._blob(key).upload_blob(body, length=len(body), overwrite=not if_absent, **_under(if_match))
        return _bare(reply["etag"])

    def delete(self, key: str, *, if_match: str | None) -> None:
        try:
            self._blob(key).delete_blob(**_under(if_match))
        except Exception as error:
            if not is_absent(error):
                raise

    def delete_many(self, keys: Sequence[str]) -> Sequence[str]:
        names = [self._prefix + to_name(key) for key in keys]
        replies = list(self._client.delete_blobs(*names, raise_on_any_failure=False))
        if len(replies) != len(keys):
            return keys
        return [key for key, reply in zip(keys, replies, strict=True) if reply.status_code not in _GONE]

    def page(self, prefix: str, *, folders: bool, start_after: str, token: str | None) -> Page:
        from azure.storage.blob import BlobPrefix

        below = self._prefix + to_prefix(prefix)
        client = self._client
        # With metadata: only there a hierarchical namespace says which blobs are folders.
        also = ["metadata"]
        listing = client.walk_blobs(below, also, "/") if folders else client.list_blobs(below, also)
        pages = listing.by_page(continuation_token=token)
        items = list(next(pages, []))
        return Page(
            entries=[self._entry(item) for item in items if not isinstance(item, BlobPrefix) and not _is_folder(item)],
            folders=[self._key(item.name) for item in items if isinstance(item, BlobPrefix)],
            token=pages.continuation_token or None,
        )

    def upload(self, key: str, path: Path, size: int, ask: Ask) -> None:
        """A file of more than 64 MiB goes up in blocks, which the last request makes the blob."""

        def send() -> None:
            with path.open("rb") as file:
                self._blob(key).upload_blob(file, length=size, overwrite=True, max_concurrency=_UPLOADS)

        ask(send)

    def compose(self, key: str, pieces: Sequence[bytes | Part], ask: Ask) -> None:
        """Every part is fetched and sent as a block: a copy on the server would need a signature of the source."""
        from azure.storage.blob import BlobBlock

        blob = self._blob(key)
        blocks: list[Any] = []
        for number, part in enumerate(arranged(pieces, least=1, longest=1, copy=False)):
            sources = [part] if isinstance(part, Part) else part
            data = b"".join(piece if isinstance(piece, bytes) else self._part(piece, ask) for piece in sources)
            name = base64.b64encode(b"%08d" % number).decode()
            ask(lambda data=data, name=name: blob.stage_block(name, data, length=len(data)))  # type: ignore[misc]
            blocks.append(BlobBlock(block_id=name))
        ask(lambda: blob.commit_block_list(blocks))

    def _part(self, part: Part, ask: Ask) -> bytes:
        found = ask(lambda: self.get_range(part.key, part.start, part.size), key=part.key)
        if found is None:
            raise MissingFileError("no such object", key=part.key)
        if len(found.body) != part.size:
            raise ends_early(part)
        return found.body

    def _download(self, key: str, **span: int) -> Fetched | None:
        try:
            reply = self._blob(key).download_blob(max_concurrency=1, **span)
            body: bytes = reply.readall()
        except Exception as error:
            if is_past_end(error):
                there = self.head(key)
                return Fetched(b"", there.size, there.etag, there.last_modified) if there is not None else None
            if is_absent(error):
                return None
            raise
        found = reply.properties
        size = int(found.content_range.rpartition("/")[2]) if found.content_range else len(body)
        return Fetched(body, size, _bare(found.etag), found.last_modified)

    def _entry(self, item: Any) -> Entry:
        return Entry(key=self._key(item.name), size=item.size, last_modified=item.last_modified, etag=_bare(item.etag))

    def _key(self, name: str) -> str:
        return to_key(name[len(self._prefix) :])

    def _blob(self, key: str) -> Any:
        return self._client.get_blob_client(self._prefix + to_name(key))

    @property
    def _client(self) -> Any:
        with self._lock:
            if self._connected is None:
                self._connected = connect(self._container, self._settings, self._host)
            return self._connected


def _under(etag: str | None) -> dict[str, Any]:
    from azure.core import MatchConditions

    return {} if etag is None else {"etag": f'"{etag}"', "match_condition": MatchConditions.IfNotModified}


def _is_folder(item: Any) -> bool:
    """Whether a hierarchical namespace lists a folder as a blob, which is empty and says so in its metadata."""
    return bool((item.metadata or {}).get("hdi_isfolder"))


def _bare(etag: str) -> str:
    return etag.strip('"')
