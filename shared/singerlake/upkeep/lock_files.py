"""The locks of a lake: which there are, taking one away from its holder, and removing those of dead writers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from singerlake.clock import Clock, IdSource, timestamp
from singerlake.errors import CorruptObjectError, UnknownNameError
from singerlake.format import layout
from singerlake.glance import at_a_glance
from singerlake.lock_file import LockBody, LockSettings, parse_lock
from singerlake.storage.conditional import put_on_condition
from singerlake.storage.port import Refused, Storage, Stored
from singerlake.upkeep.context import LakeContext
from singerlake.upkeep.result import FOR_PYTHON

STALE = timedelta(seconds=LockSettings().stale_after)
"""How long a lock may stay unchanged and still be a living writer's, unless writers are set otherwise."""


@dataclass(frozen=True, slots=True)
class LockFile:
    """A lock file. ``body`` is None where it cannot be read; ``changed`` is on the storage's clock."""

    key: str
    body: LockBody | None
    changed: datetime
    etag: str

    @property
    def free(self) -> bool:
        return self.body is not None and self.body.released is not None


@dataclass(frozen=True, slots=True)
class Lock:
    """The lock at ``key`` that ``writer`` holds. ``writer``, ``acquired`` and ``refreshed`` are None where it cannot be
    read. ``changed`` is the storage's time. ``unchanged_seconds`` are by this machine's clock,
    so only for the eye: writers judge a lock by whether it changes."""

    key: str
    writer: str | None
    acquired: str | None
    refreshed: str | None
    changed: datetime
    unchanged_seconds: int
    etag: str = field(metadata=FOR_PYTHON, repr=False)


@at_a_glance
@dataclass(frozen=True, slots=True)
class LocksResult:
    """The locks that writers hold."""

    lake: str
    locks: tuple[Lock, ...]


def held_locks(lake: LakeContext, tap: str | None, stream: str | None) -> LocksResult:
    """The locks of the streams that are meant, without those that were given up."""
    files = [file for pair in lake.chosen(tap, stream) for file in locks_of(lake.storage, *pair)]
    return _held(lake, files)


def held_lock(lake: LakeContext, key: str) -> LocksResult:
    """The lock at a key, none where it was given up. Raises ``UnknownNameError`` where there is none."""
    if not key.startswith(f"{layout.RAW}/") or key.rpartition("/")[2] != layout.LOCK:
        raise UnknownNameError("not the key of a lock", hint="see 'singerlake lock ls'", key=key)
    file = read_lock(lake.storage, key)
    if file is None:
        raise UnknownNameError("no lock has this key", hint="see 'singerlake lock ls'", key=key)
    return _held(lake, [file])


def _held(lake: LakeContext, files: Sequence[LockFile]) -> LocksResult:
    now = lake.clock.now()
    return LocksResult(lake.storage.url, tuple(_lock(each, now) for each in files if not each.free))


def _lock(file: LockFile, now: datetime) -> Lock:
    body = file.body
    return Lock(
        key=file.key,
        writer=body.writer_id if body else None,
        acquired=body.acquired if body else None,
        refreshed=body.refreshed if body else None,
        changed=file.changed,
        unchanged_seconds=int(max(timedelta(), now - file.changed).total_seconds()),
        etag=file.etag,
    )


def locks_of(storage: Storage, tap: str, stream: str) -> Iterator[LockFile]:
    """The lock files of one stream, released ones too. Raises what storage raises."""
    prefix = layout.stream_prefix(tap, stream)
    folders = storage.list_folder(prefix).folders
    for key in (prefix + layout.LOCK, *(f"{prefix}{folder}{layout.LOCK}" for folder in folders)):
        lock = read_lock(storage, key)
        if lock is not None:
            yield lock


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


def break_held(lake: LakeContext, lock: Lock) -> bool:
    """Break a lock as it was seen. Raises as ``break_lock``."""
    body = None
    if lock.writer is not None and lock.acquired is not None and lock.refreshed is not None:
        body = LockBody(writer_id=lock.writer, acquired=lock.acquired, refreshed=lock.refreshed, nonce="")
    return break_lock(lake.storage, LockFile(lock.key, body, lock.changed, lock.etag), clock=lake.clock, ids=lake.ids)


def break_lock(storage: Storage, held: LockFile, *, clock: Clock, ids: IdSource) -> bool:
    """Mark a lock as released, as its holder would; False where it changed since it was seen, so that it is somebody
    else's or alive. A holder that lives continues: its commits are safe without the lock. Raises as storage does."""
    now = timestamp(clock.now())
    before = held.body or LockBody(writer_id="unknown", acquired=now, refreshed=now, nonce=ids())
    gone = msgspec.structs.replace(before, released=now, nonce=ids())
    return not isinstance(put_on_condition(storage, held.key, msgspec.json.encode(gone), etag=held.etag), Refused)


def stale_locks(storage: Storage, tap: str, stream: str, *, now: datetime, grace: timedelta) -> list[LockFile]:
    """The locks of a stream that did not change for the grace time, or for as long as makes a lock stale where that is
    longer, on the storage's clock: a living writer renews its own."""
    before = now - max(grace, STALE)
    return [held for held in locks_of(storage, tap, stream) if held.body is not None and held.changed <= before]


def remove_locks(storage: Storage, locks: Sequence[LockFile]) -> list[LockFile]:
    """Remove those that are still as they were seen, and give them. None where storage does not honour the condition
    of a DELETE, since a lock might be taken meanwhile."""
    if not locks or not storage.capabilities().conditional_delete:
        return []
    return [held for held in locks if storage.delete(held.key, if_match=held.etag)]
