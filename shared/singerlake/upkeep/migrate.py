"""Moving one stream from one manifest store to another, with its offsets, lineage, runs and transaction numbers.

The order is one that a crash at any point leaves readable and safe, and that can be gone through again:

1. the new store is looked at, so that one that cannot be reached or holds something else stops this before any change;
2. ``Close(new)`` is committed to the old store: from there on every commit to it is void, and its writers go over or
   stop;
3. ``manifest.json`` says so too;
4. the new store is given the closed state as its first one, under the next transaction number, and gives it back;
5. ``manifest.json`` becomes the new store's. Only now do writers that start find it.

The first state in the new store has the id of the transaction that closed the old one, so that every attempt makes the
same one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from singerlake.clock import Clock, IdSource, timestamp
from singerlake.errors import (
    ConditionNotSupportedError,
    ConfigurationError,
    CorruptObjectError,
    ForeignManifestError,
    SingerlakeError,
    StreamClosedError,
    UnknownOutcomeError,
)
from singerlake.format import layout
from singerlake.format.state.model import Manifest, Position
from singerlake.format.state.transactions import Close, Transaction
from singerlake.glance import at_a_glance
from singerlake.storage.port import Storage
from singerlake.stores.commit import commit_transaction
from singerlake.stores.port import Loaded, ManifestStore
from singerlake.stores.publish import publish_manifest, published
from singerlake.upkeep.caches import use_manifest_store
from singerlake.upkeep.context import LakeContext, StreamContext, lake_id_for, record_run
from singerlake.upkeep.result import Failure, Tally

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Migration:
    """What was done to a stream, or with ``dry_run`` would be. ``needed``: there was something to do. ``resumed``: an
    earlier attempt had begun it. ``transaction`` is the number of the state that the stream has afterwards; None for a
    stream that has none yet, which is not moved, but born where the lake's streams are."""

    tap: str
    stream: str
    source: str
    target: str
    needed: bool = False
    resumed: bool = False
    transaction: int | None = None
    files: int = 0
    messages: int = 0


@dataclass(frozen=True, slots=True)
class NewStreams:
    """New streams of the lake begin in this ``store`` from now on, or with ``dry_run`` would."""

    store: str


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateResult:
    """What was done to each stream, or with ``dry_run`` would be. ``root_metadata``: new streams get the store ``to``
    from now on, and did not before. ``failed`` streams stopped no other."""

    lake: str
    to: str
    dry_run: bool
    streams: tuple[Migration, ...]
    root_metadata: bool
    failed: tuple[Failure, ...]


def migrate_lake(
    lake: LakeContext,
    to: str,
    tap: str | None,
    stream: str | None,
    *,
    dry_run: bool,
    moved: Callable[[Migration | Failure | NewStreams], object],
) -> MigrateResult:
    """Move the streams that are meant, and where all are, new ones, too."""
    # Before anything moves: a database knows the lake by it.
    lake_id = lake_id_for(lake, dry_run)
    outcomes: dict[tuple[str, str], Migration | Failure] = {}

    def move(pairs: Iterable[tuple[str, str]]) -> None:
        for pair in pairs:
            outcomes[pair] = _moved(lake, *pair, to, dry_run=dry_run)
            moved(outcomes[pair])

    move(lake.chosen(tap, stream))
    root = False
    if tap is None and stream is None and not any(isinstance(outcome, Failure) for outcome in outcomes.values()):
        root = use_manifest_store(lake.storage, to, lake_id=lake_id, dry_run=dry_run)
        if root:
            moved(NewStreams(to))
        if not dry_run:
            # Those that were born in the old store while the others were moved.
            move([pair for pair in lake.chosen(None, None) if _is_late(lake, *pair, outcomes.get(pair))])
    return MigrateResult(
        lake=lake.storage.url,
        to=to,
        dry_run=dry_run,
        streams=tuple(outcome for outcome in outcomes.values() if isinstance(outcome, Migration)),
        root_metadata=root,
        failed=tuple(outcome for outcome in outcomes.values() if isinstance(outcome, Failure)),
    )


def _moved(lake: LakeContext, tap: str, stream: str, to: str, *, dry_run: bool) -> Migration | Failure:
    """The others are moved even if one cannot be. Wrong settings would for all of them: they are raised."""
    there, started = lake.stream(tap, stream), lake.clock.now()
    try:
        old, new = there.context(), there.context(to)
        done = migrate_stream(old, new.store, dry_run=dry_run)
        if done.needed and not dry_run:
            record_run(new, "migrate", Tally(done.files, 0), started=started, wait=False)
        return done
    except ConfigurationError:
        raise
    except SingerlakeError as error:
        return Failure(tap, stream, error)


def _is_late(lake: LakeContext, tap: str, stream: str, outcome: Migration | Failure | None) -> bool:
    return (not isinstance(outcome, Migration) or outcome.transaction is None) and lake.stream(
        tap, stream
    ).kind() is not None


def migrate_stream(context: StreamContext, new: ManifestStore, *, dry_run: bool = False) -> Migration:
    """Move a stream from the store that it uses, which is the context's, to ``new``. Calling again after any failure
    goes on. Raises ``LostStateError`` where there are data files and no state, ``StreamClosedError`` where the stream
    is on its way to a third store or was moved on meanwhile, ``ForeignManifestError`` where the new store holds another
    state of it, ``ConditionNotSupportedError`` where it cannot be kept on this storage, ``TooManyConflictsError``,
    ``UnknownOutcomeError`` and what storage and stores raise."""
    try:
        return _migrated(context, new, dry_run)
    except ForeignManifestError:
        old = context.store
        there = published(context.storage, layout.manifest_key(context.tap, context.stream))
        another = there is not None and there.store == new.kind != old.kind
        loaded = new.load() if another else None
        if loaded is None:
            raise
        # Another migration of this stream came to its end first.
        return _described(loaded.manifest, old.kind, new.kind, needed=True, resumed=True)


def _migrated(context: StreamContext, new: ManifestStore, dry_run: bool) -> Migration:
    old, storage, tap, stream = context.store, context.storage, context.tap, context.stream
    clock, ids = context.clock, context.ids
    base = context.load()
    if base is None:
        return Migration(tap=tap, stream=stream, source=old.kind, target=new.kind)
    _refuse_third(base.manifest, new.kind)
    if old.kind == new.kind:
        return _described(base.manifest, old.kind, new.kind)
    if not dry_run:
        _refuse_unguarded(new, storage)
    if not new.abilities.followable:
        _refuse_other(base.manifest, new.load())
    resumed = base.manifest.closed is not None
    if dry_run:
        return _described(base.manifest, old.kind, new.kind, needed=True, resumed=resumed)
    with context.alone("singerlake store migrate", old, new):
        closed = _closed(old, base, new.kind, clock, ids)
        publish_manifest(old.segments, closed)
        first = _first_state(closed, new, storage)
        made = new.create(first).manifest
        if made != first and not _goes_on(made, closed):
            raise _other(made)
        _remove_copies(old)
        publish_manifest(new.segments, made)
    return _described(made, old.kind, new.kind, needed=True, resumed=resumed)


def _remove_copies(old: ManifestStore) -> None:
    """Nobody looks for them once the stream is elsewhere. Who reads an older state finds the segments themselves."""
    copies = old.segments.copies
    try:
        if copies is not None and (kept := copies.kept()):
            copies.remove(kept)
    except SingerlakeError as error:
        logger.warning("the old manifest store keeps file entries that nobody reads: %s", error)


def _described(state: Manifest, source: str, target: str, *, needed: bool = False, resumed: bool = False) -> Migration:
    return Migration(
        tap=state.tap,
        stream=state.stream,
        source=source,
        target=target,
        needed=needed,
        resumed=resumed,
        transaction=state.transaction.number,
        files=len(state.files),
        messages=state.next_offset - state.floor,
    )


def _refuse_third(state: Manifest, kind: str) -> None:
    if state.closed is not None and state.closed != kind:
        raise StreamClosedError(
            f"a migration of this stream is not finished; its new manifest store is {state.closed!r}",
            hint=f"finish it with 'singerlake store migrate --to {state.closed}' first",
            tap=state.tap,
            stream=state.stream,
        )


def _refuse_unguarded(new: ManifestStore, storage: Storage) -> None:
    """A log beside the data stands on conditional writes alone: found out before the old store is closed, by writing,
    which who only looks may not be allowed to."""
    guarded = new.exclusive or new.abilities.settles or not new.abilities.followable
    if not guarded and not storage.capabilities().conditional_put:
        raise ConditionNotSupportedError(
            f"this storage ignores conditional writes, without which the manifest store {new.kind!r} cannot be kept",
            hint="choose another; nothing was changed",
            lake_root=storage.url,
        )


def _refuse_other(state: Manifest, there: Loaded | None) -> None:
    """Stop where a database holds what is neither closed nor the continuation of ``state``."""
    if there is not None and there.manifest.closed is None and not _goes_on(there.manifest, state):
        raise _other(there.manifest)


def _goes_on(state: Manifest, closed: Manifest) -> bool:
    """Whether an open state descends from a closed one: at most one store of a stream is open."""
    return closed.closed == state.store and state.closed is None and _is_later(state, closed)


def _is_later(state: Manifest, closed: Manifest) -> bool:
    """The states of a lineage are counted through, from store to store."""
    return state.lineage == closed.lineage and state.transaction.number > closed.transaction.number


def _moved_on(closed: Manifest, kind: str) -> StreamClosedError:
    """To begin again from what the new store was given at first would forget all that was committed since."""
    return StreamClosedError(
        f"another process finished this migration and then moved the stream to the manifest store {kind!r}",
        hint="to move it from there, run again; nothing was changed",
        tap=closed.tap,
        stream=closed.stream,
    )


def _other(other: Manifest) -> ForeignManifestError:
    return ForeignManifestError(
        f"the manifest store {other.store!r} already holds another state of this stream, which is not closed",
        hint="find out whether it is of another lake or of a copy of this one; nothing was changed",
        tap=other.tap,
        stream=other.stream,
        transaction=other.transaction.number,
    )


def _first_state(closed: Manifest, new: ManifestStore, storage: Storage) -> Manifest:
    """What the new store begins with, above all numbers ever used; or began with already, in an earlier attempt."""
    # In this order: what another migration has begun in a log by now, and so used a number for, is then found there.
    logged = _logged(storage, closed)
    lying = published(storage, layout.manifest_key(closed.tap, closed.stream))
    if lying is not None and lying.store != new.kind and lying.number > closed.transaction.number:
        raise _moved_on(closed, lying.store)
    there = _held(new)
    if there is not None and _goes_on(there, closed):
        return there
    if there is not None and there.closed is not None and _is_later(there, closed):
        raise _moved_on(closed, there.closed)
    used = max(closed.transaction.number, logged, there.transaction.number if there else -1)
    position = Position(used + 1, closed.transaction.id)
    return msgspec.structs.replace(closed, store=new.kind, closed=None, transaction=position)


def _held(new: ManifestStore) -> Manifest | None:
    """What the new store holds of the stream. A log on the lake that cannot be read is one that an earlier life of the
    stream left behind; it is never read again once its floor is raised."""
    try:
        loaded = new.load()
    except (CorruptObjectError, ForeignManifestError):
        if not new.abilities.followable:
            raise
        return None
    return loaded.manifest if loaded else None


def _logged(storage: Storage, state: Manifest) -> int:
    """The highest number above the state's own that a log on the lake has used."""
    prefix = layout.log_prefix(state.tap, state.stream)
    newer = storage.list(prefix + "0", start_after=prefix + layout.log_name(state.transaction.number))
    return max((layout.log_number(entry.key[len(prefix) :]) or -1 for entry in newer), default=-1)


def _closed(old: ManifestStore, base: Loaded, kind: str, clock: Clock, ids: IdSource) -> Manifest:
    """The last state of the old store."""
    if base.manifest.closed is None:
        transaction = Transaction(id=ids(), at=timestamp(clock.now()), change=Close(successor=kind))
        commit_transaction(old, base, transaction, clock=clock)
    # Another migration's Close may have come first, or this one's after a lost reply: the store tells.
    loaded = old.load()
    if loaded is None or loaded.manifest.closed is None:
        raise UnknownOutcomeError(
            "the old manifest store does not say that it was closed",
            hint="run again; nothing was moved",
            store=old.kind,
        )
    _refuse_third(loaded.manifest, kind)
    return loaded.manifest
