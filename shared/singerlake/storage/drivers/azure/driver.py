"""Single requests to a container of Azure Blob Storage, by Microsoft's own library.

No object gets a Content-Encoding: clients would then unpack the gzip that is the file format. ETags are kept without
quotes: a listing gives them bare, a HEAD quoted.

Azure takes a backslash for a slash, refuses control characters and code points that are not characters, and drops dots
at the end of a name or a directory (https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata).
So each byte of what it does not keep is written as ``~XX``, and ``~`` itself as ``~7E``. The names of the lake's own
layout hold none of these, so that most lakes look as on every other storage.

A block blob has at most 50,000 blocks; one that is sent or copied by Put Block From URL has at most 4,000 MiB
(https://learn.microsoft.com/azure/storage/blobs/scalability-targets). Blocks that are never committed are nowhere to be
seen, and Azure drops them after a week (https://learn.microsoft.com/rest/api/storageservices/put-block).
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from singerlake.clock import SystemClock, random_id
from singerlake.errors import SettingError, SingerlakeError
from singerlake.interpreter.threads import threads_ahead
from singerlake.storage.cloud.compose import NotCopiedError, Sources, Together, compose
from singerlake.storage.cloud.driver import Ask, Driver, Fetched, Page, unless_absent
from singerlake.storage.drivers.azure.access import Client, connect, find_access
from singerlake.storage.drivers.azure.errors import AZURE_ERRORS, code_of, is_absent, is_past_end, meaning, translate
from singerlake.storage.drivers.azure.settings import AzureSettings
from singerlake.storage.port import Entry, Part
from singerlake.storage.streams import FilePart

_DIRECTORY = "hdi_isfolder"
"""Metadata of the directories of a hierarchical namespace, which the API for blobs shows as empty blobs
(https://learn.microsoft.com/azure/storage/blobs/data-lake-storage-known-issues). Listings show it on request alone."""
_SOURCE_LASTS = timedelta(hours=2)
"""How long the server may read a source that it copies."""

# C0, DEL and C1; bytes that are not UTF-8; private use and what is not a character, which XML cannot list either.
_UNKEPT = "\\x00-\\x1f\\x7f-\\x9f\\\\\udc80-\udcff\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff\U000f0000-\U0010ffff"
_WRITTEN = re.compile(rf"[~{_UNKEPT}]+|\.(?=/|\Z)")
_READ = re.compile(r"(?:~[0-9A-F]{2})+")
_NO_PREFIX = re.compile(rf"[{_UNKEPT}]|(?:\A|/)(?:[^/]*\.)?(?:/|\Z)")

ONE_PUT = 16 << 20
"""Bytes up to which a file is sent in one request."""
BLOCK = 16 << 20
MOST_BLOCKS = 50_000
LEAST_COPIED = 1 << 20
"""Bytes from which a part is copied by the server. A smaller one is fetched sooner, and shares a block with others."""
LONGEST_COPIED = 4000 << 20
_THREADS = 8
_UNREADABLE = "CannotVerifyCopySource"
"""The server could not read the source, with the status that the source answered it."""


class AzureDriver(Driver):
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
        found = unless_absent(is_absent, self._blob(key).get_blob_properties)
        return None if found is None or _is_directory(found) else _entry(key, found)

    def put(self, key: str, body: bytes, *, if_absent: bool, if_match: str | None) -> str:
        conditions: dict[str, Any] = {"overwrite": not if_absent, **_matching(if_match)}
        reply = self._blob(key).upload_blob(body, length=len(body), **conditions)
        return _bare(reply["etag"])

    def delete(self, key: str, *, if_match: str | None) -> None:
        unless_absent(is_absent, lambda: self._blob(key).delete_blob(**_matching(if_match)))

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
        reply = unless_absent(is_absent, lambda: self._blob(key).download_blob(**part))
        if reply is None or _is_directory(found := reply.properties):
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


def name_of(key: str) -> str:
    """The name that a key is stored under."""
    return _WRITTEN.sub(
        lambda found: "".join(f"~{byte:02X}" for byte in found[0].encode("utf-8", "surrogateescape")), key
    )


def key_of(name: str) -> str | None:
    """The key that is stored under a name; None for a name that no key has: somebody else wrote it."""
    key = _READ.sub(lambda found: bytes.fromhex(found[0].replace("~", "")).decode("utf-8", "surrogateescape"), name)
    return key if name_of(key) == name else None


def begins(prefix: str) -> str:
    """What the names of all keys with this prefix begin with. A last dot ends a segment in some of them only."""
    return name_of(prefix.rstrip(".")) if prefix.endswith(".") else name_of(prefix)


def checked_root(prefix: str) -> str:
    """The lake's own prefix, with a slash behind it. Raises ``SettingError`` where Azure would change the name."""
    if not prefix:
        return ""
    if _NO_PREFIX.search(prefix):
        raise SettingError(
            "lake_root has a part that Azure does not keep as it is",
            hint="take out empty parts, dots at the end of a part, backslashes and control characters",
            lake_root=prefix,
        )
    return f"{prefix}/"


@dataclass(frozen=True)
class Source:
    """Where the server reads an object that it copies, and what it shows there."""

    url: str
    authorization: str | None


def block_length(size: int) -> int:
    """How long the blocks of a file of ``size`` bytes are, except for the last."""
    return max(BLOCK, -(-size // MOST_BLOCKS))


def upload_blocks(blob: Any, path: Path, size: int, ask: Ask) -> None:
    """Send a file of ``size`` bytes in blocks, several at once."""
    length = block_length(size)
    starts = range(0, size, length)

    def stage(number: int, name: str) -> None:
        start = starts[number]
        ask(lambda: _stage_part(blob, name, path, start, min(length, size - start)))

    _in_blocks(blob, len(starts), stage, ask)


def _stage_part(blob: Any, name: str, path: Path, start: int, length: int) -> None:
    with FilePart(path, start, start + length) as part:
        blob.stage_block(name, part, length=length)


@dataclass(frozen=True)
class Composer:
    """Makes objects of others. ``source`` gives where the server can read an object by itself."""

    objects: Driver
    blob: Callable[[str], Any]
    source: Callable[[str], Source]

    def compose(self, key: str, pieces: Sequence[bytes | Part], ask: Ask) -> None:
        """Make the object; all is fetched and sent where the server refuses to copy. Raises ``MissingFileError``."""
        sources = Sources(self.objects, ask)
        total = sum(len(piece) if isinstance(piece, bytes) else piece.size for piece in pieces)
        share = 2 * total // MOST_BLOCKS

        def put(body: bytes) -> None:
            ask(lambda: self.objects.put(key, body, if_absent=False, if_match=None))

        def in_blocks(parts: Sequence[Part | Together], pool: ThreadPoolExecutor) -> None:
            # Of a source that ends too early the server may copy less.
            copied = sorted((part for part in parts if isinstance(part, Part)), key=lambda part: part.end)
            last = {part.key: part for part in copied}
            list(pool.map(sources.check, last.values()))
            blob = self.blob(key)

            def stage(number: int, name: str) -> None:
                part = parts[number]
                if isinstance(part, Part):
                    ask(lambda: self._copy(blob, name, part))
                else:
                    body = sources.fetched(part, pool)
                    ask(lambda: blob.stage_block(name, body, length=len(body)))

            _in_blocks(blob, len(parts), stage, ask)

        compose(
            pieces,
            sources,
            put=put,
            in_parts=in_blocks,
            least=max(LEAST_COPIED, share),
            longest=LONGEST_COPIED,
            sent=max(BLOCK, share),
        )

    def _copy(self, blob: Any, name: str, part: Part) -> None:
        try:
            source = self.source(part.key)
            blob.stage_block_from_url(
                name,
                source.url,
                source_offset=part.start,
                source_length=part.size,
                source_authorization=source.authorization,
            )
        except Exception as error:
            if meaning(error).may_pass and code_of(error) != _UNREADABLE:
                raise
            # A firewall may keep the server from its own source, and Azurite knows no such copies.
            raise NotCopiedError from error


def _in_blocks(blob: Any, count: int, stage: Callable[[int, str], None], ask: Ask) -> None:
    """Stage blocks by number and name, and make an object of them. Names are of one length, and of this try alone."""
    from azure.storage.blob import BlobBlock

    nonce = random_id()
    names = [f"{nonce}-{number:05d}" for number in range(count)]
    with threads_ahead(_THREADS, "singerlake-blocks") as pool:
        for _ in pool.map(stage, range(count), names):
            pass
    # "Latest", which finds blocks that an earlier try has committed, too.
    ask(partial(blob.commit_block_list, [BlobBlock(name) for name in names]))
