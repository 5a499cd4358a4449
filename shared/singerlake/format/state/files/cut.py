"""Where a long list of files is cut into segments: pure planning, which reuses the segments that are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.files.segment import Segment

Files = Sequence[DataFile]
Piece = Segment | Files
"""A segment that is there, or files that become one."""
Same = Callable[[Segment, Files], bool]
"""Whether a segment has these files, of which the first offset, the last and the number are right."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """``whole``: files that a state keeps itself; of more, ``segment`` are in each, but for a ``tail``."""

    whole: int = 20_000
    segment: int = 5_000
    tail: int = 500


def is_whole(files: FileList, sizes: Sizes) -> bool:
    """Whether a list has no segments. One that has some keeps them until half of ``whole`` is left."""
    return len(files) <= (sizes.whole // 2 if files.segments else sizes.whole)


def cut(files: FileList, usable: Iterable[Segment], sizes: Sizes, same: Same) -> tuple[list[Piece], Files]:
    """The pieces of ``files``, and those at their end that are in none. Only ``usable`` segments stay; another gives
    way to a usable one with the same content. The last one grows until it is full; small ones are joined."""
    known = {segment.name: segment for segment in usable}
    offsets = {segment.offset: segment for segment in known.values()}
    pieces: list[Piece] = []
    for region in _regions(files, known, offsets):
        if isinstance(region, Segment):
            pieces.append(region)
        else:
            for piece in _matched(region, offsets, same):
                _add(pieces, piece, files, sizes)
    tail: Files = ()
    if pieces and not isinstance(pieces[-1], Segment) and _is_last(pieces[-1], files):
        tail = pieces.pop()  # type: ignore[assignment]
        if len(tail) > sizes.tail:
            tail = (*_taken(pieces, files, below=sizes.segment), *tail)
            pieces += _split(tail, sizes.segment)
            tail = ()
    return [part for piece in pieces for part in _parts(piece, sizes.segment)], tail


def anew(files: FileList, usable: Iterable[Segment]) -> int:
    """How many files lie in segments of the list that do not stay: ``cut`` holds them all."""
    known = {segment.name: segment for segment in usable}
    offsets = {segment.offset: segment for segment in known.values()}
    return sum(segment.files for segment in files.segments if _usable(segment, known, offsets) is None)


def _regions(files: FileList, known: dict[str, Segment], offsets: dict[int, Segment]) -> Iterator[Piece]:
    """The segments that stay, and what lies between them."""
    between: list[DataFile] = []
    for part in files.parts:
        there = _usable(part, known, offsets) if isinstance(part, Segment) else None
        if there is not None:
            if between:
                yield between
                between = []
            yield there
        else:
            between += next(files.runs([part]))
    between += files.tail
    if between:
        yield between


def _usable(segment: Segment, known: dict[str, Segment], offsets: dict[int, Segment]) -> Segment | None:
    """The segment itself where it may be named, or one with the same content that may; None where there is neither."""
    if known.get(segment.name) == segment:
        return segment
    there = offsets.get(segment.offset)
    return there if there is not None and msgspec.structs.replace(segment, name=there.name) == there else None


def _matched(region: Files, offsets: dict[int, Segment], same: Same) -> Iterator[Piece]:
    """The segments that have just these files, and the rest."""
    start = at = 0
    while at < len(region):
        segment = offsets.get(region[at].offset)
        behind = at + segment.files if segment is not None else len(region) + 1
        if (
            segment is None
            or behind > len(region)
            or region[behind - 1].end != segment.end
            or not same(segment, region[at:behind])
        ):
            at += 1
            continue
        if start < at:
            yield region[start:at]
        yield segment
        start = at = behind
    if start < len(region):
        yield region[start:]


def _add(pieces: list[Piece], piece: Piece, files: FileList, sizes: Sizes) -> None:
    small = sizes.segment // 2
    if not isinstance(piece, Segment) and len(piece) < small and not _is_last(piece, files):
        piece = (*_taken(pieces, files, below=small), *piece)
    pieces.append(piece)


def _taken(pieces: list[Piece], files: FileList, *, below: int) -> Files:
    """The files of the last piece, which leaves ``pieces``, where it is a segment of fewer files than that."""
    last = pieces[-1] if pieces else None
    if not isinstance(last, Segment) or last.files >= below:
        return ()
    pieces.pop()
    # It may be another's segment, of files that are at hand.
    start = files.index_behind(last.offset)
    return files[start : start + last.files]


def _is_last(piece: Files, files: FileList) -> bool:
    return piece[-1].end == files.end


def _parts(piece: Piece, most: int) -> Iterable[Piece]:
    return (piece,) if isinstance(piece, Segment) else _split(piece, most)


def _split(files: Files, most: int) -> list[Files]:
    return [files[start : start + most] for start in range(0, len(files), most)]
