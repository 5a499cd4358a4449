"""What a publisher tells of: files that are in the lake, and streams that are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Manifest
from target_singerlake.files.growing import GrowingFile


@dataclass(frozen=True, slots=True)
class Committed:
    """A file that is in the lake, and its stream's state with it."""

    growing: GrowingFile
    file: NewFile
    manifest: Manifest

    @property
    def epochs(self) -> Sequence[int]:
        """When its messages came, in STATE messages."""
        return self.growing.epochs


@dataclass(frozen=True, slots=True)
class KnownStream:
    """A stream without messages that is known now. ``manifest`` is its state, where it had to be looked at."""

    stream: str
    epochs: Sequence[int]
    manifest: Manifest | None
