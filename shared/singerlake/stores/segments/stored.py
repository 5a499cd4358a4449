"""A state as it is stored: whole, or as a head that names segments, which are there before it; and as it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import msgspec

from singerlake.clock import random_id
from singerlake.errors import CorruptObjectError
from singerlake.format import layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode
from singerlake.format.state.files.cut import Sizes, anew, cut, is_whole
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.manifest import from_json, to_json
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Rebase, Transaction
from singerlake.storage.port import Storage
from singerlake.stores.segments.objects import SegmentObjects, checksum, to_text

SIZES = Sizes()
"""From how many files on a state has segments, and of which size."""

_AT_ONCE = 8
"""Segments of a new state that are written side by side."""
_HELD = 8
"""Segments whose files are held at once to find others that have the same: of more, all are written anew."""

_SNAPSHOT = "snapshot"


class _Naming(msgspec.Struct):
    segments: tuple[Segment, ...] = ()


def named_in(body: bytes) -> tuple[Segment, ...]:
    """The segments that a stored state names; none where it is not a state."""
    try:
        return decode(body, _Naming).segments
    except msgspec.DecodeError:
        return ()


def sizes_of(segments: SegmentObjects | None = None) -> Sizes:
    """Where a state is cut whose segments are kept there."""
    return (segments.sizes if segments is not None else None) or SIZES


def to_stored(segments: SegmentObjects, manifest: Manifest, usable: Iterable[Segment]) -> tuple[Manifest, bytes]:
    """The body that stands for ``manifest``, and the state as it has it, whose new segments are in ``segments``.

    ``usable`` are segments that the object names which the body is to replace, on its ETag, or that were written since:
    a collector leaves them alone. All others are written anew, and lost ones. Raises what storage raises.
    """
    files, sizes = manifest.files, sizes_of(segments)
    if is_whole(files, sizes):
        whole = msgspec.structs.replace(manifest, files=FileList(files)) if files.parts else manifest
        return whole, to_json(whole)
    lost = files.lost
    usable = tuple(segment for segment in usable if segment.name not in lost)
    if anew(files, usable) > _HELD * sizes.segment:
        kept = in_new_segments(segments, manifest)
        segments.name(kept.files.segments, {})
        return kept, to_json(kept)
    pieces, tail = cut(files, usable, sizes, _same)
    fresh = [piece for piece in pieces if not isinstance(piece, Segment)]
    written = segments.write(fresh)
    coming = iter(written)
    named = tuple(piece if isinstance(piece, Segment) else next(coming) for piece in pieces)
    segments.name(named, {segment.name: piece for segment, piece in zip(written, fresh, strict=True)})
    kept = msgspec.structs.replace(manifest, files=FileList(tail, parts=named, source=segments))
    return kept, to_json(kept)


def in_new_segments(segments: SegmentObjects, manifest: Manifest) -> Manifest:
    """``manifest`` with segments of its own, which are on storage then, or at hand where it is to have none. Its files
    may come from anywhere; few of them are held at a time. Raises what storage, and where they come from, raise."""
    files, sizes = manifest.files, sizes_of(segments)
    if is_whole(files, sizes):
        return msgspec.structs.replace(manifest, files=FileList(files)) if files.parts else manifest
    coming = chain.from_iterable(files.runs())
    count = len(files) // sizes.segment + (len(files) % sizes.segment > sizes.tail)
    pieces = islice(_pieces(coming, sizes.segment), count)
    written: list[Segment] = []
    while some := tuple(islice(pieces, _AT_ONCE)):
        written += segments.write(some)
    return msgspec.structs.replace(manifest, files=FileList(coming, parts=written, source=segments))


def _pieces(files: Iterator[DataFile], size: int) -> Iterator[tuple[DataFile, ...]]:
    while piece := tuple(islice(files, size)):
        yield piece


def with_source(segments: SegmentObjects, manifest: Manifest) -> Manifest:
    """A state that was read, able to read its segments."""
    if not manifest.files.parts:
        return manifest
    return msgspec.structs.replace(manifest, files=manifest.files.with_source(segments))


def names_of(storage: Storage, key: str) -> tuple[Segment, ...]:
    """The segments that the state at ``key`` names; none where there is no state. Raises what storage raises."""
    stored = storage.get(key)
    return named_in(stored.body) if stored else ()


def _same(segment: Segment, files: Sequence[DataFile]) -> bool:
    return checksum(to_text(files)) == segment.sha256


def for_log(segments: SegmentObjects, transaction: Transaction, number: int) -> tuple[Transaction, tuple[Segment, ...]]:
    """A transaction as a stream's log can take it as its ``number``, and its new segments. A new state is put beside
    the log first, so that a collector knows what the record will name. Raises as ``in_new_segments``."""
    change = transaction.change
    if not isinstance(change, Rebase):
        return transaction, ()
    state = in_new_segments(segments, change.manifest)
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
    state = with_source(segments, change.manifest)
    return msgspec.structs.replace(transaction, change=Rebase(manifest=state))


def read_manifest(body: bytes, *, key: str, storage: Storage) -> Manifest:
    """As ``from_json``. Its segments are read from ``storage`` when they are asked for."""
    manifest = from_json(body, key=key)
    if manifest.lineage is None:
        raise CorruptObjectError(
            "the manifest names no lineage", hint="restore it, or delete it and run 'singerlake rebuild'", key=key
        )
    return with_source(SegmentObjects(storage, manifest.tap, manifest.stream), manifest)


prepare_decoders(_Naming)
