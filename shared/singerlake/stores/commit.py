"""The one commit loop of all manifest stores, and the one way to wait for stores that settle a commit later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import msgspec

from singerlake.clock import Backoff, Clock
from singerlake.errors import MissingFileError, StorageUnavailableError, TooManyConflictsError, UnknownOutcomeError
from singerlake.format.state import transactions as tx
from singerlake.format.state.additions import Conflict, is_known
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Manifest
from singerlake.stores.port import Loaded, ManifestStore, Outdated, Pending, SettlingStore

ATTEMPTS = 100
_FIRST_WAIT = 0.01
_LONGEST_WAIT = 5.0
_SETTLE_WAIT = 600.0
_FIRST_POLL = 0.05
_LONGEST_POLL = 1.0


@dataclass
class Commit:
    """A transaction that a manifest store has taken or refused. ``outcome`` is a state that holds it, or why it is
    void; None where the store settles that later, for which ``pending`` is the receipt."""

    store: ManifestStore
    clock: Clock
    outcome: Loaded | Conflict | None = None
    pending: Pending | None = None

    def look(self, base: Loaded) -> Loaded | Conflict | None:
        """The outcome, as far as it is known; ``base`` is the newest known state. Raises what the store raises."""
        if self.outcome is None:
            assert self.pending is not None
            # Only such a store gives receipts.
            self.outcome = cast(SettlingStore, self.store).settle(base, self.pending)
        return self.outcome

    def wait(self, base: Loaded) -> Loaded | Conflict:
        """The outcome, once it is known. Raises as ``look``, and ``UnknownOutcomeError`` after ten minutes."""
        where = base.manifest
        await_settled(lambda: self.look(base) is not None, self.clock, tap=where.tap, stream=where.stream)
        assert self.outcome is not None
        return self.outcome


def await_settled(is_settled: Callable[[], bool], clock: Clock, *, tap: str, stream: str) -> None:
    """Ask ``is_settled`` again and again until it is true. Raises ``UnknownOutcomeError`` after ten minutes."""
    started, backoff = clock.monotonic(), Backoff(clock, first=_FIRST_POLL, longest=_LONGEST_POLL, jitter=0)
    while not is_settled():
        if clock.monotonic() - started > _SETTLE_WAIT:
            raise UnknownOutcomeError(
                "a stored transaction was not settled in time",
                hint="run again; nothing is lost",
                tap=tap,
                stream=stream,
            )
        backoff.wait()


def between_tries(clock: Clock) -> Backoff:
    """What to wait after another writer came first."""
    return Backoff(clock, first=_FIRST_WAIT, longest=_LONGEST_WAIT)


def newer(one: Loaded, other: Loaded) -> Loaded:
    """The state of the higher transaction number."""
    return one if one.manifest.transaction.number >= other.manifest.transaction.number else other


def commit_once(
    store: ManifestStore, base: Loaded, transaction: tx.Transaction, *, clock: Clock
) -> Loaded | Outdated | Conflict:
    """One try to commit, for a whole new state: that must not follow another state than the one it was made from. Waits
    where the store settles later. Raises what the store raises, and as ``Commit.wait``."""
    outcome = store.commit(base, transaction)
    return Commit(store, clock, pending=outcome).wait(base) if isinstance(outcome, Pending) else outcome


def commit_transaction(
    store: ManifestStore, base: Loaded, transaction: tx.Transaction, *, clock: Clock, attempts: int = ATTEMPTS
) -> Loaded | Conflict:
    """The state with ``transaction``, once settled, or why not. Raises as ``submit_transaction``, ``Commit.wait``."""
    return submit_transaction(store, base, transaction, clock=clock, attempts=attempts).wait(base)


def submit_transaction(
    store: ManifestStore, base: Loaded, transaction: tx.Transaction, *, clock: Clock, attempts: int = ATTEMPTS
) -> Commit:
    """Commit ``transaction``, without waiting where the store settles it later. Every try begins by looking for the
    change's own files in the state at hand: "refused" may answer one's own earlier success whose reply was lost. A
    conflict counts only with the newest state. Raises ``TooManyConflictsError`` (nothing was committed) and
    ``UnknownOutcomeError``."""
    unknown: UnknownOutcomeError | None = None
    backoff = between_tries(clock)
    for _ in range(attempts):
        if is_done(base.manifest, transaction.change):
            return Commit(store, clock, base)
        conflict: Conflict | None = None
        try:
            outcome = store.commit(base, transaction)
        except UnknownOutcomeError as error:
            unknown = error
        else:
            if isinstance(outcome, Pending):
                return Commit(store, clock, pending=outcome)
            if isinstance(outcome, Loaded):
                return Commit(store, clock, outcome)
            if isinstance(outcome, Conflict):
                conflict = outcome
            else:
                unknown = None
        if conflict is None:
            backoff.wait()
        fresh = caught_up(store, base, unknown)
        if conflict is not None and fresh.manifest.transaction == base.manifest.transaction:
            return Commit(store, clock, conflict)
        base = fresh
    if is_done(base.manifest, transaction.change):
        return Commit(store, clock, base)
    if unknown is not None:
        raise unknown
    raise TooManyConflictsError(
        f"other writers came first {attempts} times in a row", hint="run again, with fewer writers on this stream"
    )


def caught_up(store: ManifestStore, base: Loaded, unknown: UnknownOutcomeError | None) -> Loaded:
    """The newest state after a try. Raises ``unknown``, what that came to, or ``UnknownOutcomeError`` without state."""
    try:
        fresh = store.catch_up(base)
    except StorageUnavailableError as error:
        if unknown is not None:
            raise unknown from error
        raise
    if fresh is None:
        raise state_lost("a transaction was being committed")
    return fresh


def state_lost(doing: str, **where: object) -> UnknownOutcomeError:
    """For a stream that had a state, and has none any more."""
    return UnknownOutcomeError(
        f"the stream's state disappeared while {doing}",
        hint="run 'singerlake rebuild', then run again; no file was deleted",
        **where,
    )


def is_done(manifest: Manifest, change: tx.Change) -> bool:
    """Whether all that a change is to do to files is in the state already, so that it must not be committed again."""
    if isinstance(change, tx.PrepareFiles) and manifest.prepared is not msgspec.UNSET:
        return manifest.prepared.commit == change.commit
    if isinstance(change, tx.AddFiles | tx.PrepareFiles | tx.CommitFiles):
        files = change.files
    elif isinstance(change, tx.AddTogether):
        # A part without files says how a run stands, which no file tells.
        return bool(change.parts) and all(is_done(manifest, part) for part in change.parts)
    elif isinstance(change, tx.ReplaceFiles):
        files = change.new
    elif isinstance(change, tx.CollectFiles):
        return _collected(manifest, change)
    elif isinstance(change, tx.ExpireFiles):
        left = not manifest.files or manifest.files[0].end > change.before
        return left and change.lineage == manifest.lineage and change.before <= manifest.next_offset
    else:
        return False
    return bool(files) and all(is_known(manifest, file) for file in files)


def refuse_missing(store: ManifestStore, base: Loaded, missing: Mapping[str, NewFile]) -> None:
    """Raise ``MissingFileError`` where one of these files, by key, was not replaced or dropped since ``base`` and then
    deleted: they are in that state, and not on storage as they were uploaded."""
    newest = store.catch_up(base)
    for key, file in missing.items():
        gone = newest.manifest.retired_by_id.get(file.id) if newest else None
        if gone is None or gone.deleted is None:
            raise MissingFileError(
                "a file just committed is not on storage as it was uploaded",
                hint="run 'singerlake verify'; the run's STATE was held back, so its data will be sent again",
                key=key,
            )


def _collected(manifest: Manifest, change: tx.CollectFiles) -> bool:
    if any(id in manifest.by_id for id in (*change.shown, *change.deleted, *change.forgotten)):
        return False
    steps = ((change.shown, "shown"), (change.deleted, "deleted"), (change.forgotten, "id"))
    for ids, mark in steps:
        there = [manifest.retired_by_id[id] for id in ids if id in manifest.retired_by_id]
        there = [file for file in there if change.means(file)]
        if any(mark == "id" or getattr(file, mark) is None for file in there):
            return False
    return True
