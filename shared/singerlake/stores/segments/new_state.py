"""A whole new state of many files, as a rebuild and a migration make it: its segments are on storage before a log is to
hold it, and a snapshot beside the log names them for as long."""

from __future__ import annotations

import msgspec

from singerlake.clock import random_id
from singerlake.format import layout
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.manifest import to_json
from singerlake.format.state.transactions import Rebase, Transaction
from singerlake.stores.segments import stored
from singerlake.stores.segments.objects import SegmentObjects

_SNAPSHOT = "snapshot"


def for_log(segments: SegmentObjects, transaction: Transaction, number: int) -> tuple[Transaction, tuple[Segment, ...]]:
    """A transaction as the log of a stream can take it as its ``number``, and the segments that were written for it.
    A new state is put beside the log first, under a name that no reader begins at: so a collector knows what the
    record is about to name. Raises as ``in_new_segments``."""
    change = transaction.change
    if not isinstance(change, Rebase):
        return transaction, ()
    state = stored.in_new_segments(segments, change.manifest)
    fresh = state.files.segments
    if fresh:
        name = layout.log_own_name(number, random_id(), _SNAPSHOT)
        segments.storage.put(layout.log_prefix(state.tap, state.stream) + name, to_json(state))
    return msgspec.structs.replace(transaction, change=Rebase(manifest=state)), fresh


def opened(segments: SegmentObjects, transaction: Transaction) -> Transaction:
    """A transaction that was read from a log, whose state can read its segments."""
    change = transaction.change
    if not isinstance(change, Rebase) or not change.manifest.files.parts:
        return transaction
    state = stored.with_source(segments, change.manifest)
    return msgspec.structs.replace(transaction, change=Rebase(manifest=state))
