"""Copies of a stream's segments in a database. Segments on storage stay the truth: what a copy does not have, or has
otherwise, is read there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SegmentCopy:
    """That there is something of the segment ``name``. ``whole``: all of it. ``noted`` is when it was seen that nobody
    needs it, RFC 3339; empty: it was not."""

    name: str
    whole: bool = False
    noted: str = ""


class SegmentCopies(Protocol):
    """The copies of one stream, for its collector. Every method raises what the database raises."""

    def kept(self) -> list[SegmentCopy]:
        """What there is."""
        ...

    def note(self, copies: Sequence[SegmentCopy]) -> None:
        """Keep what is noted of ``copies``."""
        ...

    def remove(self, copies: Sequence[SegmentCopy]) -> None:
        """Remove ``copies``. What is removed in part is still found, and nobody takes it for whole."""
        ...
