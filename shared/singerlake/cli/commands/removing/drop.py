"""``singerlake drop``: takes whole streams, or a tap with all of its streams, out of the lake."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import click

from singerlake.cli.erasing import say_erased, say_tables
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import command, examples
from singerlake.cli.options import DELETE_NOW, result_options, shows_first, stream_option, tap_named, with_lake
from singerlake.cli.output import (
    UNTIL_COLLECTED,
    files,
    first_of,
    name_of,
    progress,
    say,
    say_failure,
    say_findings,
    show,
)
from singerlake.humanize import counted, shown
from singerlake.lake import Lake
from singerlake.upkeep.drop import DropResult, DropRunResult, StreamDrop


@examples(
    "singerlake drop lake --tap my-tap --stream users", "singerlake drop lake --tap my-tap --stream users --delete"
)
@command("Drop a tap or one of its streams; gc deletes the files after a grace time.")
@partial(with_lake, stores=True)
@tap_named("The tap to drop, or whose stream to drop.", metavar="TAP", required=True)
@stream_option
@click.option("--run", metavar="WRITER", help="Drop only what this run of a target brought; status shows it.")
@shows_first("--delete", "Drop", now=DELETE_NOW)
@result_options
def drop(lake: Lake, tap: str, stream: str | None, run: str | None, dry_run: bool, now: bool) -> int:
    """Drop a tap with all of its streams, or one stream of it; with --run only what one run brought to them.

    Shows what would be dropped; drops only with --delete. From then on no reader finds the streams. Their files stay
    until 'singerlake gc --delete' has deleted them, which takes two runs, a grace time apart; with --now they go at
    once. A tap that runs again starts the stream anew. Tables made from a stream stay. Exits with 1 if a stream could
    not be dropped, or a file could not be deleted, and with 2 if access was denied.
    """
    if run is not None:
        with progress() as report:
            taken = lake.drop_run(tap, run, stream, now=now, dry_run=dry_run, progress=report)
        show(taken, _say_run)
        errors = [each.error for each in taken.failed] + [one.error for one in taken.streams if one.error is not None]
        return exit_code(errors, [finding for one in taken.streams for finding in one.findings])
    with progress("files") as report:
        result = lake.drop(tap, stream, now=now, dry_run=dry_run, progress=report)
    show(result, partial(_say, now))
    return exit_code((each.error for each in result.failed), result.findings)


def _say(now: bool, result: DropResult) -> None:
    for one in result.streams:
        say(*_told(one, not result.dry_run, now))
    for each in result.failed:
        say_failure(each, "dropped, and then failed" if each.dropped else "not dropped")
    say_findings(result.findings)


def _say_run(result: DropRunResult) -> None:
    for one in result.streams:
        say_erased(one, always=False)
    say_tables(result.streams)
    for each in result.failed:
        say_failure(each, "dropped, at least in part, and then failed" if each.dropped else "not dropped")
    for one in result.streams:
        say_findings(one.findings)


def _told(one: StreamDrop, delete: bool, now: bool) -> Iterator[str]:
    """One line for what goes, one for each kind of what stays."""
    if not one.needed:
        what = "nothing to drop"
    else:
        parts = [files(one.files), counted(one.records, "record")]
        if one.attached.files:
            parts.append(files(one.attached, one.attached))
        if one.unlisted.files:
            parts.append(f"{files(one.unlisted)} unlisted")
        what = f"{'dropped' if delete else 'would be dropped'}: {', '.join(parts)}"
    yield f"{name_of(one)}: {what}"
    if now:
        yield f"  deleted: {files(one.deleted, one.deleted_attached)}"
    elif delete and (one.files + one.unlisted + one.attached).files:
        yield f"  the files stay {UNTIL_COLLECTED}"
    if one.tables:
        yield f"  tables made from it stay: {', '.join(map(shown, one.tables))}; see 'singerlake project drop'"
    if one.left:
        more = f" and {len(one.left) - 1:,} more" if len(one.left) > 1 else ""
        yield f"  left, since the format does not put such a file there: {shown(one.left[0])}{more}"
    if not delete:
        yield from first_of(one.keys)
