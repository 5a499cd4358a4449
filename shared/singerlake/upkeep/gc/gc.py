"""Collecting a lake: in which order each stream is gone through, and what is known then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from singerlake.clock import Clock, IdSource
from singerlake.errors import LakeError, SettingError, SingerlakeError
from singerlake.format import layout
from singerlake.format.metadata.retention import Retention, retention_of
from singerlake.format.metadata.root import RootMetadata
from singerlake.glance import at_a_glance
from singerlake.storage.port import Storage
from singerlake.storage.probe import storage_time
from singerlake.stores.port import Trimmed
from singerlake.upkeep.context import LakeContext, StreamContext, record_run
from singerlake.upkeep.gc.apply import collect_stream
from singerlake.upkeep.gc.batch_files import old_batches
from singerlake.upkeep.gc.expire import Cut, Expired, expire_messages
from singerlake.upkeep.gc.plan import attached_among
from singerlake.upkeep.gc.segments import CollectedSegments, collect_segments
from singerlake.upkeep.lock_files import remove_locks, stale_locks
from singerlake.upkeep.policy import odd_rules, retentions
from singerlake.upkeep.result import (
    FOR_PYTHON,
    Failure,
    Finding,
    Progress,
    RecordTally,
    Report,
    Tally,
    reporting,
    tally,
)
from singerlake.upkeep.root_file import keep_copy, root_findings


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGc:
    """What was done to one stream, or would be.

    ``expired``, by its policy; ``undated`` is the file whose times are unknown, so that nothing from it on expires by
    age; the stream begins at offset ``floor`` then. ``keys`` are those of the objects ``deleted``, ``retired`` are
    orphans. ``waiting`` files wait for their grace time, the first of them ``until``; of these, that of ``shown`` began
    with this collection. ``forgotten`` files were deleted long ago. ``orphans`` are files that nothing lists and that
    may be retired; those of ``left`` never are. Each ``…_attached`` counts the attached files among the others.
    ``transactions`` are old ones, ``segments`` parts of old states. ``queued`` and ``locks`` are keys.
    """

    tap: str
    stream: str
    expired: RecordTally
    expired_attached: Tally
    undated: str | None
    keys: tuple[str, ...]
    deleted: Tally
    deleted_attached: Tally
    retired: Tally
    retired_attached: Tally
    shown: int
    forgotten: int
    waiting: Tally
    waiting_attached: Tally
    until: datetime | None
    orphans: Tally
    orphans_attached: Tally
    left: Tally
    left_attached: Tally
    transactions: Trimmed
    segments: CollectedSegments
    queued: tuple[str, ...]
    locks: tuple[str, ...]
    floor: int = field(metadata=FOR_PYTHON)


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class GcResult:
    """What was done to each stream, or with ``dry_run`` would be. ``findings`` are for a person to look at; a stream
    whose state cannot be read is one of them. ``failed`` streams could not be collected."""

    lake: str
    dry_run: bool
    streams: tuple[StreamGc, ...]
    findings: tuple[Finding, ...]
    failed: tuple[Failure, ...]


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class BatchGcResult:
    """Batch files below ``root``: those ``deleted``, or with ``dry_run`` to be deleted, and their ``keys``; and those
    ``waiting`` that are younger."""

    root: str
    dry_run: bool
    keys: tuple[str, ...]
    deleted: Tally
    waiting: Tally


@dataclass(frozen=True, slots=True)
class GcOptions:
    """What ``Lake.gc`` is asked for."""

    grace: timedelta
    orphans: bool
    keep: int
    dry_run: bool
    threads: int


def collect_lake(
    lake: LakeContext, tap: str | None, stream: str | None, asked: GcOptions, progress: Report | None
) -> GcResult:
    """Collect the streams that are meant. One that cannot be collected stops no other."""
    time = partial(_time, lake.storage, lake.clock, lake.ids, dry_run=asked.dry_run)
    now = time()
    metadata = lake.root_metadata()
    if not asked.dry_run:
        # An earlier version, or somebody by hand, may have changed the one and not the other.
        keep_copy(lake.storage)
    findings = list(root_findings(lake.storage))
    chosen = lake.chosen(tap, stream)
    findings += odd_rules(metadata, dict.fromkeys(name for name, _ in chosen), None if stream is None else chosen)
    done, failed = list[StreamGc](), list[Failure]()
    for name, each in chosen:
        bar = reporting(progress, f"{name}/{each}")
        try:
            one, found = _collect_one(lake.stream(name, each).context(), metadata, now, time, asked, bar)
        except (LakeError, SettingError) as error:
            prefix = layout.stream_prefix(name, each)
            findings.append(Finding("manifest", prefix, f"is not collected: {error.message}; {error.hint}"))
        except SingerlakeError as error:
            failed.append(Failure(name, each, error))
        else:
            findings += found
            done.append(one)
    return GcResult(
        lake=lake.storage.url,
        dry_run=asked.dry_run,
        streams=tuple(done),
        findings=tuple(findings),
        failed=tuple(failed),
    )


def _collect_one(
    context: StreamContext,
    metadata: RootMetadata | None,
    now: datetime,
    time: Callable[[], datetime],
    asked: GcOptions,
    progress: Progress,
) -> tuple[StreamGc, tuple[Finding, ...]]:
    """What its policy says expires first, then files are collected, then what states and writers left behind."""
    storage, tap, stream, started = context.storage, context.tap, context.stream, context.clock.now()
    grace, dry_run = asked.grace, asked.dry_run
    retention = retention_of(retentions(metadata, tap), stream)
    expired = Expired()
    if isinstance(retention, Retention):
        expired = expire_messages(context, Cut(retention=retention, now=now), dry_run=dry_run)
    if not dry_run and expired.files.files:
        # Before anything else can fail: it has expired.
        record_run(context, "expire", expired.files, records=expired.records, started=started)
    collected = collect_stream(
        context, grace=grace, orphans=asked.orphans, delete=not dry_run, threads=asked.threads, progress=progress
    )
    plan, changed = collected.plan, collected.retired + collected.deleted
    if not dry_run and changed.files:
        record_run(context, "gc", changed, started=started)
    # Of a stream that was dropped nothing is kept.
    trimmed = context.store.trim(keep=0 if collected.without_versions else asked.keep, dry_run=dry_run)
    segments = collect_segments(context.store.segments, time=time, grace=grace, delete=not dry_run)
    queued = collect_queued(storage, tap, stream, time=time, grace=grace, delete=not dry_run)
    locks = stale_locks(storage, tap, stream, now=now, grace=grace)
    if not dry_run:
        locks = remove_locks(storage, locks)
    one = StreamGc(
        tap=tap,
        stream=stream,
        expired=RecordTally(expired.files.files, expired.files.bytes, expired.records),
        expired_attached=expired.attached,
        undated=expired.undated,
        keys=collected.keys,
        deleted=collected.deleted,
        deleted_attached=collected.deleted_attached,
        retired=collected.retired,
        retired_attached=collected.retired_attached,
        shown=len(plan.shown),
        forgotten=len(plan.forgotten),
        waiting=plan.waiting,
        waiting_attached=plan.waiting_attached,
        until=plan.until,
        orphans=tally(each.size for each in plan.orphans),
        orphans_attached=attached_among(plan.orphans),
        left=plan.left,
        left_attached=plan.left_attached,
        transactions=trimmed,
        segments=segments,
        queued=queued,
        locks=tuple(held.key for held in locks),
        floor=expired.floor,
    )
    return one, collected.findings


def collect_batches(storage: Storage, *, grace: timedelta, dry_run: bool, clock: Clock, ids: IdSource) -> BatchGcResult:
    """Delete the batch files below a root of ``batch_config`` older than ``grace``. Raises what storage raises."""
    now = _time(storage, clock, ids, dry_run=dry_run)
    found = old_batches(storage, older_than=grace, now=now)
    keys = tuple(entry.key for entry in found.old)
    if not dry_run:
        storage.delete_all(keys)
    deleted, waiting = (tally(entry.size for entry in entries) for entries in found)
    return BatchGcResult(root=storage.url, dry_run=dry_run, keys=keys, deleted=deleted, waiting=waiting)


def _time(storage: Storage, clock: Clock, ids: IdSource, *, dry_run: bool) -> datetime:
    """The storage's time, which takes a write to ask for; where nothing may be written this machine's."""
    return clock.now() if dry_run else storage_time(storage, ids=ids)


def collect_queued(
    storage: Storage, tap: str, stream: str, *, time: Callable[[], datetime], grace: timedelta, delete: bool
) -> tuple[str, ...]:
    """Delete what is older than the grace time, or only say what it is; gives the keys. A writer waits for minutes at
    most, and commits by itself what is gone. ``time`` is the storage's. Raises what storage and ``time`` raise."""
    prefix = layout.queue_prefix(tap, stream)
    there = [entry for entry in storage.list(prefix) if layout.queued_id_in(entry.key[len(prefix) :]) is not None]
    if not there:
        return ()
    old = time() - grace
    keys = tuple(entry.key for entry in there if entry.last_modified <= old)
    if delete and keys:
        storage.delete_all(keys)
    return keys
