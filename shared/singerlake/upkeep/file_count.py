"""A number of files and their bytes: what plans and reports count in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tally:
    """A number of files, and their stored bytes."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.files + other.files, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class RecordTally(Tally):
    """A number of files, their stored bytes, and the RECORD messages in them."""

    records: int = 0


NONE = Tally()


def tally(sizes: Iterable[int]) -> Tally:
    """The files that have these sizes."""
    files = total = 0
    for size in sizes:
        files += 1
        total += size
    return Tally(files, total)
