"""``singerlake gc``: deletes what no reader can need any more."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import click

from singerlake.cli.commands.removing.expire import told, undated
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import command, examples
from singerlake.cli.options import grace_option, result_options, shows_first, streams_options, threads_option, with_lake
from singerlake.cli.output import files, first_of, name_of, progress, say, say_failure, say_findings, show
from singerlake.humanize import counted, minute, shown
from singerlake.lake import Lake
from singerlake.upkeep.defaults import KEPT
from singerlake.upkeep.gc.gc import BatchGcResult, GcResult, StreamGc


@examples("singerlake gc lake", "singerlake gc lake --delete")
@command("Delete replaced files, orphans, old transactions and stale locks, after a grace time.")
@partial(with_lake, stores=True)
@streams_options
@shows_first("--delete", "Delete")
@click.option("--orphans", is_flag=True, help="Also retire data files that nothing lists.")
@grace_option("How long each step waits. It must be longer than any read and any pause of a writer.")
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
@result_options
@threads_option("Files read at once.")
def gc(lake: Lake, tap: str | None, stream: str | None, orphans: bool, batches: str | None, **asked: Any) -> int:
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
        show(lake.gc_batches(batches, grace=asked["grace"], dry_run=asked["dry_run"]), _say_batches)
        return 0
    with progress() as report:
        result = lake.gc(tap, stream, orphans=orphans, progress=report, **asked)
    show(result, partial(_say, orphans))
    return exit_code((each.error for each in result.failed), result.findings)


def _say_batches(found: BatchGcResult) -> None:
    say(f"{shown(found.root)}: {files(found.deleted)} {'would be ' if found.dry_run else ''}deleted")
    if found.waiting.files:
        say(f"  waiting: {files(found.waiting)}")
    if found.dry_run:
        say(*first_of(found.keys))


def _say(orphans: bool, result: GcResult) -> None:
    for one in result.streams:
        say(*_told(one, not result.dry_run, orphans))
    for each in result.failed:
        say_failure(each, "not collected")
    say_findings(result.findings)


def _told(one: StreamGc, delete: bool, orphans: bool) -> Iterator[str]:
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
    yield f"{name_of(one)}: {'; '.join(gone) or 'nothing to delete'}"
    if one.undated is not None:
        yield f"  {undated(one.undated)}"
    if one.waiting.files:
        if one.shown and not delete:
            until = f"; for {one.shown:,} the grace time begins with the next --delete"
        else:
            until = f", the first until {minute(one.until)} UTC" if one.until else ""
        yield f"  waiting: {files(one.waiting, one.waiting_attached)}{until}"
    if one.segments.waiting.files:
        yield f"  waiting: {counted(one.segments.waiting.files, 'segment')} of old states"
    if one.segments.waiting_copies:
        yield f"  waiting: the file entries of {counted(one.segments.waiting_copies, 'segment')} that are gone"
    if one.orphans.files and not orphans:
        yield f"  unlisted: {files(one.orphans, one.orphans_attached)}; --orphans retires them"
    if one.left.files:
        why = "older than the stream's lineage, or with an id that another file has"
        yield f"  unlisted, kept: {files(one.left, one.left_attached)}, {why}; 'singerlake verify' names them"
    if not delete:
        yield from first_of(one.keys)
