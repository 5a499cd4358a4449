"""Repairing one stream: read its state and its files, plan, and put the plan through its manifest store.

The plan is made again where a writer came first: a whole new state must never take the place of one that it was not
made from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice

import msgspec

from singerlake.clock import Clock, timestamp
from singerlake.errors import (
    CommitRefusedError,
    CorruptObjectError,
    ForeignManifestError,
    LakeError,
    TooManyConflictsError,
)
from singerlake.format import layout
from singerlake.format.state import fold
from singerlake.format.state.additions import Conflict
from singerlake.format.state.manifest import from_json
from singerlake.format.state.model import Manifest, Position
from singerlake.format.state.transactions import CollectFiles, Transaction
from singerlake.storage.port import Entry, Storage
from singerlake.stores.commit import Commit
from singerlake.stores.port import Loaded, ManifestStore, Pending
from singerlake.stores.publish import mend_published, published, stream_closed
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.progress import UNSEEN, Progress
from singerlake.upkeep.rebuild.rebuild import Hashes
from singerlake.upkeep.rebuild.repair import Repair, plan_anew, plan_repair
from singerlake.upkeep.rebuild.survey import Survey, stream_objects, survey
from singerlake.upkeep.rebuild.survey_journal import SurveyJournal
from singerlake.upkeep.rebuild.torn import WriteTornFiles
from singerlake.upkeep.rebuild.uncommitted import without_uncommitted
from singerlake.work.batches import consumed
from singerlake.work.engine import Engine

_ATTEMPTS = 5
_LISTED = 1 << 17
"""Entries of a listing that are held."""


@dataclass(frozen=True, kw_only=True)
class RepairOptions:
    """What a person asks of a repair. ``discard``: make the state anew from the files even where one is there, be it
    readable or not. ``adopt``: list sound files that a readable state does not list. ``dry_run``: only plan."""

    discard: bool = False
    adopt: bool = False
    dry_run: bool = False


def repair_stream(
    context: StreamContext,
    options: RepairOptions,
    *,
    lake_id: str | None = None,
    engine: Engine | None = None,
    journal: SurveyJournal | None = None,
    progress: Progress = UNSEEN,
    planned: Callable[[Repair], object] = lambda _: None,
) -> Repair:
    """What was done to a stream, or with ``dry_run`` would be. ``lake_id`` is the lake's, None where it has none yet.
    ``engine`` reads the files, threads of this process by default. Files that ``journal`` says are as they were when
    they were found sound are not read again. Where somebody looks at ``progress``, everything is listed before anything
    is read, for the total. ``planned`` is called with each plan before it is written; again if a writer came first and
    a new plan was made.

    Raises ``CorruptObjectError`` and ``ForeignManifestError`` where a state is there that is not this stream's, unless
    it is to be discarded; ``UnsupportedFormatError`` always; ``StreamClosedError`` where the stream is on its way to
    another manifest store; ``TooManyConflictsError`` where writers kept coming first; ``CommitRefusedError``; what
    storage raises.
    """
    storage, store, tap, stream = context.storage, context.store, context.tap, context.stream
    clock, ids = context.clock, context.ids
    for _ in range(_ATTEMPTS):
        base, unreadable = _load(context, options)
        if base is not None and base.manifest.closed is not None:
            raise stream_closed(tap, stream, base.manifest.closed)
        seen, number = _numbers(storage, tap, stream)
        files = _sized(context, progress) if progress.seen else stream_objects(storage, tap, stream)
        surveyed = survey(storage, tap, stream, files, engine=engine, journal=journal, progress=progress)
        surveyed = without_uncommitted(surveyed, storage, tap, stream, base.manifest if base else None)
        now = timestamp(clock.now())
        birth: Manifest | None = None
        if base is None or options.discard:
            birth = fold.empty(
                tap=tap,
                stream=stream,
                store=store.kind,
                lake_id=lake_id,
                lineage=ids(),
                created=now,
                transaction_id=ids(),
            )
            birth = msgspec.structs.replace(birth, transaction=Position(number, birth.transaction.id))
        plan = _planned(base, birth, surveyed, options, now)
        if plan.torn and not options.dry_run:
            surveyed = _mended(context, plan, surveyed, lake_id)
            noted = tuple(finding for finding in plan.findings if finding.kind == "torn")
            plan = _planned(base, birth, surveyed, options, now)
            if plan.torn:
                # One of the files is not what it was when it was read.
                continue
            plan = replace(plan, findings=noted + plan.findings)
        # What is written must not stand beside it.
        del surveyed
        if plan.needed:
            planned(plan)
        if not options.dry_run and base is not None and not options.discard:
            # What is published may name a segment that is gone, which reading the state has shown by then.
            store.publish(base, run_ended=True)
            mend_published(store.segments, base.manifest)
        if options.dry_run or not plan.needed:
            return plan
        with context.alone("singerlake rebuild", store):
            if unreadable is not None and not storage.delete(layout.manifest_key(tap, stream), if_match=unreadable):
                continue
            if _written(plan, store, base, ids(), now, clock):
                _show(context, seen)
                return plan
    raise TooManyConflictsError(
        "writers kept changing the stream while it was read; nothing was changed",
        hint="run again when they are done",
        tap=tap,
        stream=stream,
    )


def _planned(base: Loaded | None, birth: Manifest | None, surveyed: Survey, options: RepairOptions, now: str) -> Repair:
    """``birth`` is what a state is made anew from, None where it is mended."""
    if birth is not None:
        return plan_anew(base.manifest if base else None, surveyed, birth)
    assert base is not None
    return plan_repair(base.manifest, surveyed, adopt=options.adopt, at=now)


def _mended(context: StreamContext, plan: Repair, surveyed: Survey, lake_id: str | None) -> Survey:
    """What was found, with the torn files of a plan written again."""
    hashes = Hashes({version: held.schema for version, held in plan.after.schemas.items()})
    write = WriteTornFiles(
        context.storage, context.stream, context.prefix, hashes, lake_id, context.clock.now(), context.ids
    )
    return write(surveyed, plan.torn)


def _sized(context: StreamContext, progress: Progress) -> Iterator[Entry]:
    """What is to be read, after ``progress`` was told how much that is. Of very much, most is listed twice."""
    storage, tap, stream = context.storage, context.tap, context.stream
    listed = stream_objects(storage, tap, stream)
    first = list(islice(listed, _LISTED))
    behind = first[-1].key if len(first) == _LISTED else None
    progress.sized(sum(entry.size for entry in chain(first, listed)))
    rest = stream_objects(storage, tap, stream, start_after=behind) if behind is not None else ()
    return chain(consumed(first), rest)


def _load(context: StreamContext, options: RepairOptions) -> tuple[Loaded | None, str | None]:
    """The state; else the ETag of one that cannot be read and is to be discarded. One that another kind of store keeps
    is never discarded: what is in ``manifest.json`` is not all there is of it."""
    key = layout.manifest_key(context.tap, context.stream)
    try:
        loaded = context.store.load()
        if loaded is not None:
            loaded.manifest.files.check()
        return loaded, None
    except (CorruptObjectError, ForeignManifestError) as error:
        stored = context.storage.get(key)
        if not options.discard:
            raise
        if stored is None:
            if isinstance(error, ForeignManifestError):
                raise
            # What cannot be read is the log, whose numbers the new state begins above.
            return None, None
        if isinstance(error, ForeignManifestError) and from_json(stored.body, key=key).store != context.store.kind:
            raise
        return None, stored.etag


def _numbers(storage: Storage, tap: str, stream: str) -> tuple[int, int]:
    """The transaction number that readers are shown, -1 for none, and the first one that nothing on the lake has had:
    numbers never restart."""
    seen = -1
    with suppress(LakeError):
        there = published(storage, layout.manifest_key(tap, stream))
        seen = there.number if there else -1
    numbers = [seen]
    log = layout.log_prefix(tap, stream)
    for entry in storage.list(log):
        name = entry.key[len(log) :]
        number = layout.log_number(name)
        numbers.append(layout.log_snapshot_number(name) or -1 if number is None else number)
    return seen, max(numbers) + 1


def _show(context: StreamContext, seen: int) -> None:
    """Have readers see the new state of a database, who saw transaction ``seen`` before. ``manifest.json`` only goes
    forward, so that a database that was restored from a backup needs a higher number: transactions that change nothing
    give it that."""
    store, clock = context.store, context.clock
    loaded = None if store.abilities.followable else store.load()
    while loaded is not None and loaded.manifest.transaction.number <= seen:
        # Not by commit_transaction, which commits nothing that is done already.
        nothing = Transaction(id=context.ids(), at=timestamp(clock.now()), change=CollectFiles())
        outcome = store.commit(loaded, nothing)
        if isinstance(outcome, Conflict):
            return
        loaded = outcome if isinstance(outcome, Loaded) else store.catch_up(loaded)
    if loaded is not None:
        store.publish(loaded, run_ended=True)


def _written(plan: Repair, store: ManifestStore, base: Loaded | None, id: str, now: str, clock: Clock) -> bool:
    if base is None:
        return store.create(plan.after).manifest.transaction == plan.after.transaction
    assert plan.change is not None
    outcome = store.commit(base, Transaction(id=id, at=now, change=plan.change))
    if isinstance(outcome, Pending):
        # A plan that another writer's commit came before is void there, and made again.
        return isinstance(Commit(store, clock, pending=outcome).wait(base), Loaded)
    if isinstance(outcome, Conflict):
        if outcome.successor is not None:
            raise stream_closed(plan.after.tap, plan.after.stream, outcome.successor)
        raise CommitRefusedError(
            f"the rebuilt state was refused: {outcome.reason}", hint="nothing was changed; run again"
        )
    return isinstance(outcome, Loaded)
