"""``singerlake store ls``: which manifest store keeps each stream."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import click

from singerlake.cli.options import json_option, stream_option, tap_option, with_lake
from singerlake.cli.output import Column, counted, say, say_json, shown, table
from singerlake.errors import SingerlakeError
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.stores.publish import published
from singerlake.work.parallel import THREADS, in_parallel

_COLUMNS = (
    Column("TAP", folds=True),
    Column("STREAM", folds=True),
    Column("STORE"),
    Column("TRANSACTION", number=True),
    Column("PUBLISHED", number=True),
    Column("TAIL", number=True),
    Column("FLOOR", number=True),
)
_NO_STATE = "no state; run 'singerlake rebuild'"


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """Where a stream's state is. ``transaction`` is the newest, ``published`` the one in ``manifest.json``, ``tail``
    how many lie between; transactions up to ``floor`` were trimmed. ``moving_to``: it is on its way to that store.
    ``trouble`` says why figures are missing, ``error`` the error that it came from."""

    tap: str
    stream: str
    store: str | None = None
    transaction: int | None = None
    published: int | None = None
    tail: int | None = None
    floor: int | None = None
    moving_to: str | None = None
    trouble: str | None = None
    error: SingerlakeError | None = None


@click.command("ls", short_help="List the manifest store of each stream, with its transactions.")
@partial(with_lake, stores=True)
@tap_option
@stream_option
@json_option
@click.pass_context
def ls(ctx: click.Context, lake: Lake, tap: str | None, stream: str | None, as_json: bool) -> None:
    """List the manifest store of each stream, with its transactions.

    TRANSACTION is the newest number, PUBLISHED the number in manifest.json, TAIL the transactions between them, and
    FLOOR the number up to which a log was trimmed. Exits with 1 if a state is missing or cannot be read, or if a
    migration of the stream is not finished.
    """
    pairs = lake.chosen(tap, stream)
    statuses = list(in_parallel(lambda pair: _kept(lake, *pair), pairs, threads=THREADS))
    if as_json:
        say_json({"lake": lake.storage.url, "default": _default(lake), "streams": statuses})
    else:
        caption = f"{shown(lake.storage.url)}: {counted(len(statuses), 'stream')}; new ones get {_default(lake)}"
        table(_COLUMNS, map(_row, statuses), caption=caption)
        for each in statuses:
            if each.trouble:
                say(f"{shown(each.tap)}/{shown(each.stream)}: {shown(each.trouble)}")
    ctx.exit(1 if any(each.trouble for each in statuses) else 0)


def _default(lake: Lake) -> str | None:
    metadata = lake.root_metadata()
    return metadata.manifest_store if metadata else None


def _kept(lake: Lake, tap: str, stream: str) -> StoreStatus:
    """What is known of one stream. An error of the stream or its database is part of the answer, so that the others
    are listed."""
    there = lake.stream(tap, stream)
    kind = number = None
    try:
        manifest = published(lake.storage, layout.manifest_key(tap, stream))
        number = manifest.number if manifest else None
        kind = there.kind()
        if kind is None:
            return StoreStatus(tap, stream, trouble=_NO_STATE)
        keeper = there.store(kind)
        loaded = keeper.load()
        if loaded is None:
            return StoreStatus(tap, stream, kind, published=number, trouble="its store has no state of it")
        newest = loaded.manifest.transaction.number
        floor = keeper.trim(keep=newest + 1, dry_run=True).floor
    except SingerlakeError as error:
        return StoreStatus(tap, stream, kind, published=number, trouble=str(error), error=error)
    closed = loaded.manifest.closed
    going = f"is not yet moved to {closed}; run 'singerlake store migrate --to {closed}' again" if closed else None
    return StoreStatus(
        tap=tap,
        stream=stream,
        store=kind,
        transaction=newest,
        published=number,
        tail=newest - (-1 if number is None else number),
        floor=None if floor < 0 else floor,
        moving_to=closed,
        trouble=going,
    )


def _row(kept: StoreStatus) -> tuple[str, ...]:
    numbers = (kept.transaction, kept.published, kept.tail, kept.floor)
    mark = "! " if kept.trouble else ""
    return kept.tap, kept.stream, f"{mark}{kept.store or ''}", *("" if each is None else str(each) for each in numbers)
