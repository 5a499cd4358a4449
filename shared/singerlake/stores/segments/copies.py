"""Copies of a stream's segments in a database, which can be asked for a few files of one. Segments on storage stay the
truth: what a copy does not have, or has otherwise, is read there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from singerlake.format.state.files.cut import Sizes
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.segment import Segment


@dataclass(frozen=True, slots=True)
class SegmentCopy:
    """That there is something of the segment ``name``. ``whole``: all of it. ``noted`` is when it was seen that nobody
    needs it, RFC 3339; empty: it was not."""

    name: str
    whole: bool = False
    noted: str = ""


class SegmentCopies(Protocol):
    """The copies of one stream. Threads may share it."""

    @property
    def sizes(self) -> Sizes | None:
        """Where states with copies are cut; None: as all others."""
        ...

    def text(self, segment: Segment) -> bytes | None:
        """The text of a segment; None where the copy does not give it. Raises nothing."""
        ...

    def touching(self, segment: Segment, start: int, stop: int) -> Sequence[DataFile] | None:
        """The files of a segment that hold any offset from ``start`` up to ``stop``; None where the copy does not give
        each of them. Raises nothing."""
        ...

    def keep(self, segments: Sequence[Segment], files_of: Callable[[Segment], Sequence[DataFile]]) -> None:
        """See to it that there are copies of ``segments``, before a state that names them is published. Older ones that
        have none get theirs over several calls. Where the database is busy, less is done, which a warning says. Raises
        ``AccessDeniedError`` and ``SettingError``."""
        ...

    def kept(self) -> list[SegmentCopy]:
        """What there is. Raises what the database raises, as the methods below."""
        ...

    def note(self, copies: Sequence[SegmentCopy]) -> None:
        """Keep what is noted of ``copies``."""
        ...

    def remove(self, copies: Sequence[SegmentCopy]) -> None:
        """Remove ``copies``. What is removed in part is still found, and nobody takes it for whole."""
        ...


@runtime_checkable
class _HasCopies(Protocol):
    @property
    def copies(self) -> SegmentCopies | None: ...


def copies_of(store: object) -> SegmentCopies | None:
    """The copies that a manifest store has of its stream's segments; None where it is of a kind without any."""
    return store.copies if isinstance(store, _HasCopies) else None
