"""Reading a table's Iceberg metadata: what its newest version says, and which files its snapshots name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from singerlake.errors import CorruptObjectError
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode
from singerlake.storage.port import Entry, Storage
from singerlake.tables.description import url_of
from singerlake.tables.iceberg.manifests import DELETED, FileEntry, Listed, files_in, manifests_in, without_deleted
from singerlake.tables.state.keys import ICEBERG_METADATA, table_prefix

SHOWS, NUMBER = "singerlake.id", "singerlake.number"
"""What the summary of a snapshot says of the state that it shows."""
_VERSION = re.compile(r"v([1-9]\d{0,17})\.metadata\.json\Z", re.ASCII)

_HINT = re.compile(rb"[1-9][0-9]{0,17}\s*")

Snapshot = Mapping[str, Any]


def metadata_prefix(table: str) -> str:
    """Everything of a table's metadata; ends in ``/``."""
    return f"{table_prefix(table)}{ICEBERG_METADATA}/"


def version_key(table: str, version: int) -> str:
    return f"{metadata_prefix(table)}v{version}.metadata.json"


def hint_key(table: str) -> str:
    """The object that says which version is the newest, to engines that cannot list."""
    return f"{metadata_prefix(table)}version-hint.text"


@dataclass(frozen=True, slots=True)
class Metadata:
    """The newest metadata, and its ``version``: 0 where there is none. ``body`` is None where it is not of this writer
    and this place, or cannot be read. ``is_hinted``: the hint leads to it."""

    version: int
    body: Mapping[str, Any] | None
    is_hinted: bool

    @property
    def shows(self) -> str | None:
        """The id of the state that it shows."""
        current = self.current
        return None if current is None else current["summary"][SHOWS]

    @property
    def current(self) -> Snapshot | None:
        """The snapshot that readers read."""
        return None if self.body is None else snapshot_in(self.body)


def snapshot_in(body: Mapping[str, Any]) -> Snapshot | None:
    return next((each for each in snapshots_in(body) if each["snapshot-id"] == body["current-snapshot-id"]), None)


def snapshots_in(body: Mapping[str, Any]) -> list[Snapshot]:
    """The snapshots of a body that ``read`` gave, the oldest first."""
    return [*body["snapshots"]]


def versions_in(objects: Iterable[Entry], table: str) -> dict[int, Entry]:
    """The versions of metadata among objects of the table."""
    prefix = metadata_prefix(table)
    found = ((_VERSION.match(each.key.removeprefix(prefix)), each) for each in objects if each.key.startswith(prefix))
    return {int(match[1]): each for match, each in found if match is not None}


def read(storage: Storage, table: str) -> Metadata:
    """The newest metadata of a table. Raises what storage raises."""
    # The hint is written behind each version, so that the newest is it or one that follows: a listing grows.
    hint = storage.get(hint_key(table))
    version = int(hint.body) if hint is not None and _HINT.fullmatch(hint.body) else 0
    stored = storage.get(version_key(table, version)) if version else None
    if stored is None:
        version = max(versions_in(storage.list(metadata_prefix(table)), table), default=0)
        stored = storage.get(version_key(table, version)) if version else None
    else:
        while (following := storage.get(version_key(table, version + 1))) is not None:
            version, stored = version + 1, following
    body = None if stored is None else _own(stored.body)
    is_here = body is not None and body["location"] == url_of(storage, table)
    return Metadata(version, body if is_here else None, hint is not None and hint.body == str(version).encode())


def body_of(storage: Storage, table: str, version: int) -> Mapping[str, Any] | None:
    """A version of the metadata, also of another place, since a lake may be known by several names; None where it is
    gone, cut, or of others' making."""
    stored = storage.get(version_key(table, version))
    return None if stored is None else _own(stored.body)


def _own(text: bytes) -> Mapping[str, Any] | None:
    try:
        body: dict[str, Any] = decode(text, dict[str, Any])
        kept = decode(text, _Known)
    except msgspec.DecodeError:
        return None
    current = next((each for each in kept.snapshots if each.id == kept.current), None)
    return body if kept.format == 2 and current is not None and SHOWS in current.summary else None


class _KnownSnapshot(msgspec.Struct, rename={"id": "snapshot-id", "manifest_list": "manifest-list"}):
    id: int
    manifest_list: str
    summary: dict[str, str]


class _Known(
    msgspec.Struct,
    rename={
        "format": "format-version",
        "uuid": "table-uuid",
        "current": "current-snapshot-id",
        "sequence": "last-sequence-number",
        "updated": "last-updated-ms",
        "column": "last-column-id",
        "specs": "partition-specs",
        "partition": "last-partition-id",
        "orders": "sort-orders",
        "log": "snapshot-log",
    },
):
    """What a body has to have so that it can be gone on from."""

    format: int
    uuid: str
    location: str
    current: int
    sequence: int
    updated: int
    column: int
    specs: list[dict[str, Any]]
    partition: int
    orders: list[dict[str, Any]]
    schemas: list[dict[str, Any]]
    snapshots: list[_KnownSnapshot]
    log: list[dict[str, int]]


def key_of(location: str, table: str, path: str) -> str | None:
    """The key of the object at a URL that metadata names; None where it is not the table's."""
    within = path.removeprefix(f"{location}/")
    return None if within == path or ".." in within.split("/") else table_prefix(table) + within


@dataclass(frozen=True, slots=True)
class Manifests:
    """The ``keys`` of a snapshot's manifest list and manifests, and the files that were asked for."""

    keys: frozenset[str]
    files: tuple[FileEntry, ...] = ()


def files_of(storage: Storage, table: str, location: str, snapshot: Snapshot) -> Manifests | None:
    """The files of a snapshot in metadata of that ``location``; None where one of its manifests cannot be read. Raises
    what storage raises."""
    return _of(storage, table, location, snapshot, lambda each: each.has_files, lambda each: each.status != DELETED)


def gone_with(storage: Storage, table: str, location: str, snapshot: Snapshot) -> Manifests | None:
    """The same of the files that the snapshot before it had, and it has not: those of all snapshots are the files of
    the last one, and these of each but the first."""
    return _of(storage, table, location, snapshot, lambda each: each.has_deleted, lambda each: each.status == DELETED)


def list_without_deleted(storage: Storage, table: str, location: str, snapshot: Snapshot) -> bytes:
    """The manifest list of a snapshot without the manifests of what went. Raises ``CorruptObjectError``, and what
    storage raises."""
    key, body = _body(storage, table, location, snapshot["manifest-list"])
    return without_deleted(body, key=key)


def manifests_of(storage: Storage, table: str, location: str, snapshot: Snapshot) -> Manifests | None:
    """The same without any file: only where the manifests are."""
    return _of(storage, table, location, snapshot, lambda each: False, lambda each: False)


def _of(
    storage: Storage,
    table: str,
    location: str,
    snapshot: Snapshot,
    is_wanted: Callable[[Listed], bool],
    is_meant: Callable[[FileEntry], bool],
) -> Manifests | None:
    try:
        key, body = _body(storage, table, location, snapshot["manifest-list"])
        listed = manifests_in(body, key=key)
        keys = {key, *(each for one in listed if (each := key_of(location, table, one.path)) is not None)}
        found: list[FileEntry] = []
        for one in filter(is_wanted, listed):
            at, content = _body(storage, table, location, one.path)
            found += filter(is_meant, files_in(content, key=at))
    except CorruptObjectError:
        return None
    return Manifests(frozenset(keys), tuple(found))


def _body(storage: Storage, table: str, location: str, path: str) -> tuple[str, bytes]:
    """The key and the bytes of the object at a URL that metadata of that ``location`` names."""
    key = key_of(location, table, path)
    stored = None if key is None else storage.get(key)
    if key is None or stored is None:
        raise CorruptObjectError("a manifest of Iceberg is gone", hint="run 'singerlake project run'", key=path)
    return key, stored.body


prepare_decoders(_Known, _KnownSnapshot)
