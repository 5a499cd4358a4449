"""Lock files that nobody needs any more: given up, or left by a writer that died, for longer than the grace time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from singerlake.maintenance.locks import LockFile, locks_of
from singerlake.maintenance.reports.runs import STALE
from singerlake.storage.port import Storage


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
