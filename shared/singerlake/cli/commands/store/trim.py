"""``singerlake store trim``: removing transactions that a snapshot covers."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import click

from singerlake.cli.exit_codes import exit_code
from singerlake.cli.options import json_option, quiet_option, stream_option, tap_option, with_lake
from singerlake.cli.output import counted, say, say_json, shown
from singerlake.errors import LostStateError, SingerlakeError
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.stores.port import Trimmed
from singerlake.stores.publish import published

KEPT = 200
"""Transactions a trim leaves, as Sleeper's does: what a slow reader may still be following."""


@click.command("trim", short_help="Remove transactions that a snapshot covers.")
@partial(with_lake, stores=True)
@tap_option
@stream_option
@click.option(
    "--keep", type=click.IntRange(0), default=KEPT, show_default=True, metavar="N", help="Keep the last N of a stream."
)
@click.option("--yes", is_flag=True, help="Remove them; otherwise only show what would be removed.")
@json_option
@quiet_option
@click.pass_context
def trim(
    ctx: click.Context, lake: Lake, tap: str | None, stream: str | None, keep: int, yes: bool, as_json: bool
) -> None:
    """Remove transactions that a snapshot covers, except the last ones of each stream.

    Shows what would be removed; removes it only with --yes. Writers and readers may run meanwhile. Exits with 1 if a
    stream could not be trimmed, and with 2 if access was denied.
    """
    done: list[tuple[str, str, Trimmed | SingerlakeError]] = []
    for name, each in lake.chosen(tap, stream):
        done.append((name, each, _trimmed(lake, name, each, keep=keep, dry_run=not yes)))
    if as_json:
        say_json({"lake": lake.storage.url, "dry_run": not yes, "streams": [_trim_json(*one) for one in done]})
    else:
        for name, each, outcome in done:
            failed = isinstance(outcome, SingerlakeError)
            what = shown(str(outcome)) if isinstance(outcome, SingerlakeError) else _said(outcome, dry_run=not yes)
            say(f"{shown(name)}/{shown(each)}: {what}", problem=failed)
    ctx.exit(exit_code(outcome for _, _, outcome in done if isinstance(outcome, SingerlakeError)))


def _trimmed(lake: Lake, tap: str, stream: str, *, keep: int, dry_run: bool) -> Trimmed | SingerlakeError:
    there = lake.stream(tap, stream)
    try:
        published(lake.storage, layout.manifest_key(tap, stream))
        kind = there.kind()
        if kind is None:
            return LostStateError("no state", hint="run 'singerlake rebuild'")
        return there.store(kind).trim(keep=keep, dry_run=dry_run)
    except SingerlakeError as error:
        return error


def _said(outcome: Trimmed, *, dry_run: bool) -> str:
    if not outcome.keys:
        return "nothing to remove"
    verb = "would be" if dry_run else "were" if outcome.keys > 1 else "was"
    return f"{counted(outcome.keys, 'record')} up to transaction {outcome.floor} {verb} removed"


def _trim_json(tap: str, stream: str, outcome: Trimmed | SingerlakeError) -> dict[str, Any]:
    if isinstance(outcome, SingerlakeError):
        return {"tap": tap, "stream": stream, "trouble": str(outcome), "error": outcome}
    return {"tap": tap, "stream": stream, **asdict(outcome), "trouble": None, "error": None}
