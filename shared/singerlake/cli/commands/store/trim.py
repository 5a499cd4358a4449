"""``singerlake store trim``: removing transactions that a snapshot covers."""

from __future__ import annotations

from functools import partial

import click

from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import command, examples
from singerlake.cli.options import result_options, shows_first, streams_options, with_lake
from singerlake.cli.output import counted, name_of, say, show, shown
from singerlake.lake import Lake
from singerlake.upkeep.defaults import KEPT
from singerlake.upkeep.trim import StreamTrim, TrimFailure, TrimResult


@examples("singerlake store trim lake", "singerlake store trim lake --keep 50 --yes")
@command("Remove transactions that a snapshot covers.")
@partial(with_lake, stores=True)
@streams_options
@click.option(
    "--keep", type=click.IntRange(0), default=KEPT, show_default=True, metavar="N", help="Keep the last N of a stream."
)
@shows_first("--yes", "Remove them")
@result_options
def trim(lake: Lake, tap: str | None, stream: str | None, keep: int, dry_run: bool) -> int:
    """Remove transactions that a snapshot covers, except the last ones of each stream.

    Shows what would be removed; removes it only with --yes. Writers and readers may run meanwhile. Exits with 1 if a
    stream could not be trimmed, and with 2 if access was denied.
    """
    result = lake.trim(tap, stream, keep=keep, dry_run=dry_run)
    show(result, _say)
    return exit_code(each.error for each in result.failed)


def _say(result: TrimResult) -> None:
    for each in result.streams:
        what = shown(each.trouble) if isinstance(each, TrimFailure) else _said(each, result.dry_run)
        say(f"{name_of(each)}: {what}", problem=isinstance(each, TrimFailure))


def _said(outcome: StreamTrim, dry_run: bool) -> str:
    if not outcome.keys:
        return "nothing to remove"
    verb = "would be" if dry_run else "were" if outcome.keys > 1 else "was"
    return f"{counted(outcome.keys, 'record')} up to transaction {outcome.floor} {verb} deleted"
