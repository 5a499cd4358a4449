"""The one commit loop of all manifest stores: commit; when another came first, catch up and try again."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from singerlake.clock import Backoff, Clock
from singerlake.errors import MissingFileError, StorageUnavailableError, TooManyConflictsError, UnknownOutcomeError
from singerlake.format.state.additions import Conflict, is_known
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import (
    AddFiles,
    AddTogether,
    Change,
    CollectFiles,
    CommitFiles,
    ExpireFiles,
    PrepareFiles,
    ReplaceFiles,
    Transaction,
)
from singerlake.stores.port import Loaded, ManifestStore, Outdated, Pending

ATTEMPTS = 100
_FIRST_WAIT = 0.01
_LONGEST_WAIT = 5.0
_SETTLE_WAIT = 600.0
_FIRST_POLL = 0.05
_LONGEST_POLL = 1.0


def commit_transaction(
    store: ManifestStore, base: Loaded, transaction: Transaction, *, clock: Clock, attempts: int = ATTEMPTS
) -> Loaded | Conflict | Pending:
    """The state with ``transaction`` in it, a receipt for it, or why it can never be.

    Every try begins by looking for the change's own files in the state at hand, since the answer "refused" may be
    one's own earlier success whose reply was lost. A conflict counts only with the newest state. Waits between tries
    with full jitter. Raises ``TooManyConflictsError`` (nothing was committed) and ``UnknownOutcomeError``.
    """
    unknown: UnknownOutcomeError | None = None
    backoff = Backoff(clock, first=_FIRST_WAIT, longest=_LONGEST_WAIT)
    for _ in range(attempts):
        if is_done(base.manifest, transaction.change):
            return base
        conflict: Conflict | None = None
        try:
            outcome = store.commit(base, transaction)
        except UnknownOutcomeError as error:
            unknown = error
        else:
            if isinstance(outcome, Conflict):
                conflict = outcome
            elif not isinstance(outcome, Outdated):
                return outcome
            else:
                unknown = None
        if conflict is None:
            backoff.wait()
        fresh = caught_up(store, base, unknown)
        if conflict is not None and fresh.manifest.transaction == base.manifest.transaction:
            return conflict
        base = fresh
    if is_done(base.manifest, transaction.change):
        return base
    if unknown is not None:
        raise unknown
    raise TooManyConflictsError(
        f"other writers came first {attempts} times in a row", hint="run again, with fewer writers on this stream"
    )


def caught_up(store: ManifestStore, base: Loaded, unknown: UnknownOutcomeError | None) -> Loaded:
    """The newest state after a try to commit. Where it cannot be read, raises ``unknown``, what that try came to, if it
    is given. Raises ``UnknownOutcomeError`` where the state is gone."""
    try:
        fresh = store.catch_up(base)
    except StorageUnavailableError as error:
        if unknown is not None:
            raise unknown from error
        raise
    if fresh is None:
        raise UnknownOutcomeError(
            "the stream's state disappeared while a transaction was being committed",
            hint="run 'singerlake rebuild', then run again; no file was deleted",
        )
    return fresh


def await_settled(store: ManifestStore, base: Loaded, pending: Pending, *, clock: Clock) -> Loaded | Conflict:
    """Wait until it is known where a stored transaction came to stand. Raises ``UnknownOutcomeError`` after ten
    minutes."""
    started, backoff = clock.monotonic(), Backoff(clock, first=_FIRST_POLL, longest=_LONGEST_POLL, jitter=0)
    while (outcome := store.settle(base, pending)) is None:
        if clock.monotonic() - started > _SETTLE_WAIT:
            raise UnknownOutcomeError(
                "a stored transaction was not settled in time", hint="run again; nothing is lost", key=pending.key
            )
        backoff.wait()
    return outcome


def is_done(manifest: Manifest, change: Change) -> bool:
    """Whether all that a change is to do to files is in the state already, so that it must not be committed again."""
    if isinstance(change, PrepareFiles) and manifest.prepared is not msgspec.UNSET:
        return manifest.prepared.commit == change.commit
    if isinstance(change, AddFiles | PrepareFiles | CommitFiles):
        files = change.files
    elif isinstance(change, AddTogether):
        # A part without files says how a run stands, which no file tells.
        return bool(change.parts) and all(is_done(manifest, part) for part in change.parts)
    elif isinstance(change, ReplaceFiles):
        files = change.new
    elif isinstance(change, CollectFiles):
        return _collected(manifest, change)
    elif isinstance(change, ExpireFiles):
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


def _collected(manifest: Manifest, change: CollectFiles) -> bool:
    if any(id in manifest.by_id for id in (*change.shown, *change.deleted, *change.forgotten)):
        return False
    steps = ((change.shown, "shown"), (change.deleted, "deleted"), (change.forgotten, "id"))
    for ids, mark in steps:
        there = [manifest.retired_by_id[id] for id in ids if id in manifest.retired_by_id]
        there = [file for file in there if change.means(file)]
        if any(mark == "id" or getattr(file, mark) is None for file in there):
            return False
    return True
