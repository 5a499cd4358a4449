"""What a table's Delta log keeps from being deleted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from singerlake.storage.port import Entry, Storage
from singerlake.tables.delta.commit import path_of
from singerlake.tables.delta.log import Listing, listed, log_prefix, read
from singerlake.tables.delta.publish import has_log
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import TableState


def kept(storage: Storage, state: TableState, objects: Sequence[Entry], *, now: datetime, grace: timedelta) -> set[str]:
    """Keys of a table's ``objects`` that have to stay for readers of its Delta log: what it names or named in the last
    ``grace``, and the log from the newest checkpoint on that is as old. A log that goes with no table any more is kept
    or left as a whole. Raises ``CorruptObjectError``, and what storage raises."""
    before = now - grace
    prefix = log_prefix(state.table)
    own = [entry for entry in objects if entry.key.startswith(prefix)]
    keys = {entry.key for entry in own}
    if not has_log(state):
        return keys if any(entry.last_modified > before for entry in own) else set()
    log = read(storage, state.table)
    removed = {path for path, each in log.removed.items() if each.get("deletionTimestamp", 0) > _milliseconds(before)}
    files = {table_prefix(state.table) + path_of(path) for path in log.added.keys() | removed}
    return (keys - _expired(listed(own), before)) | files


def _expired(listing: Listing, before: datetime) -> set[str]:
    """The log before the newest checkpoint of that age."""
    first = max((version for version, each in listing.checkpoints.items() if each.last_modified <= before), default=0)
    return {
        entry.key
        for known in (listing.commits, listing.checkpoints)
        for version, entry in known.items()
        if version < first
    }


def _milliseconds(moment: datetime) -> float:
    return moment.timestamp() * 1000
