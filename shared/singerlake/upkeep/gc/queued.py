"""What queued transactions left beside a stream's data: large ones, and refusals, whose writers died."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from singerlake.format import layout
from singerlake.storage.port import Storage


def collect_queued(
    storage: Storage, tap: str, stream: str, *, time: Callable[[], datetime], grace: timedelta, delete: bool
) -> tuple[str, ...]:
    """Delete what is older than the grace time, or only say what it is; gives the keys. A writer waits for minutes at
    most, and takes what is gone for a reason to commit by itself. ``time`` asks the storage's clock. Raises what
    storage and ``time`` raise."""
    prefix = layout.queue_prefix(tap, stream)
    there = [entry for entry in storage.list(prefix) if layout.queued_id_in(entry.key[len(prefix) :]) is not None]
    if not there:
        return ()
    old = time() - grace
    keys = tuple(entry.key for entry in there if entry.last_modified <= old)
    if delete and keys:
        storage.delete_all(keys)
    return keys
