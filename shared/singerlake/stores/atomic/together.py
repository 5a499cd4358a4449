"""What a manifest store does for an atomic run whose streams are all in its database: one transaction over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from singerlake.format.decision import Brought, Decision
from singerlake.format.state.additions import Conflict
from singerlake.format.state.transactions import Transaction
from singerlake.stores.atomic.completion import Completion
from singerlake.stores.port import Loaded, ManifestStore, Outdated


@dataclass(frozen=True, slots=True)
class Share:
    """What a run does to one stream: ``transaction``, a ``CommitFiles``, upon ``base`` or what came after it."""

    stream: str
    store: ManifestStore
    base: Loaded
    transaction: Transaction


@dataclass(frozen=True, slots=True)
class CommittedTogether:
    """The states of all streams with the run in them, in the order of the shares, and the decision that was kept."""

    states: tuple[Loaded, ...]
    decision: Decision


@dataclass(frozen=True, slots=True)
class RefusedShare:
    """Why the run does not fit one of its streams, as it was when that was found out."""

    stream: str
    conflict: Conflict


class TogetherStore(ManifestStore, Protocol):
    """A ``ManifestStore`` in a database that commits to several streams in one transaction."""

    completion: Completion

    def commit_together(
        self, name: str, shares: Sequence[Share], decide: Callable[[Mapping[str, Brought]], Decision]
    ) -> CommittedTogether | Outdated | RefusedShare:
        """Commit all shares and the decision about the commit ``name``, or nothing. Their stores are of this kind and
        database. ``decide`` gives the decision once it is known what the run brings to each stream. What a run before
        left undone is completed first.

        Raises ``UnknownOutcomeError`` where it cannot be told whether it took effect, ``TooManyConflictsError`` and
        what ``commit`` raises.
        """
        ...
