"""``singerlake lock``: shows who holds which lock, and takes one away from a writer that is gone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import click

from singerlake.cli.help import Documented, examples
from singerlake.cli.options import Names, result_options, shows_first, streams_options, with_lake
from singerlake.cli.output import is_asked, json_of, say, say_json, second, show, shown, table
from singerlake.clock import parse_timestamp
from singerlake.lake import Lake
from singerlake.upkeep.lock_files import Lock, LocksResult

_COLUMNS = ("KEY", "WRITER", "ACQUIRED (UTC)", "REFRESHED (UTC)", ">UNCHANGED FOR")


@click.group()
def lock() -> None:
    """Show the locks of writers, or break one."""


@examples("singerlake lock ls lake", "singerlake lock ls lake --tap my-tap --json")
@lock.command("ls", cls=Documented, short_help="List the locks that writers hold, with their age.")
@with_lake
@streams_options
@result_options
def ls(lake: Lake, tap: str | None, stream: str | None) -> None:
    """List the locks that writers hold, with their age since the storage last saw them change."""
    show(lake.locks(tap, stream), _say)


def _say(held: LocksResult) -> None:
    if held.locks:
        table(_COLUMNS, map(_row, held.locks))
    else:
        say("no locks")


@examples(
    "singerlake lock break lake raw/my-tap/users/singerlake.lock",
    "singerlake lock break lake --tap my-tap --stream users --yes",
)
@lock.command("break", cls=Documented, short_help="Release the lock of a writer that is gone.")
@partial(with_lake, names=Names(("key",), optional=True))
@streams_options
@shows_first("--yes", "Release it")
@result_options
def break_(lake: Lake, key: str | None, tap: str | None, stream: str | None, dry_run: bool) -> int:
    """Release the lock of a dead writer.

    Shows whose lock it is; breaks it only with --yes. KEY is as 'lock ls' shows it; with --tap and --stream instead,
    all locks of that stream. Writers take over the lock of a dead writer by themselves; this is for when you cannot
    wait. A lock that changes meanwhile is left alone. A writer that is still alive loses no data, because commits do
    not depend on locks.
    """
    if (key is None) == (tap is None):
        raise click.UsageError("name one KEY, or --tap and --stream")
    if key is None and stream is None:
        raise click.UsageError("--tap needs --stream")
    held = lake.locks(tap, stream, key=key)
    if is_asked("json"):
        broken = [] if dry_run else [lake.break_lock(one) for one in held.locks]
        say_json({"dry_run": dry_run, **json_of(held), "broken": broken})
    else:
        broken = _break(lake, held.locks, dry_run)
    return 0 if all(broken) else 1


def _break(lake: Lake, held: Sequence[Lock], dry_run: bool) -> list[bool]:
    if not held:
        say("no locks")
    for one in held:
        say(f"{shown(one.key)}: {'would be broken: ' if dry_run else ''}{_whose(one)}")
    broken = [] if dry_run else [lake.break_lock(one) for one in held]
    for one, done in zip(held if broken else (), broken, strict=True):
        say(f"{shown(one.key)}: {'broken' if done else 'changed meanwhile; left alone'}")
    return broken


def _whose(one: Lock) -> str:
    since = f"unchanged for {_short(one)}"
    if one.writer is None or one.acquired is None:
        return f"not readable, {since}"
    return f"writer {shown(one.writer)} since {shown(_moment(one.acquired))} UTC, {since}"


def _moment(text: str | None) -> str:
    """A time of a lock, which a writer's hand may have spelled otherwise."""
    moment = parse_timestamp(text) if text else None
    return second(moment) if moment else text or ""


def _short(one: Lock) -> str:
    return str(timedelta(seconds=one.unchanged_seconds))


def _row(one: Lock) -> tuple[str, ...]:
    writer = "! not readable" if one.writer is None else one.writer
    return one.key, writer, _moment(one.acquired), _moment(one.refreshed), _short(one)
