"""``singerlake drop``: takes whole streams, or a tap with all of its streams, out of the lake."""

from __future__ import annotations

from functools import partial

import click

from singerlake.cli import completion
from singerlake.cli.erasing import failure, told
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import Documented
from singerlake.cli.options import json_option, quiet_option, shows_first, stream_option, with_lake
from singerlake.cli.output import (
    UNTIL_COLLECTED,
    counted,
    files,
    first_of,
    progress,
    say,
    say_findings,
    say_json,
    shown,
)
from singerlake.lake import Lake
from singerlake.upkeep.drop import DropFailure, DropRunResult, StreamDrop


@click.command(
    short_help="Drop a tap or one of its streams; gc deletes the files after a grace time.",
    cls=Documented,
    examples=(
        "singerlake drop lake --tap my-tap --stream users",
        "singerlake drop lake --tap my-tap --stream users --delete",
    ),
)
@partial(with_lake, stores=True)
@click.option(
    "--tap",
    metavar="TAP",
    required=True,
    shell_complete=completion.taps,
    help="The tap to drop, or whose stream to drop.",
)
@stream_option
@click.option("--run", metavar="ID", help="Drop only the messages that this run of a target brought.")
@shows_first("--delete", "Drop")
@click.option("--now", is_flag=True, help="With --delete: delete the files at once. Readers that still read them fail.")
@json_option
@quiet_option
@click.pass_context
def drop(
    ctx: click.Context,
    lake: Lake,
    tap: str,
    stream: str | None,
    run: str | None,
    dry_run: bool,
    now: bool,
    as_json: bool,
) -> None:
    """Drop a tap with all of its streams, or one stream of it; with --run only what one run brought to them.

    Shows what would be dropped; drops only with --delete. From then on no reader finds the streams. Their files stay
    until 'singerlake gc --delete' has deleted them, which takes two runs, a grace time apart; with --now they go at
    once. A tap that runs again starts the stream anew. Tables made from a stream stay. Exits with 1 if a stream could
    not be dropped, or a file could not be deleted, and with 2 if access was denied.
    """
    if now and dry_run:
        raise click.UsageError("--now needs --delete")
    if run is not None:
        with progress() as report:
            taken = lake.drop_run(tap, run, stream, now=now, dry_run=dry_run, progress=report)
        ctx.exit(_say_run(taken, as_json))
    with progress("files") as report:
        result = lake.drop(tap, stream, now=now, dry_run=dry_run, progress=report)
    if as_json:
        say_json(result)
    else:
        for one in result.streams:
            for line in _told(one, not dry_run, now):
                say(line)
        for each in result.failed:
            _say_failed(each, "dropped, and then failed")
        say_findings(result.findings)
    ctx.exit(exit_code((each.error for each in result.failed), result.findings))


def _say_run(result: DropRunResult, as_json: bool) -> int:
    """Say what was dropped of a run; the exit code."""
    findings = [finding for one in result.streams for finding in one.findings]
    if as_json:
        say_json(result)
    else:
        for one in result.streams:
            if one.messages or one.left:
                for line in told(one):
                    say(line)
            if one.error is not None:
                say(failure(one), problem=True)
        for each in result.failed:
            _say_failed(each, "dropped, at least in part, and then failed")
        say_findings(findings)
    errors = [each.error for each in result.failed] + [one.error for one in result.streams if one.error is not None]
    return exit_code(errors, findings)


def _say_failed(each: DropFailure, begun: str) -> None:
    what = begun if each.dropped else "not dropped"
    say(f"{shown(each.tap)}/{shown(each.stream)}: {what}: {shown(str(each.error))}", problem=True)


def _told(one: StreamDrop, delete: bool, now: bool) -> list[str]:
    """One line for what goes, one for each kind of what stays."""
    name = f"{shown(one.tap)}/{shown(one.stream)}"
    if not one.needed:
        what = "nothing to drop"
    else:
        parts = [files(one.files), counted(one.records, "record")]
        if one.attached.files:
            parts.append(files(one.attached, one.attached))
        if one.unlisted.files:
            parts.append(f"{files(one.unlisted)} unlisted")
        what = f"{'dropped' if delete else 'would be dropped'}: {', '.join(parts)}"
    lines = [f"{name}: {what}"]
    if now:
        lines.append(f"  deleted: {files(one.deleted, one.deleted_attached)}")
    elif delete and (one.files + one.unlisted + one.attached).files:
        lines.append(f"  the files stay {UNTIL_COLLECTED}")
    if one.tables:
        lines.append(f"  tables made from it stay: {', '.join(map(shown, one.tables))}; see 'singerlake project drop'")
    if one.left:
        more = f" and {len(one.left) - 1:,} more" if len(one.left) > 1 else ""
        lines.append(f"  left, since the format does not put such a file there: {shown(one.left[0])}{more}")
    return lines if delete else [*lines, *first_of(one.keys)]
