"""What a manifest store in a database does for atomic runs: one transaction over several streams, then the lake shows
it to those who have the lake alone, the decision first. Section 11.6 of ``shared/docs/format``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from singerlake.errors import SingerlakeError
from singerlake.format.decision import Brought, Decision
from singerlake.format.state.additions import Conflict
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Transaction
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.port import Loaded, ManifestStore, Outdated


@dataclass
class Completion:
    """Completes the runs in a tap's streams. ``kept`` gives the decision that the database holds, ``store`` the store
    of another stream in the same database, with this object as its own. Not for two threads at once."""

    decisions: Decisions
    kept: Callable[[str], Decision | None]
    store: Callable[[str, Completion], ManifestStore]
    _seen: set[str] = field(default_factory=set)

    def complete(self, state: Manifest) -> None:
        """Before anything comes after ``state``, or publishes it: have the lake say that its last commit is decided,
        and show that commit in all of its streams, as far as that can be done. Each new name costs a request. Nothing
        is done about a commit that neither the lake nor the database knows. Raises what both raise,
        ``CorruptObjectError`` and ``UnsupportedFormatError``."""
        name = state.settled
        if name is msgspec.UNSET or name in self._seen:
            return
        decision = None if self.decisions.is_shown(name) else self._decided(name)
        # Noted before the other streams are published: their stores come here, too.
        self._seen.add(name)
        if decision is None:
            return
        published = [self._published(stream) for stream in decision.streams]
        if all(published):
            self.decisions.say_shown(name)

    def done(self, name: str) -> None:
        """Note that somebody else completes a commit."""
        self._seen.add(name)

    def _decided(self, name: str) -> Decision | None:
        there = self.decisions.get(name)
        if there is not None:
            return there
        kept = self.kept(name)
        return None if kept is None else self.decisions.decide(kept)

    def _published(self, stream: str) -> bool:
        """Whether readers have the newest state of a stream. Where they cannot get it now, the next writer tries."""
        store = self.store(stream, self)
        try:
            loaded = store.load()
            if loaded is not None:
                store.publish(loaded, run_ended=True)
        except SingerlakeError:
            return False
        return loaded is not None


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
        """Commit all shares, stores of this kind and database, and the decision about the commit ``name``, or nothing.
        ``decide`` gives the decision from what the run brings to each stream. A run before is completed first.

        Raises ``UnknownOutcomeError``, ``TooManyConflictsError`` and what ``commit`` raises.
        """
