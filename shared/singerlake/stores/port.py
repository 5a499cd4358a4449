"""What a manifest store does for one stream: gives the state, and takes the next transaction or says why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from singerlake.format.state.additions import Conflict
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Transaction
from singerlake.stores.segments.objects import SegmentObjects


@dataclass(frozen=True, slots=True)
class Loaded:
    """A state and the store's own mark of it (an ETag, a number), which the next commit is conditional on."""

    manifest: Manifest
    mark: str


@dataclass(frozen=True, slots=True)
class Outdated:
    """Another writer came first: catch up, look for the own file ids, try again."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A receipt: the transaction is stored and cannot be lost; its place in the log is settled later.

    ``id`` is the transaction's, ``key`` where it waits. Nothing may be told to depend on it before it is settled."""

    id: str
    key: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Abilities:
    """What a store declares of itself.

    ``locks``: its writers take the lock files of the Singerlake Spec. ``followable``: its state is on the lake, so that
    a reader of the lake can follow it past ``manifest.json``, and a state that is lost is rebuilt from the data
    files; where not, ``manifest.json`` is all that readers have, and a database without history stops writers.
    ``settles``: commits may be answered with ``Pending``; it is a ``SettlingStore`` then. ``prepares``: it takes what
    an atomic run prepares. ``together``: one transaction of its database commits to several streams, to
    ``most_together`` of them (None: to any number); it is a ``singerlake.stores.atomic.together.TogetherStore`` then.
    """

    locks: bool = False
    followable: bool = True
    settles: bool = False
    prepares: bool = False
    together: bool = False
    most_together: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Trimmed:
    """What a trim removed, or would: ``transactions`` up to ``floor``, in ``keys`` objects (or rows, or items)."""

    floor: int
    transactions: int
    keys: int


class ManifestStore(Protocol):
    """Agreement of all writers of one stream on its transactions.

    One object serves one writer or reader, on one thread at a time. Every method may raise what storage raises, and
    ``CorruptObjectError``, ``UnsupportedFormatError``, ``ForeignManifestError`` for what is not its own.
    """

    kind: str
    abilities: Abilities
    segments: SegmentObjects
    """The segments of the stream's states."""

    @property
    def exclusive(self) -> bool:
        """Whether a commit can be lost to another writer's on this storage; then only one writer may run."""
        return False

    def load(self) -> Loaded | None:
        """The newest state; None where the stream was never born, or its state was lost."""

    def create(self, manifest: Manifest) -> Loaded:
        """Put a first state where there is none, and give the one that is there afterwards, its own or another's."""

    def catch_up(self, base: Loaded) -> Loaded | None:
        """The newest state, reading only what came after ``base`` where the store can; None as in ``load``. Never older
        than ``base``, unless the stream's state was lost and made anew."""

    def commit(self, base: Loaded, transaction: Transaction) -> Loaded | Outdated | Conflict | Pending:
        """Make ``transaction`` the one after ``base``. A Conflict is one with ``base``, which may be old. Raises
        ``UnknownOutcomeError`` where it cannot be told whether it took effect."""

    def publish(self, state: Loaded, *, run_ended: bool = False) -> None:
        """Bring ``manifest.json`` up to ``state`` where that is due: conditionally, and never back to a lower number.

        Due: at a run's end, when the unpublished tail exceeds an eighth of what is published or what may wait (or
        readers have nothing but ``manifest.json``), and at any time when it is old. Losing a race to a newer state is
        success. After its commits a store does by itself what keeps the tail short; see ``SnapshotSettings``.
        """

    def other_lakes(self) -> tuple[str, ...]:
        """The ids of other lakes under which a database knows this tap's stream, as far as it can be asked cheaply.
        Only to tell a person; a store that is on the lake itself knows no other."""
        return ()

    def trim(self, *, keep: int, dry_run: bool = True) -> Trimmed:
        """Remove transactions that a durable snapshot covers, except the last ``keep``. In this order: an immutable
        snapshot, read back; ``manifest.json`` at least as new; the floor raised; then the removal."""


class SettlingStore(ManifestStore, Protocol):
    """A ``ManifestStore`` that may store a transaction before its place is known; ``Commit`` waits for it."""

    def settle(self, base: Loaded, pending: Pending) -> Loaded | Conflict | None:
        """A state that holds a pending transaction, or why it is void; None: ask again. Works on it; does not wait."""
