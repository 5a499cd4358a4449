"""A state as it is stored: whole, or as a head that names segments, which are there before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import msgspec

from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode
from singerlake.format.state.files.cut import Sizes, anew, cut, is_whole
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.manifest import head_of, to_json
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Storage
from singerlake.stores.segments.copies import SegmentCopies
from singerlake.stores.segments.objects import SegmentObjects, checksum, to_text

SIZES = Sizes()
"""From how many files on a state has segments, and of which size."""


_AT_ONCE = 8
"""Segments of a new state that are written side by side."""
_HELD = 8
"""Segments whose files are held at once to find others that have the same: of more, all are written anew."""


class _Naming(msgspec.Struct):
    segments: tuple[Segment, ...] = ()


def named_in(body: bytes) -> tuple[Segment, ...]:
    """The segments that a stored state names; none where it is no state."""
    try:
        return decode(body, _Naming).segments
    except msgspec.DecodeError:
        return ()


def sizes_of(copies: SegmentCopies | None) -> Sizes:
    """Where a state is cut whose segments have these copies."""
    return (copies.sizes if copies is not None else None) or SIZES


def to_stored(
    storage: Storage, manifest: Manifest, usable: Iterable[Segment], copies: SegmentCopies | None = None
) -> tuple[Manifest, bytes]:
    """The body that stands for ``manifest``, and the state as that body has it; its new segments are stored by then,
    and ``copies`` has them.

    ``usable`` are segments that the object names which the body is to replace, on its ETag, or that were written since
    it was read: a collector leaves them alone. All others are written anew, and so are those that ``manifest`` knows
    to be lost. Raises what storage raises.
    """
    files, sizes = manifest.files, sizes_of(copies)
    if is_whole(files, sizes):
        whole = msgspec.structs.replace(manifest, files=FileList(files)) if files.parts else manifest
        return whole, to_json(whole)
    lost = files.lost
    usable = tuple(segment for segment in usable if segment.name not in lost)
    if anew(files, usable) > _HELD * sizes.segment:
        kept = in_new_segments(storage, manifest, copies)
        if copies is not None:
            copies.keep(kept.files.segments, SegmentObjects(storage, manifest.tap, manifest.stream).load)
        return kept, to_json(head_of(kept))
    objects = SegmentObjects(storage, manifest.tap, manifest.stream, copies)
    pieces, tail = cut(files, usable, sizes, _same)
    fresh = [piece for piece in pieces if not isinstance(piece, Segment)]
    written = objects.write(fresh)
    coming = iter(written)
    segments = tuple(piece if isinstance(piece, Segment) else next(coming) for piece in pieces)
    if copies is not None:
        at_hand = {segment.name: piece for segment, piece in zip(written, fresh, strict=True)}
        stored = SegmentObjects(storage, manifest.tap, manifest.stream)
        copies.keep(segments, lambda segment: at_hand.get(segment.name) or stored.load(segment))
    kept = msgspec.structs.replace(manifest, files=FileList(tail, parts=segments, source=objects))
    return kept, to_json(head_of(kept))


def in_new_segments(storage: Storage, manifest: Manifest, copies: SegmentCopies | None = None) -> Manifest:
    """``manifest`` with segments of its own, which are on storage then, or at hand where it is to have none. Its files
    may come from anywhere; few of them are held at a time. ``copies`` says where it is cut, and gets nothing before
    the state is published. Raises what storage, and where they come from, raise."""
    files, sizes = manifest.files, sizes_of(copies)
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


def with_source(storage: Storage, manifest: Manifest, copies: SegmentCopies | None = None) -> Manifest:
    """A state that was read, able to read its segments."""
    if not manifest.files.parts:
        return manifest
    source = SegmentObjects(storage, manifest.tap, manifest.stream, copies)
    return msgspec.structs.replace(manifest, files=manifest.files.with_source(source))


def names_of(storage: Storage, key: str) -> tuple[Segment, ...]:
    """The segments that the state at ``key`` names; none where there is no state. Raises what storage raises."""
    stored = storage.get(key)
    return named_in(stored.body) if stored else ()


def _same(segment: Segment, files: Sequence[DataFile]) -> bool:
    return checksum(to_text(files)) == segment.sha256


prepare_decoders(_Naming)
