"""``singerlake store trim``: removing transactions that a snapshot covers."""

from __future__ import annotations

from functools import partial

import click

from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import Documented
from singerlake.cli.options import json_option, quiet_option, shows_first, stream_option, tap_option, with_lake
from singerlake.cli.output import counted, say, say_json, shown
from singerlake.lake import Lake
from singerlake.upkeep.defaults import KEPT
from singerlake.upkeep.trim import StreamTrim, TrimFailure


@click.command(
    "trim",
    short_help="Remove transactions that a snapshot covers.",
    cls=Documented,
    examples=("singerlake store trim lake", "singerlake store trim lake --keep 50 --yes"),
)
@partial(with_lake, stores=True)
@tap_option
@stream_option
@click.option(
    "--keep", type=click.IntRange(0), default=KEPT, show_default=True, metavar="N", help="Keep the last N of a stream."
)
@shows_first("--yes", "Remove them")
@json_option
@quiet_option
@click.pass_context
def trim(
    ctx: click.Context, lake: Lake, tap: str | None, stream: str | None, keep: int, dry_run: bool, as_json: bool
) -> None:
    """Remove transactions that a snapshot covers, except the last ones of each stream.

    Shows what would be removed; removes it only with --yes. Writers and readers may run meanwhile. Exits with 1 if a
    stream could not be trimmed, and with 2 if access was denied.
    """
    result = lake.trim(tap, stream, keep=keep, dry_run=dry_run)
    if as_json:
        say_json(result)
    else:
        for each in result.streams:
            what = shown(each.trouble) if isinstance(each, TrimFailure) else _said(each, dry_run=dry_run)
            say(f"{shown(each.tap)}/{shown(each.stream)}: {what}", problem=isinstance(each, TrimFailure))
    ctx.exit(exit_code(each.error for each in result.failed))


def _said(outcome: StreamTrim, *, dry_run: bool) -> str:
    if not outcome.keys:
        return "nothing to remove"
    verb = "would be" if dry_run else "were" if outcome.keys > 1 else "was"
    return f"{counted(outcome.keys, 'record')} up to transaction {outcome.floor} {verb} deleted"
