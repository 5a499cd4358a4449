"""The locks of a lake: which there are, and taking one away from its holder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import msgspec

from singerlake.clock import Clock, IdSource, timestamp
from singerlake.errors import CorruptObjectError
from singerlake.format import layout
from singerlake.lock import LockBody, parse_lock
from singerlake.storage.conditional import put_on_condition
from singerlake.storage.port import Refused, Storage, Stored


@dataclass(frozen=True, slots=True)
class LockFile:
    """A lock file. ``body`` is None where it cannot be read; ``changed`` is on the storage's clock."""

    key: str
    body: LockBody | None
    changed: datetime
    etag: str

    @property
    def free(self) -> bool:
        """Whether its holder gave it up."""
        return self.body is not None and self.body.released is not None


def locks_of(storage: Storage, tap: str, stream: str) -> Iterator[LockFile]:
    """The lock files of one stream, released ones too. Raises what storage raises."""
    prefix = layout.stream_prefix(tap, stream)
    folders = storage.list_folder(prefix).folders
    for key in (prefix + layout.LOCK, *(f"{prefix}{folder}{layout.LOCK}" for folder in folders)):
        found = read_lock(storage, key)
        if found is not None:
            yield found


def read_lock(storage: Storage, key: str) -> LockFile | None:
    """The lock file at a key, None where there is none. Raises what storage raises."""
    stored = storage.get(key)
    return None if stored is None else _lock_file(key, stored)


def _lock_file(key: str, stored: Stored) -> LockFile:
    try:
        body = parse_lock(stored.body, key=key)
    except CorruptObjectError:
        body = None
    return LockFile(key, body, stored.last_modified, stored.etag)


def break_lock(storage: Storage, held: LockFile, *, clock: Clock, ids: IdSource) -> bool:
    """Mark a lock as released, as its holder would; False where it changed since it was seen, so that it is somebody
    else's or alive. The holder, if it lives, goes on: its commits are safe without the lock. Raises what storage
    raises."""
    now = timestamp(clock.now())
    before = held.body or LockBody(writer_id="unknown", acquired=now, refreshed=now, nonce=ids())
    gone = msgspec.structs.replace(before, released=now, nonce=ids())
    return not isinstance(put_on_condition(storage, held.key, msgspec.json.encode(gone), etag=held.etag), Refused)
