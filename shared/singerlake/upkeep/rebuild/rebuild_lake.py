"""Rebuilding a lake: each stream's state, then the caches of taps and lake from the states.

Of one stream, its state and its files are read, and a plan is put through its manifest store. The plan is made again
where a writer came first: a whole new state must never take the place of one that it was not made from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain, islice
from pathlib import Path

import msgspec

from singerlake.clock import Clock, timestamp
from singerlake.errors import (
    CommitRefusedError,
    CorruptObjectError,
    ForeignManifestError,
    LakeError,
    SettingError,
    StorageUnavailableError,
)
from singerlake.format import layout
from singerlake.format.lines.holes import HOLE
from singerlake.format.lines.messages import is_record_line, is_schema_line
from singerlake.format.state import fold
from singerlake.format.state.additions import Conflict
from singerlake.format.state.manifest import from_json
from singerlake.format.state.model import Manifest, Position
from singerlake.format.state.transactions import CollectFiles, Transaction
from singerlake.glance import at_a_glance
from singerlake.storage.port import Entry, Storage
from singerlake.stores.commit import Commit
from singerlake.stores.port import Loaded, ManifestStore, Pending
from singerlake.stores.publish import mend_published, published, stream_closed
from singerlake.upkeep.caches import rebuild_catalogue, rebuild_root
from singerlake.upkeep.context import LakeContext, StreamContext, lake_id_for, record_run, stream_objects
from singerlake.upkeep.erase.match import Matches
from singerlake.upkeep.erase.rewrite import Rewrite, RewriteFiles
from singerlake.upkeep.rebuild.choose import TornFile
from singerlake.upkeep.rebuild.rebuild import Hashes, listed_at, without_uncommitted
from singerlake.upkeep.rebuild.repair import KindTotals, Repair, plan_anew, plan_repair
from singerlake.upkeep.rebuild.survey import Survey, SurveyJournal, SurveyTask, open_survey_journal, survey
from singerlake.upkeep.result import FOR_PYTHON, NONE, UNSEEN, Finding, Progress, Report, Tally, reporting
from singerlake.upkeep.scanned_file import ScannedFile
from singerlake.work.batches import consumed
from singerlake.work.engine import Engine


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRebuild:
    """What was done to one stream, or would be. It has so many ``files`` and ``messages`` then, and the ``versions``,
    hash to label. Of the files, some are ``added`` to the list or ``dropped`` from it, some are ``moved`` to another
    offset, and of those ``mended`` the state had wrong facts: these four are ids, if they were asked for. ``changes``
    has for each of the four the number, the bytes and the first paths. ``anew``: there was no state before."""

    tap: str
    stream: str
    changed: bool
    lineage: str | None
    files: int
    messages: int
    versions: Mapping[str, str]
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    anew: bool = field(metadata=FOR_PYTHON)
    new_lineage: bool = field(metadata=FOR_PYTHON)
    changes: Mapping[str, KindTotals] = field(metadata=FOR_PYTHON)


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildResult:
    """What was done to each stream, or with ``dry_run`` would be. Of the data files, ``read`` ones were read, and
    ``noted`` ones were not, since a journal says that they are sound. ``metadata`` says which catalogues changed, and
    whether root metadata did. ``findings`` are for a person to look at; a stream whose state cannot be read is one."""

    lake: str
    dry_run: bool
    streams: tuple[StreamRebuild, ...]
    read: Tally
    noted: Tally
    metadata: tuple[str, ...]
    findings: tuple[Finding, ...]


def rebuild_lake(
    lake: LakeContext,
    tap: str | None,
    stream: str | None,
    *,
    asked: RepairOptions,
    journal: Path | None,
    file_ids: bool,
    engine: Engine | None,
    progress: Report | None,
    planned: Callable[[StreamRebuild], object],
) -> RebuildResult:
    """Rebuild the streams that are meant. One that cannot be rebuilt stops no other."""
    if asked.adopt and asked.discard:
        raise SettingError("adopt and discard_manifest exclude each other", hint="discarding lists every file")
    pairs, dry_run = lake.chosen(tap, stream), asked.dry_run
    done, findings, unread = list[StreamRebuild](), list[Finding](), list[Finding]()
    states: list[Manifest] = []
    read, noted = NONE, NONE
    with open_survey_journal(journal, lake.storage.url) if journal else nullcontext() as held:
        for name, each in pairs:
            started = lake.clock.now()
            bar = reporting(progress, f"{name}/{each}")
            try:
                context = lake.stream(name, each).context()
                repair = repair_stream(
                    context,
                    asked,
                    lake_id=None if dry_run else lake.lake_id(),
                    engine=engine,
                    journal=held,
                    progress=bar,
                    planned=lambda plan: planned(_summary(plan, file_ids=False)),
                )
                # A lake may have many streams, and one may have a million files.
                states.append(msgspec.structs.replace(repair.after, files=repair.after.files[-1:]))
                done.append(_summary(repair, file_ids=file_ids))
                findings += repair.findings
                read, noted = read + repair.read, noted + repair.noted
                needed = repair.needed and not dry_run
                changed = sum((each.files for each in repair.totals.values()), NONE)
                del repair
                if needed:
                    record_run(context, "rebuild", changed, started=started)
            except (LakeError, SettingError) as error:
                discardable = isinstance(error, CorruptObjectError | ForeignManifestError)
                way_out = f"{error.hint}, or run again with --discard-manifest" if discardable else error.hint
                unread.append(Finding("manifest", layout.stream_prefix(name, each), f"{error.message}; {way_out}"))
    return RebuildResult(
        lake=lake.storage.url,
        dry_run=dry_run,
        streams=tuple(done),
        read=read,
        noted=noted,
        metadata=_caches(lake, states, pairs, whole=stream is None, dry_run=dry_run),
        findings=(*unread, *findings),
    )


def _summary(repair: Repair, *, file_ids: bool) -> StreamRebuild:
    before, after = repair.before, repair.after
    return StreamRebuild(
        tap=after.tap,
        stream=after.stream,
        changed=repair.needed,
        lineage=after.lineage,
        files=len(after.files),
        messages=after.next_offset - after.floor,
        versions=after.versions,
        **(repair.difference.by_kind if file_ids else {}),
        anew=before is None,
        new_lineage=before is not None and after.lineage != before.lineage,
        changes=repair.totals,
    )


def _caches(
    lake: LakeContext, states: list[Manifest], pairs: list[tuple[str, str]], *, whole: bool, dry_run: bool
) -> tuple[str, ...]:
    """The metadata of taps and lake, from the streams' states; the names of the objects that changed."""
    changed: list[str] = []
    taps = sorted({tap for tap, _ in pairs})
    for tap in taps:
        manifests = [state for state in states if state.tap == tap]
        complete = whole and len(manifests) == sum(name == tap for name, _ in pairs)
        if rebuild_catalogue(lake.storage, tap, manifests, whole=complete, dry_run=dry_run):
            changed.append(f"catalogue of {tap}")
    if states:
        lake_id = lake_id_for(lake, dry_run)
        if rebuild_root(lake.storage, taps, manifest_store=states[0].store, lake_id=lake_id, dry_run=dry_run):
            changed.append("root metadata")
    return tuple(changed)


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
    message = "writers kept changing the stream while it was read; nothing was changed"
    raise context.overtaken(message, "run again when they are done")


def _planned(base: Loaded | None, birth: Manifest | None, surveyed: Survey, options: RepairOptions, now: str) -> Repair:
    """``birth`` is what a state is made anew from, None where it is mended."""
    if birth is not None:
        return plan_anew(base.manifest if base else None, surveyed, birth)
    assert base is not None
    return plan_repair(base.manifest, surveyed, adopt=options.adopt, at=now)


def _mended(context: StreamContext, plan: Repair, surveyed: Survey, lake_id: str | None) -> Survey:
    """What was found, and beside it the torn files of a plan as they are written again. One that cannot be written is a
    finding. Raises what storage, ``local_folder`` and ``ScratchDatabase`` raise."""
    hashes = Hashes({version: held.schema for version, held in plan.after.schemas.items()})
    at = context.clock.now()
    findings: list[Finding] = []
    for torn in plan.torn:
        outcome = _written_again(context, torn, hashes, lake_id, at)
        if isinstance(outcome, Finding):
            findings.append(outcome)
        else:
            surveyed.files.add(outcome)
    return replace(surveyed, findings=(*surveyed.findings, *findings))


def _written_again(
    context: StreamContext, torn: TornFile, hashes: Hashes, lake_id: str | None, at: datetime
) -> ScannedFile | Finding:
    storage, stream, prefix = context.storage, context.stream, context.prefix
    listed = listed_at(torn.file, torn.file.facts, hashes.of(torn.file.schema), 0)
    # No state has this lineage: the file is listed nowhere yet, so it has no offset.
    item = Rewrite(listed, context.ids(), context.ids(), lake_id)
    outcome = RewriteFiles(_Numbers(torn.erased), prefix, stream, at, _WHO)(storage, item)
    if isinstance(outcome, Finding):
        return outcome
    key = prefix + (outcome.file.path if outcome.file else listed.path)
    for entry in storage.list(key):
        if entry.key == key:
            return SurveyTask(stream, prefix)(storage, entry)
    raise StorageUnavailableError("a file that was just written is not listed", hint="run again", key=key)


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
    """Have readers, who saw transaction ``seen``, see the new state of a database. ``manifest.json`` only goes forward,
    so a database restored from a backup needs a higher number: transactions that change nothing give it that."""
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


_WHO = "singerlake rebuild"


class _Numbers:
    """Finds messages of one file by their number in it, as bits."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._seen = 0

    def matcher(self) -> _Numbers:
        return self

    def begin(self, extra: bytes | None) -> None:
        """Nothing depends on it."""

    def __call__(self, lines: bytes) -> Matches:
        found: list[int] = []
        records = 0
        for at, line in enumerate(lines.split(b"\n")[:-1]):
            if is_schema_line(line):
                continue
            if self._bits >> self._seen & 1 and line != HOLE[:-1]:
                found.append(at)
                records += is_record_line(line)
            self._seen += 1
        return Matches(found, records)
