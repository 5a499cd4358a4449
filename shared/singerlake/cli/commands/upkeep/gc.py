"""``singerlake gc``: deletes what no reader can need any more."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import click

from singerlake.adapters import open_storage
from singerlake.cli.commands.removing.expire import told, undated
from singerlake.cli.commands.store.trim import KEPT
from singerlake.cli.durations import duration
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.options import (
    chosen_streams,
    context_of,
    json_option,
    quiet_option,
    stream_option,
    tap_option,
    with_lake,
)
from singerlake.cli.output import (
    counted,
    error_json,
    files,
    finding_json,
    minute,
    progress,
    say,
    say_findings,
    say_json,
    shown,
)
from singerlake.errors import LakeError, SettingError, SingerlakeError
from singerlake.format.metadata.retention import Retention, retention_of
from singerlake.format.metadata.root import RootMetadata
from singerlake.lake import Lake
from singerlake.storage.port import Storage
from singerlake.storage.probe import storage_time
from singerlake.stores.port import Trimmed
from singerlake.stores.segments.copies import copies_of
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.expire.expire_stream import Cut, Expired, expire_messages
from singerlake.upkeep.expire.policy import odd_rules, retentions
from singerlake.upkeep.file_count import tally
from singerlake.upkeep.gc.apply import GRACE, Collected, collect_stream
from singerlake.upkeep.gc.batch_files import old_batches
from singerlake.upkeep.gc.plan import attached_among
from singerlake.upkeep.gc.queued import collect_queued
from singerlake.upkeep.gc.segments import CollectedSegments, collect_segments
from singerlake.upkeep.lock_files import remove_locks, stale_locks
from singerlake.upkeep.record_run import record_run
from singerlake.upkeep.root_copy import keep_copy, root_findings
from singerlake.upkeep.verify.findings import Finding
from singerlake.work.parallel import THREADS

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class _StreamCollection:
    """What was done to one stream, or would be. ``locks`` and ``queued`` are keys."""

    tap: str
    stream: str
    collected: Collected
    trimmed: Trimmed
    locks: tuple[str, ...]
    expired: Expired
    segments: CollectedSegments
    queued: tuple[str, ...]


@click.command(short_help="Delete replaced files, orphans, old transactions and stale locks, after a grace time.")
@partial(with_lake, stores=True)
@tap_option
@stream_option
@click.option("--delete", is_flag=True, help="Delete; otherwise only show what would be deleted.")
@click.option("--orphans", is_flag=True, help="Also retire data files that nothing lists.")
@click.option(
    "--grace",
    type=duration,
    default=f"{GRACE.days}d",
    show_default=True,
    metavar="TIME",
    help="How long each step waits. It must be longer than any read and any pause of a writer.",
)
@click.option(
    "--keep",
    type=click.IntRange(0),
    default=KEPT,
    show_default=True,
    metavar="N",
    help="Transactions kept of a stream.",
)
@click.option(
    "--batches",
    metavar="ROOT",
    help="Instead of a lake's own files: batch files of tap-singerlake below this storage root that are older than "
    "the grace time.",
)
@json_option
@quiet_option
@click.option("--threads", type=click.IntRange(1, 64), default=THREADS, show_default=True, help="Files read at once.")
@click.pass_context
def gc(
    ctx: click.Context,
    lake: Lake,
    tap: str | None,
    stream: str | None,
    delete: bool,
    orphans: bool,
    grace: timedelta,
    keep: int,
    batches: str | None,
    as_json: bool,
    threads: int,
) -> None:
    """Delete replaced files, orphans, old transactions and stale locks, each after a grace time.

    Shows what would be deleted; deletes only with --delete. A file needs at least two runs, a grace time apart: the
    first notes which files manifest.json calls retired, a later one deletes files that were noted a grace time ago.
    What the policy of a stream says expires first. With --orphans, it retires files that no manifest lists and that
    are older than the grace time. Writers and readers may run meanwhile; run it again if it was interrupted. Exits
    with 1 if something is left that a person should look at, and with 2 if access was denied.

    With --batches, it looks only at batch files below ROOT: those older than the grace time go at once,
    also if no target has loaded them yet.
    """
    if batches is not None:
        if tap is not None or stream is not None or orphans:
            raise click.UsageError("--batches does not go with --tap, --stream and --orphans")
        _collect_batches(open_storage(batches, lake.settings), lake, grace, delete=delete, as_json=as_json)
        return
    done: list[_StreamCollection] = []
    findings: list[Finding] = []
    failed: dict[tuple[str, str], SingerlakeError] = {}

    def time() -> datetime:
        return storage_time(lake.storage, ids=lake.ids) if delete else lake.clock.now()

    now = time()
    metadata = lake.root_metadata()
    if delete:
        # An earlier version, or somebody by hand, may have changed the one and not the other.
        keep_copy(lake.storage)
    findings += root_findings(lake.storage)
    chosen = chosen_streams(lake, tap, stream)
    findings += odd_rules(metadata, dict.fromkeys(name for name, _ in chosen), stream)
    with progress() as start:
        for name, each in chosen:
            there, started = lake.stream(name, each), lake.clock.now()
            bar = start(f"{name}/{each}")
            try:
                store = there.store()
                context = context_of(there, store)
                expired = _expired(context, metadata, now, delete=delete)
                if delete and expired.files.files:
                    # Before anything else can fail: it has expired.
                    record_run(context, "expire", expired.files, records=expired.records, started=started)
                collected = collect_stream(
                    context,
                    grace=grace,
                    orphans=orphans,
                    delete=delete,
                    threads=threads,
                    progress=bar,
                )
                changed = collected.retired + collected.deleted
                if delete and changed.files:
                    record_run(context, "gc", changed, started=started)
                # Of a stream that was dropped nothing is kept.
                trimmed = store.trim(keep=0 if collected.without_versions else keep, dry_run=not delete)
                segments = collect_segments(
                    lake.storage, name, each, time=time, grace=grace, delete=delete, copies=copies_of(store)
                )
                queued = collect_queued(lake.storage, name, each, time=time, grace=grace, delete=delete)
                locks = stale_locks(lake.storage, name, each, now=now, grace=grace)
                if delete:
                    locks = remove_locks(lake.storage, locks)
            except (LakeError, SettingError) as error:
                # The others are collected even if one cannot be.
                findings.append(Finding("manifest", there.prefix, f"is not collected: {error.message}; {error.hint}"))
                continue
            except SingerlakeError as error:
                failed[name, each] = error
                continue
            findings += collected.findings
            keys = tuple(held.key for held in locks)
            done.append(_StreamCollection(name, each, collected, trimmed, keys, expired, segments, queued))
    if as_json:
        say_json(_json(lake, done, findings, failed, delete))
    else:
        for one in done:
            for line in _told(one, delete, orphans):
                say(line)
        for (name, each), why in failed.items():
            say(f"{shown(name)}/{shown(each)}: not collected: {shown(str(why))}", problem=True)
        say_findings(findings)
    ctx.exit(exit_code(failed.values()) or (1 if any(finding.problem for finding in findings) else 0))


def _expired(context: StreamContext, metadata: RootMetadata | None, now: datetime, *, delete: bool) -> Expired:
    """What expires by the policy of the stream."""
    retention = retention_of(retentions(metadata, context.tap), context.stream)
    if not isinstance(retention, Retention):
        return Expired()
    return expire_messages(context, Cut(retention=retention, now=now), dry_run=not delete)


def _collect_batches(storage: Storage, lake: Lake, grace: timedelta, *, delete: bool, as_json: bool) -> None:
    now = storage_time(storage, ids=lake.ids) if delete else lake.clock.now()
    found = old_batches(storage, older_than=grace, now=now)
    if delete:
        storage.delete_all([entry.key for entry in found.old])
    old, waiting = (tally(entry.size for entry in entries) for entries in found)
    if as_json:
        keys = [entry.key for entry in found.old]
        say_json(
            {
                "root": storage.url,
                "dry_run": not delete,
                "keys": keys,
                "deleted": asdict(old),
                "waiting": asdict(waiting),
            }
        )
        return
    say(f"{shown(storage.url)}: {files(old)} {'' if delete else 'would be '}deleted")
    if waiting.files:
        say(f"  waiting: {files(waiting)}")
    if not delete:
        for entry in found.old[:_SHOWN]:
            say(f"  {shown(entry.key)}")
        if old.files > _SHOWN:
            say(f"  and {old.files - _SHOWN:,} more, which --json names")


def _told(one: _StreamCollection, delete: bool, orphans: bool) -> list[str]:
    """One line for what goes, one for each kind of what stays."""
    collected, plan = one.collected, one.collected.plan
    would = "" if delete else "would be "
    gone = [
        f"{files(count, attached)} {would}{what}"
        for count, attached, what in (
            (collected.deleted, collected.deleted_attached, "deleted"),
            (collected.retired, collected.retired_attached, "retired as orphans"),
        )
        if count.files
    ]
    if one.expired.files.files:
        gone.insert(0, told(one.expired, delete=delete))
    if one.trimmed.keys:
        gone.append(f"{counted(one.trimmed.keys, 'record')} of old transactions {would}removed")
    if one.segments.deleted.files:
        gone.append(f"{counted(one.segments.deleted.files, 'segment')} of old states {would}deleted")
    if one.segments.copies:
        gone.append(f"the file entries of {counted(len(one.segments.copies), 'segment')} {would}removed from the table")
    if one.queued:
        gone.append(f"{counted(len(one.queued), 'object')} of a commit queue {would}deleted")
    if one.locks:
        gone.append(f"{counted(len(one.locks), 'stale lock')} {would}removed")
    lines = [f"{shown(one.tap)}/{shown(one.stream)}: {'; '.join(gone) or 'nothing to delete'}"]
    if one.expired.undated is not None:
        lines.append(f"  {undated(one.expired.undated)}")
    if plan.waiting.files:
        if plan.shown and not delete:
            until = f"; the grace time of {len(plan.shown):,} begins with the next --delete"
        else:
            until = f", the first until {_minute(plan.until)}" if plan.until else ""
        lines.append(f"  waiting: {files(plan.waiting, plan.waiting_attached)}{until}")
    if one.segments.waiting.files:
        lines.append(f"  waiting: {counted(one.segments.waiting.files, 'segment')} of old states")
    if one.segments.waiting_copies:
        lines.append(f"  waiting: the file entries of {counted(one.segments.waiting_copies, 'segment')} that are gone")
    if plan.orphans and not orphans:
        found = files(tally(each.size for each in plan.orphans), attached_among(plan.orphans))
        lines.append(f"  listed nowhere: {found}; --orphans retires them")
    if plan.left.files:
        why = "older than the stream's lineage, or with an id that another file has"
        lines.append(
            f"  listed nowhere, and left: {files(plan.left, plan.left_attached)}, {why}; 'singerlake verify' names them"
        )
    if not delete:
        lines += [f"  {shown(key)}" for key in collected.keys[:_SHOWN]]
        if len(collected.keys) > _SHOWN:
            lines.append(f"  and {len(collected.keys) - _SHOWN:,} more, which --json names")
    return lines


def _minute(moment: datetime) -> str:
    return f"{minute(moment)} UTC"


def _json(
    lake: Lake,
    done: list[_StreamCollection],
    findings: list[Finding],
    failed: dict[tuple[str, str], SingerlakeError],
    delete: bool,
) -> dict[str, Any]:
    return {
        "lake": lake.storage.url,
        "dry_run": not delete,
        "streams": [
            {
                "tap": one.tap,
                "stream": one.stream,
                "expired": {**asdict(one.expired.files), "records": one.expired.records},
                "expired_attached": asdict(one.expired.attached),
                "undated": one.expired.undated,
                "keys": one.collected.keys,
                "deleted": asdict(one.collected.deleted),
                "deleted_attached": asdict(one.collected.deleted_attached),
                "retired": asdict(one.collected.retired),
                "retired_attached": asdict(one.collected.retired_attached),
                "shown": len(one.collected.plan.shown),
                "forgotten": len(one.collected.plan.forgotten),
                "waiting": asdict(one.collected.plan.waiting),
                "waiting_attached": asdict(one.collected.plan.waiting_attached),
                "until": one.collected.plan.until,
                "orphans": asdict(tally(each.size for each in one.collected.plan.orphans)),
                "orphans_attached": asdict(attached_among(one.collected.plan.orphans)),
                "left": asdict(one.collected.plan.left),
                "left_attached": asdict(one.collected.plan.left_attached),
                "transactions": asdict(one.trimmed),
                "segments": asdict(one.segments),
                "queued": one.queued,
                "locks": one.locks,
            }
            for one in done
        ],
        "findings": [finding_json(finding) for finding in findings],
        "failed": [
            {"tap": tap, "stream": stream, "error": error_json(error)} for (tap, stream), error in failed.items()
        ],
    }
