"""What a manifest store does for one stream: gives the state, and takes the next transaction or says why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from singerlake.format.fold import Conflict
from singerlake.format.model import Manifest
from singerlake.format.transactions import Transaction


@dataclass(frozen=True, slots=True)
class Loaded:
    """A state and the store's own mark of it (an ETag, a number), which the next commit is conditional on."""

    manifest: Manifest
    mark: str


@dataclass(frozen=True, slots=True)
class Outdated:
    """Another writer came first: load again, look for the own file ids, try again."""


class ManifestStore(Protocol):
    """Agreement of all writers of one stream on its transactions."""

    kind: str

    @property
    def exclusive(self) -> bool:
        """Whether a commit can be lost to another writer's on this storage; then only one writer may run."""
        ...

    def load(self) -> Loaded | None:
        """The newest state; None where the stream was never born, or its state was lost. Raises ``CorruptObject``,
        ``UnsupportedFormat``, ``ForeignManifest``."""
        ...

    def create(self, manifest: Manifest) -> Loaded:
        """Put a first state where there is none, and give the one that is there afterwards, whoever put it."""
        ...

    def commit(self, base: Loaded, transaction: Transaction) -> Loaded | Outdated | Conflict:
        """Make ``transaction`` the one after ``base``. Raises ``UnknownOutcome`` where it cannot be told."""
        ...
