"""What all maintenance of one stream works with."""

from __future__ import annotations

from dataclasses import dataclass

from singerlake.clock import Clock, IdSource
from singerlake.format import layout
from singerlake.manifests.port import ManifestStore
from singerlake.storage.port import Storage


@dataclass(frozen=True, slots=True)
class StreamContext:
    """One stream: where its files are stored, the manifest store that keeps its state, and time and identities."""

    storage: Storage
    store: ManifestStore
    tap: str
    stream: str
    clock: Clock
    ids: IdSource

    @property
    def prefix(self) -> str:
        """What the keys of all its objects begin with."""
        return layout.stream_prefix(self.tap, self.stream)
