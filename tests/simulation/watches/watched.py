"""A manifest store with somebody looking over its shoulder: what it tells an actor is compared with what is so."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from singerlake.format.state.additions import Conflict
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Transaction
from singerlake.stores.port import Loaded, ManifestStore, Outdated, Pending, SettlingStore, Trimmed
from tests.simulation.watches.truth import Fail, Truth


class WatchedStore:
    """One actor's ``ManifestStore``. Every state it gives must be one that was committed, not older than what anybody
    was told of before the question, and not older than what this actor knew."""

    def __init__(
        self,
        inner: ManifestStore,
        truth: Truth,
        fail: Fail,
        note: Callable[[str], None],
        seen: Callable[[int], None],
        sends: Callable[[str], None],
    ) -> None:
        self.kind = inner.kind
        self.abilities = inner.abilities
        self.segments = inner.segments
        self._inner = inner
        self._truth = truth
        self._fail = fail
        self._note = note
        self._tell = seen
        self._sends = sends
        self._seen = -1

    @property
    def exclusive(self) -> bool:
        return self._inner.exclusive

    def load(self) -> Loaded | None:
        return self._fresh("load", self._inner.load)

    def catch_up(self, base: Loaded) -> Loaded | None:
        return self._fresh("catch_up", lambda: self._inner.catch_up(base))

    def create(self, manifest: Manifest) -> Loaded:
        loaded = self._inner.create(manifest)
        self._looked_at(loaded)
        return loaded

    def commit(self, base: Loaded, transaction: Transaction) -> Loaded | Outdated | Conflict | Pending:
        self._sends(transaction.id)
        outcome = self._inner.commit(base, transaction)
        self._note(f"commit of {transaction.id} is {type(outcome).__name__}")
        if isinstance(outcome, Pending):
            self._truth.pending.add(outcome.id)
        if isinstance(outcome, Loaded):
            self._looked_at(outcome)
            if outcome.manifest.transaction.number <= base.manifest.transaction.number:
                self._fail("a commit was answered with a state that is no newer than the one before it")
        return outcome

    def settle(self, base: Loaded, pending: Pending) -> Loaded | Conflict | None:
        outcome = cast(SettlingStore, self._inner).settle(base, pending)
        self._note(f"settling of {pending.id} is {type(outcome).__name__}")
        if isinstance(outcome, Loaded):
            self._looked_at(outcome)
            self._truth.settled(pending.id, outcome.manifest)
        return outcome

    def other_lakes(self) -> tuple[str, ...]:
        return self._inner.other_lakes()

    def publish(self, state: Loaded, *, run_ended: bool = False) -> None:
        self._inner.publish(state, run_ended=run_ended)

    def trim(self, *, keep: int, dry_run: bool = True) -> Trimmed:
        trimmed = self._inner.trim(keep=keep, dry_run=dry_run)
        self._note(f"trimmed up to {trimmed.floor}, {trimmed.keys} keys, dry run: {dry_run}")
        return trimmed

    def _fresh(self, what: str, ask: Callable[[], Loaded | None]) -> Loaded | None:
        known = self._truth.acknowledged
        loaded = ask()
        if loaded is None:
            if known >= 0:
                self._fail(f"{what} found nothing, though state {known} was known")
            return None
        self._not_older(what, loaded, known)
        self._looked_at(loaded)
        return loaded

    def _not_older(self, what: str, loaded: Loaded, known: int) -> None:
        number = loaded.manifest.transaction.number
        self._note(f"{what} gives {number}")
        if number < known:
            self._fail(f"{what} gave state {number}, though {known} was known before it was asked")

    def _looked_at(self, loaded: Loaded) -> None:
        number = loaded.manifest.transaction.number
        if number < self._seen:
            self._fail(f"an actor that had seen state {self._seen} was given {number}")
        self._seen = number
        self._truth.saw(loaded.manifest)
        self._tell(number)
