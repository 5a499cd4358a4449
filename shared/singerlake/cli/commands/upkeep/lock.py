"""``singerlake lock``: shows who holds which lock, and takes one away from a writer that is gone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from singerlake.cli.options import json_option, stream_option, tap_option, with_lake
from singerlake.cli.output import Column, say, say_json, shown, table
from singerlake.errors import UnknownNameError
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.upkeep.lock_files import LockFile, break_lock, locks_of, read_lock

_COLUMNS = (
    Column("KEY", folds=True),
    Column("WRITER", folds=True),
    Column("ACQUIRED", folds=True),
    Column("REFRESHED", folds=True),
    Column("UNCHANGED FOR", number=True),
)


@click.group()
def lock() -> None:
    """Show the locks of writers, or break one."""


@lock.command("ls", short_help="List the locks that writers hold, with their age.")
@with_lake
@tap_option
@stream_option
@json_option
def ls(lake: Lake, tap: str | None, stream: str | None, as_json: bool) -> None:
    """List the locks that writers hold, with their age since the storage last saw them change."""
    locks = [held for pair in lake.chosen(tap, stream) for held in locks_of(lake.storage, *pair)]
    locks = [held for held in locks if not held.free]
    if as_json:
        say_json({"lake": lake.storage.url, "locks": [_json(lake, held) for held in locks]})
    elif locks:
        table(_COLUMNS, (_row(lake, held) for held in locks))
    else:
        say("no locks")


@lock.command("break", short_help="Release the lock of a writer that is gone.")
@with_lake
@click.argument("key", required=False)
@tap_option
@stream_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def break_(ctx: click.Context, lake: Lake, key: str | None, tap: str | None, stream: str | None, yes: bool) -> None:
    """Release the lock of a dead writer.

    KEY is as 'lock ls' shows it; with --tap and --stream instead, all locks of that stream. Writers take over the lock
    of a dead writer by themselves; this is for when you cannot wait. A lock that changes meanwhile is left alone. A
    writer that is still alive loses no data, because commits do not depend on locks.
    """
    held = _chosen(lake, key, tap, stream)
    if not held:
        say("no locks")
    for one in held:
        say(f"{shown(one.key)}: {_whose(lake, one)}")
    if not held or not (yes or click.confirm("Break?" if len(held) == 1 else f"Break all {len(held)}?")):
        ctx.exit(0 if not held else 1)
    kept = [one for one in held if not break_lock(lake.storage, one, clock=lake.clock, ids=lake.ids)]
    for one in held:
        say(f"{shown(one.key)}: {'changed meanwhile; left alone' if one in kept else 'broken'}")
    ctx.exit(1 if kept else 0)


def _chosen(lake: Lake, key: str | None, tap: str | None, stream: str | None) -> list[LockFile]:
    if (key is None) == (tap is None):
        raise click.UsageError("name one KEY, or --tap and --stream")
    if key is None:
        if stream is None:
            raise click.UsageError("--tap needs --stream")
        return [held for pair in lake.chosen(tap, stream) for held in locks_of(lake.storage, *pair) if not held.free]
    if not key.startswith(f"{layout.RAW}/") or key.rpartition("/")[2] != layout.LOCK:
        raise UnknownNameError("not the key of a lock", hint="see 'singerlake lock ls'", key=key)
    lock = read_lock(lake.storage, key)
    if lock is None:
        raise UnknownNameError("no lock has this key", hint="see 'singerlake lock ls'", key=key)
    return [] if lock.free else [lock]


def _age(lake: Lake, held: LockFile) -> timedelta:
    """By this machine's clock, so only for the eye: writers judge a lock by whether it changes."""
    return max(timedelta(), lake.clock.now() - held.changed)


def _whose(lake: Lake, held: LockFile) -> str:
    since = f"unchanged for {_short(_age(lake, held))}"
    if held.body is None:
        return f"not readable, {since}"
    return f"writer {shown(held.body.writer_id)} since {shown(held.body.acquired)}, {since}"


def _short(age: timedelta) -> str:
    return str(timedelta(seconds=int(age.total_seconds())))


def _row(lake: Lake, held: LockFile) -> tuple[str, ...]:
    body = held.body
    names = (body.writer_id, body.acquired, body.refreshed) if body else ("! not readable", "", "")
    return held.key, *names, _short(_age(lake, held))


def _json(lake: Lake, held: LockFile) -> dict[str, Any]:
    body = held.body
    return {
        "key": held.key,
        "writer": body.writer_id if body else None,
        "acquired": body.acquired if body else None,
        "refreshed": body.refreshed if body else None,
        "changed": held.changed,
        "unchanged_seconds": int(_age(lake, held).total_seconds()),
    }
