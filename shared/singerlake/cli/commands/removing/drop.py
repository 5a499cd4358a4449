"""``singerlake drop``: takes whole streams, or a tap with all of its streams, out of the lake."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import click

from singerlake.cli.erasing import say_erased, say_tables
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import command, examples
from singerlake.cli.options import DELETE_NOW, result_options, shows_first, stream_option, tap_named, with_lake
from singerlake.cli.output import (
    UNTIL_COLLECTED,
    files,
    name_of,
    progress,
    say,
    say_failure,
    say_findings,
    show,
    size,
    table,
)
from singerlake.humanize import counted, shown
from singerlake.lake import Lake
from singerlake.upkeep.drop import DropResult, DropRunResult, StreamDrop
from singerlake.upkeep.result import NONE, Tally

_COLUMNS = ("TAP", "STREAM", ">FILES", ">RECORDS", ">BYTES")


@examples(
    "singerlake drop lake --tap my-tap --stream users", "singerlake drop lake --tap my-tap --stream users --delete"
)
@command("Drop a tap or one of its streams; gc deletes the files after a grace time.")
@partial(with_lake, stores=True)
@tap_named("The tap to drop, or whose stream to drop.", metavar="TAP", required=True)
@stream_option
@click.option("--run", metavar="WRITER", help="Drop only what this run of a target brought; status --by-run shows it.")
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
    gone = [one for one in result.streams if one.needed]
    if gone:
        _say_gone(gone, result.dry_run)
    for one in result.streams:
        if not one.needed:
            waits = f"{counted(len(one.keys), 'object')} {'waits' if len(one.keys) == 1 else 'wait'}"
            waiting = f"; {waits} for 'singerlake gc --delete'" if one.keys and not now else ""
            say(f"{name_of(one)}: nothing to drop{waiting}")
        if one.left:
            more = f" and {len(one.left) - 1:,} more" if len(one.left) > 1 else ""
            say(f"{name_of(one)}: the format does not put such a file there, and it stays: {shown(one.left[0])}{more}")
    if now:
        deleted = files(
            _sum(one.deleted for one in result.streams), _sum(one.deleted_attached for one in result.streams)
        )
        say(f"deleted: {deleted}")
    elif gone and not result.dry_run:
        say(f"the files stay {UNTIL_COLLECTED}")
    if tables := dict.fromkeys(name for one in result.streams for name in one.tables):
        say(f"tables made from them stay: {', '.join(map(shown, tables))}; see 'singerlake project drop'")
    for each in result.failed:
        say_failure(each, "dropped, and then failed" if each.dropped else "not dropped")
    say_findings(result.findings)


def _say_gone(gone: Sequence[StreamDrop], dry_run: bool) -> None:
    """A row for each stream, and what they are together. BYTES are those of all objects."""
    listed, unlisted, attached = (
        _sum(getattr(one, name) for one in gone) for name in ("files", "unlisted", "attached")
    )
    counts = [counted(len(gone), "stream"), files(listed), counted(sum(one.records for one in gone), "record")]
    columns, others = [*_COLUMNS], list[str]()
    if attached.files:
        counts.append(files(attached, attached))
        columns.append(">ATTACHED")
        others.append("attached")
    if unlisted.files:
        counts.append(f"{files(unlisted)} unlisted")
        columns.append(">UNLISTED")
        others.append("unlisted")
    rows = (
        (
            one.tap,
            one.stream,
            f"{one.files.files:,}",
            f"{one.records:,}",
            size((one.files + one.unlisted + one.attached).bytes),
            *(f"{getattr(one, name).files:,}" for name in others),
        )
        for one in gone
    )
    table(columns, rows, caption=f"{'would be dropped' if dry_run else 'dropped'}: {', '.join(counts)}")


def _sum(tallies: Iterable[Tally]) -> Tally:
    return sum(tallies, NONE)


def _say_run(result: DropRunResult) -> None:
    for one in result.streams:
        say_erased(one, always=False)
    say_tables(result.streams)
    for each in result.failed:
        say_failure(each, "dropped, at least in part, and then failed" if each.dropped else "not dropped")
    for one in result.streams:
        say_findings(one.findings)
