"""A whole new state of many files, as a rebuild and a migration make it: its segments are on storage before a log is to
hold it, and a snapshot beside the log names them for as long."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

import msgspec

from singerlake.clock import random_id
from singerlake.format import layout
from singerlake.format.state.files.cut import is_whole
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.manifest import head_of, to_json
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Rebase, Transaction
from singerlake.manifests.segments import stored
from singerlake.manifests.segments.copies import SegmentCopies
from singerlake.manifests.segments.objects import SegmentObjects
from singerlake.storage.port import Storage

_AT_ONCE = 8
_SNAPSHOT = "snapshot"


def in_new_segments(storage: Storage, manifest: Manifest, copies: SegmentCopies | None = None) -> Manifest:
    """``manifest`` with segments of its own, which are on storage then, or at hand where it is to have none. Its files
    may come from anywhere; few of them are held at a time. ``copies`` says where it is cut, and gets nothing before
    the state is published. Raises what storage, and where they come from, raise."""
    files, sizes = manifest.files, stored.sizes_of(copies)
    if is_whole(files, sizes):
        return msgspec.structs.replace(manifest, files=FileList(files)) if files.parts else manifest
    objects = SegmentObjects(storage, manifest.tap, manifest.stream, copies)
    coming = chain.from_iterable(files.runs())
    count = len(files) // sizes.segment + (len(files) % sizes.segment > sizes.tail)
    pieces = islice(_pieces(coming, sizes.segment), count)
    segments: list[Segment] = []
    while some := tuple(islice(pieces, _AT_ONCE)):
        segments += objects.write(some)
    return msgspec.structs.replace(manifest, files=FileList(coming, parts=segments, source=objects))


def _pieces(files: Iterator[DataFile], size: int) -> Iterator[tuple[DataFile, ...]]:
    while piece := tuple(islice(files, size)):
        yield piece


def for_log(
    storage: Storage, transaction: Transaction, number: int, copies: SegmentCopies | None = None
) -> tuple[Transaction, tuple[Segment, ...]]:
    """A transaction as the log of a stream can take it as its ``number``, and the segments that were written for it.
    A new state is put beside the log first, under a name that no reader begins at: so a collector knows what the
    record is about to name. Raises as ``in_new_segments``."""
    change = transaction.change
    if not isinstance(change, Rebase):
        return transaction, ()
    state = in_new_segments(storage, change.manifest, copies)
    fresh = state.files.segments
    if fresh:
        name = layout.log_own_name(number, random_id(), _SNAPSHOT)
        storage.put(layout.log_prefix(state.tap, state.stream) + name, to_json(head_of(state)))
    return msgspec.structs.replace(transaction, change=Rebase(manifest=state)), fresh


def opened(storage: Storage, transaction: Transaction, copies: SegmentCopies | None = None) -> Transaction:
    """A transaction that was read from a log, whose state can read its segments."""
    change = transaction.change
    if not isinstance(change, Rebase) or not change.manifest.files.parts:
        return transaction
    state = stored.with_source(storage, change.manifest, copies)
    return msgspec.structs.replace(transaction, change=Rebase(manifest=state))
