"""``singerlake gc``: deletes what no reader can need any more."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import click

from singerlake.cli.commands.removing.expire import told, undated
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import Documented
from singerlake.cli.options import (
    duration,
    json_option,
    quiet_option,
    shows_first,
    stream_option,
    tap_option,
    with_lake,
)
from singerlake.cli.output import counted, files, first_of, minute, progress, say, say_findings, say_json, shown
from singerlake.lake import Lake
from singerlake.upkeep.defaults import GRACE, KEPT
from singerlake.upkeep.gc.gc import BatchGcResult, StreamGc
from singerlake.work.parallel import THREADS


@click.command(
    short_help="Delete replaced files, orphans, old transactions and stale locks, after a grace time.",
    cls=Documented,
    examples=("singerlake gc lake", "singerlake gc lake --delete"),
)
@partial(with_lake, stores=True)
@tap_option
@stream_option
@shows_first("--delete", "Delete")
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
    dry_run: bool,
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
        found = lake.gc_batches(batches, grace=grace, dry_run=dry_run)
        if as_json:
            say_json(found)
        else:
            _say_batches(found)
        return
    with progress() as report:
        result = lake.gc(
            tap,
            stream,
            grace=grace,
            orphans=orphans,
            keep=keep,
            dry_run=dry_run,
            threads=threads,
            progress=report,
        )
    if as_json:
        say_json(result)
    else:
        for one in result.streams:
            for line in _told(one, not dry_run, orphans):
                say(line)
        for each in result.failed:
            say(f"{shown(each.tap)}/{shown(each.stream)}: not collected: {shown(str(each.error))}", problem=True)
        say_findings(result.findings)
    ctx.exit(exit_code((each.error for each in result.failed), result.findings))


def _say_batches(found: BatchGcResult) -> None:
    say(f"{shown(found.root)}: {files(found.deleted)} {'would be ' if found.dry_run else ''}deleted")
    if found.waiting.files:
        say(f"  waiting: {files(found.waiting)}")
    if found.dry_run:
        for line in first_of(found.keys):
            say(line)


def _told(one: StreamGc, delete: bool, orphans: bool) -> list[str]:
    """One line for what goes, one for each kind of what stays."""
    would = "" if delete else "would be "
    gone = [
        f"{files(count, attached)} {would}{what}"
        for count, attached, what in (
            (one.deleted, one.deleted_attached, "deleted"),
            (one.retired, one.retired_attached, "retired as orphans"),
        )
        if count.files
    ]
    if one.expired.files:
        gone.insert(0, told(one.expired, one.expired_attached, one.expired.records, one.floor, delete=delete))
    if one.transactions.keys:
        gone.append(f"{counted(one.transactions.keys, 'record')} of old transactions {would}deleted")
    if one.segments.deleted.files:
        gone.append(f"{counted(one.segments.deleted.files, 'segment')} of old states {would}deleted")
    if one.segments.copies:
        gone.append(f"the file entries of {counted(len(one.segments.copies), 'segment')} {would}deleted from the table")
    if one.queued:
        gone.append(f"{counted(len(one.queued), 'object')} of a commit queue {would}deleted")
    if one.locks:
        gone.append(f"{counted(len(one.locks), 'stale lock')} {would}deleted")
    lines = [f"{shown(one.tap)}/{shown(one.stream)}: {'; '.join(gone) or 'nothing to delete'}"]
    if one.undated is not None:
        lines.append(f"  {undated(one.undated)}")
    if one.waiting.files:
        if one.shown and not delete:
            until = f"; the grace time of {one.shown:,} begins with the next --delete"
        else:
            until = f", the first until {minute(one.until)} UTC" if one.until else ""
        lines.append(f"  waiting: {files(one.waiting, one.waiting_attached)}{until}")
    if one.segments.waiting.files:
        lines.append(f"  waiting: {counted(one.segments.waiting.files, 'segment')} of old states")
    if one.segments.waiting_copies:
        lines.append(f"  waiting: the file entries of {counted(one.segments.waiting_copies, 'segment')} that are gone")
    if one.orphans.files and not orphans:
        lines.append(f"  unlisted: {files(one.orphans, one.orphans_attached)}; --orphans retires them")
    if one.left.files:
        why = "older than the stream's lineage, or with an id that another file has"
        lines.append(f"  unlisted, kept: {files(one.left, one.left_attached)}, {why}; 'singerlake verify' names them")
    return lines if delete else [*lines, *first_of(one.keys)]
