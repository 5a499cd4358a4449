"""Transactions of several writers, committed to one stream as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from singerlake.clock import Clock, IdSource, timestamp
from singerlake.errors import InputError, TooManyConflictsError, UnknownOutcomeError
from singerlake.format.state.additions import Conflict
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import AddTogether, Transaction
from singerlake.stores.commit import ATTEMPTS, between_tries, caught_up, commit_once, is_done, newer, submit_transaction
from singerlake.stores.port import Loaded, ManifestStore, Outdated
from singerlake.stores.queued.message import Wanted


@dataclass
class Committed:
    """What became of transactions: ``base`` is a state that holds all of them but those that were ``refused`` (why, by
    transaction id) or came too late (``late``)."""

    base: Loaded
    refused: dict[str, str] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    parts: int = 0


@dataclass
class _Fitting:
    """Of some transactions, those that a state still takes, one after the other."""

    parts: list[Wanted] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    undecided: Wanted | None = None


def commit_parts(
    store: ManifestStore, base: Loaded, wanted: Sequence[Wanted], *, clock: Clock, ids: IdSource
) -> Committed:
    """Commit transactions in their order, all that fit in one of the store; in a store that settles commits later, one
    after the other. What is in the state already is left out. A refusal counts only with the newest state.

    Raises ``TooManyConflictsError`` and ``UnknownOutcomeError``, and what the store raises; then any of them may be
    committed, and doing it all again is harmless.
    """
    backoff, unknown = between_tries(clock), None
    fresh = False
    for _ in range(ATTEMPTS):
        fitting = _fitting(base.manifest, wanted, clock)
        done = Committed(base, fitting.refused, fitting.late, len(fitting.parts))
        outcome: Loaded | Outdated | Conflict | None = None
        if fitting.refused and not fresh and fitting.undecided is None:
            pass
        elif fitting.undecided is not None:
            # Waits until that is decided, or decides it.
            store.commit(base, fitting.undecided.transaction)
        elif not fitting.parts:
            return done
        elif store.abilities.settles:
            return _one_by_one(store, done, fitting.parts, clock)
        else:
            try:
                outcome = _committed(store, base, fitting.parts, clock, ids)
            except UnknownOutcomeError as error:
                unknown = error
            if isinstance(outcome, Loaded):
                done.base = outcome
                return done
            backoff.wait()
        base, fresh = caught_up(store, base, unknown), True
    raise unknown or TooManyConflictsError(
        f"other writers came first {ATTEMPTS} times in a row", hint="run fewer writers without the queue"
    )


def _committed(
    store: ManifestStore, base: Loaded, parts: Sequence[Wanted], clock: Clock, ids: IdSource
) -> Loaded | Outdated | Conflict:
    """One transaction of all parts. One alone goes as it came, so that older readers read it."""
    transaction = parts[0].transaction
    if len(parts) > 1:
        change = AddTogether(parts=tuple(part.change for part in parts))
        transaction = Transaction(id=ids(), at=timestamp(clock.now()), change=change)
    return commit_once(store, base, transaction, clock=clock)


def _one_by_one(store: ManifestStore, done: Committed, parts: Sequence[Wanted], clock: Clock) -> Committed:
    commits = [submit_transaction(store, done.base, part.transaction, clock=clock) for part in parts]
    for part, commit in zip(parts, commits, strict=True):
        outcome = commit.wait(done.base)
        if isinstance(outcome, Conflict):
            done.refused[part.transaction.id] = outcome.reason
        else:
            done.base = newer(outcome, done.base)
    return done


def _fitting(state: Manifest, wanted: Sequence[Wanted], clock: Clock) -> _Fitting:
    fitting, now = _Fitting(), clock.now()
    for each in wanted:
        id = each.transaction.id
        if is_done(state, each.change):
            continue
        if each.until <= now:
            fitting.late.add(id)
        elif each.behind is not None and not _is_there(state, each.behind):
            fitting.refused[id] = "what its writer sent before it is not in the stream"
        else:
            after = _applied(state, each)
            if isinstance(after, Manifest):
                state = after
                fitting.parts.append(each)
            elif after.undecided is not None:
                fitting.undecided = each
                break
            else:
                fitting.refused[id] = after.reason
    return fitting


def _applied(state: Manifest, each: Wanted) -> Manifest | Conflict:
    try:
        return apply(state, each.transaction)
    except InputError as error:
        return Conflict(error.message)


def _is_there(state: Manifest, id: str) -> bool:
    return id in state.by_id or id in state.retired_by_id
