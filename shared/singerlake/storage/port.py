"""What the lake asks of a storage: keys, bytes, conditions. Adapters translate their driver's errors at this edge.

Keys are relative to the lake root, separated by ``/``. Listings are in the byte order of the UTF-8 keys. Every method
may raise ``AccessDeniedError``, ``NoSuchBucketError``, ``StorageFullError``, ``StorageUnavailableError`` (nothing
changed) and, for the writing ones, ``UnknownOutcomeError`` (it may have taken effect: read back).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One object as a listing or a HEAD shows it, on storage's clock. No dataclass, as millions are sent."""

    key: str
    size: int
    last_modified: datetime
    etag: str


@dataclass(frozen=True, slots=True)
class Stored:
    """An object's whole body with the ETag that a condition on it takes."""

    body: bytes
    etag: str
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class Written:
    """A write took effect; ``etag`` is what ``if_match`` takes next."""

    etag: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A write's condition did not hold, perhaps by one's own earlier try whose reply was lost: look for one's mark."""


@dataclass(frozen=True, slots=True)
class Folder:
    """One level of a listing: the objects directly in it, and the names of the folders below, each ending in ``/``."""

    entries: tuple[Entry, ...]
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a probe proved of this storage. ``conditional_put``: it honours both if_absent and if_match, with one winner
    under a race; False where a write succeeded against its condition. ``conditional_delete``: a DELETE with a wrong
    ETag leaves the object alone. ``takes_conditions`` is False where it answers 501 to them."""

    conditional_put: bool
    conditional_delete: bool
    takes_conditions: bool = True


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first bytes of an object, and how many it has in all."""

    data: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Part:
    """The bytes [start, end) of the object at ``key``."""

    key: str
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class Storage(Protocol):
    """A place for objects."""

    @property
    def url(self) -> str:
        """The lake root as a person would write it, without credentials."""

    @property
    def near(self) -> bool:
        """Whether objects come from this machine, as far as can be told: a folder may be another machine's."""
        return False

    def capabilities(self) -> Capabilities:
        """Proved by a probe, for each endpoint and bucket in a process, again after a while. It writes and removes
        objects below ``_singerlake_probe/``: only writers may ask. Raises ``ConditionsUnprovenError``."""

    def get(self, key: str) -> Stored | None:
        """The object, or None where there is none."""

    def head(self, key: str) -> Entry | None:
        """The object's entry, or None where there is none."""

    def put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        """Write one object in one request, atomically and durably. ``if_absent`` and ``if_match`` exclude each other;
        ``if_match`` on an absent key is Refused. The body of a conditional write must be like no other (carry a nonce)
        wherever it matters whose it was: after a lost reply, only reading it back tells."""

    def upload(self, key: str, path: Path, ready: Callable[[], object] = lambda: None) -> int:
        """Copy a closed local file to a key that nobody else writes, whole or not at all, and check that storage has
        all of it; gives its size. Unconditional: data file names never clash. May take the file at ``path`` away.

        ``ready`` is called before a byte of it is sent. It may wait; what it raises ends the upload."""

    def compose(self, key: str, pieces: Sequence[bytes | Part]) -> Entry:
        """Make an object at a key that nobody else writes, of given bytes and of parts of other objects, in their
        order, whole or not at all, in bounded memory; check the size that storage reports. The storage copies by itself
        what it can. Unconditional, as ``upload``. ``MissingFileError`` where an object is not there or ends too early.

        What was composed is to be read back where it matters: a part is whatever its object holds meanwhile."""

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``start``; ``MissingFileError`` where there is no object."""

    def beginning(self, key: str, length: int) -> Beginning:
        """Up to ``length`` bytes from the beginning, and the size of the whole; ``MissingFileError`` as ``open``."""

    def bodies(self, keys: Sequence[str], most: int) -> Sequence[bytes | None]:
        """The whole of each object of at most ``most`` bytes, where reading many at once is cheaper than opening each.
        None for one that the caller has to open, also to learn what is wrong with it or its key."""
        return [None] * len(keys)

    def open(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        """A stream of the bytes [start, end) to read and close; ``MissingFileError`` where there is no object."""

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[Entry]:
        """All objects whose key begins with ``prefix`` and is greater than ``start_after``, in byte order of keys."""

    def list_folder(self, prefix: str) -> Folder:
        """One level below ``prefix`` (empty, or ending in ``/``)."""

    def unfinished(self, prefix: str) -> Iterator[tuple[str, BinaryIO]]:
        """Files below ``prefix`` that are not whole, of writers at work or left by killed ones: the name of each, and a
        stream to read and close. Only a file system has such: of an object's parts nobody can read anything."""
        return iter(())

    def delete(self, key: str, *, if_match: str | None = None) -> bool:
        """Remove an object; True where it is gone, False where ``if_match`` did not hold. An absent key is True."""

    def delete_all(self, keys: Sequence[str]) -> None:
        """Remove many objects, absent ones too, in few requests. Where it raises, others may be gone: run it again."""
