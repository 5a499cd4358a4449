"""``singerlake store ls``: which manifest store keeps each stream."""

from __future__ import annotations

from functools import partial

from singerlake.cli.help import command, examples
from singerlake.cli.options import result_options, streams_options, with_lake
from singerlake.cli.output import SEE_BELOW, count_streams, lake_named, say_troubles, show, table
from singerlake.lake import Lake
from singerlake.upkeep.reports.stores import StoreStatusResult, StreamStore

_COLUMNS = ("TAP", "STREAM", "STORE", ">TRANSACTION", ">PUBLISHED", ">TAIL", ">FLOOR")


@examples("singerlake store ls lake", "singerlake store ls lake --tap my-tap --json")
@command("List the manifest store of each stream, with its transactions.")
@partial(with_lake, stores=True)
@streams_options
@result_options
def ls(lake: Lake, tap: str | None, stream: str | None) -> int:
    """List the manifest store of each stream, with its transactions.

    TRANSACTION is the newest number, PUBLISHED the number in manifest.json, TAIL the transactions between them, and
    FLOOR the number up to which a log was trimmed. Exits with 1 if a state is missing or cannot be read, or if a
    migration of the stream is not finished.
    """
    result = lake.store_status(tap, stream)
    show(result, _say)
    return 1 if any(each.trouble for each in result.streams) else 0


def _say(result: StoreStatusResult) -> None:
    caption = f"{lake_named(result.lake)}: {count_streams(result.streams)}; new ones get {result.default}"
    table(_COLUMNS, map(_row, result.streams), caption=caption)
    say_troubles(result.streams)


def _row(kept: StreamStore) -> tuple[str, ...]:
    numbers = (kept.transaction, kept.published, kept.tail, kept.floor)
    store = kept.store or ""
    if kept.trouble:
        store = f"! {store}" if store else SEE_BELOW
    return kept.tap, kept.stream, store, *("" if each is None else str(each) for each in numbers)
