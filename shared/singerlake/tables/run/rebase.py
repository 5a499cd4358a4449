"""Whether a run's finished files can be published behind writes that came before it. Others than collectors make a run
begin again, but for a table that was made anew: it replaces what they wrote."""

from __future__ import annotations

from collections.abc import Collection

from singerlake.clock import parse_timestamp
from singerlake.storage.port import Storage
from singerlake.tables.state.commit import Found
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import COLLECT, REBUILD, TableState


def may_rebase(storage: Storage, made: TableState, paths: Collection[str], base: TableState, now: Found) -> bool:
    """Whether ``made`` from ``base``, with new files at ``paths``, can be published behind ``now``: only collectors
    wrote meanwhile, or it needs nothing of what they wrote; and no collector deletes a file of it.

    Raises what storage raises.
    """
    since = now.state.since(base.id)
    if since is None:
        return False
    if any(each.kind != COLLECT for each in since) and not _replaces(made, now.state):
        return False
    collected = [each.before for each in since if each.kind == COLLECT]
    if not collected:
        return True
    prefix = table_prefix(now.state.table)
    keys = {prefix + path for path in paths}
    ages = {entry.key: entry.last_modified for entry in storage.list(prefix) if entry.key in keys}
    ends = [parse_timestamp(before or "") for before in collected]
    oldest = min(ages.values(), default=None)
    return len(ages) == len(keys) and all(end is not None and (oldest is None or oldest > end) for end in ends)


def _replaces(made: TableState, now: TableState) -> bool:
    """Whether the table was made anew from the stream that it is of now, and holds nothing that was erased by then."""
    if made.runs[-1].kind != REBUILD or not now.sources:
        return False
    mine, other = made.sources[0], now.sources[0]
    return mine.lineage == other.lineage and mine.knows_holes_of(other)
