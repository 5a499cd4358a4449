"""How many files are attached to the records of a stream, of which kinds, from its manifest alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from singerlake.format.state.files.data_file import DataFile


@dataclass(frozen=True, slots=True)
class Kind:
    """The files of one media type."""

    media_type: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class AttachedTotals:
    """``files`` counts each object once, however many records have it; ``bytes`` are theirs. ``unread`` counts those
    that could not be read when their records were captured. ``kinds`` begin with the one of the most bytes."""

    files: int = 0
    bytes: int = 0
    unread: int = 0
    kinds: tuple[Kind, ...] = ()


def attached_totals(files: Iterable[DataFile]) -> AttachedTotals:
    """The figures of what is attached to the records of ``files``."""
    objects: dict[tuple[str, int], tuple[str, int]] = {}
    unread = 0
    for file in files:
        for row in file.attached:
            if row.sha256 is None:
                unread += 1
            else:
                # Of two records that name one object differently the first counts.
                objects.setdefault((row.sha256, row.copy), (row.media_type or "", row.bytes or 0))
    counts: dict[str, list[int]] = {}
    for kind, size in objects.values():
        count = counts.setdefault(kind, [0, 0])
        count[0] += 1
        count[1] += size
    kinds = [Kind(kind, *count) for kind, count in counts.items()]
    kinds.sort(key=lambda kind: (-kind.bytes, kind.media_type))
    return AttachedTotals(len(objects), sum(kind.bytes for kind in kinds), unread, tuple(kinds))
