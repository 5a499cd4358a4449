"""``singerlake store migrate``: moves streams from one manifest store to another."""

from __future__ import annotations

from functools import partial

import click

from singerlake.adapters import MANIFEST_STORES
from singerlake.cli.help import command, examples
from singerlake.cli.options import result_options, shows_first, streams_options, with_lake
from singerlake.cli.output import counted, is_asked, name_of, say, say_json, shown
from singerlake.lake import Lake
from singerlake.upkeep.migrate import Migration, NewStreams
from singerlake.upkeep.result import Failure


@examples("singerlake store migrate lake --to log", "singerlake store migrate lake --to log --yes")
@command("Move streams to another manifest store.")
@partial(with_lake, stores=True)
@click.option(
    "--to", "kind", required=True, type=click.Choice(MANIFEST_STORES), help="The manifest store to move them to."
)
@streams_options
@shows_first("--yes", "Move them")
@result_options
def migrate(lake: Lake, kind: str, tap: str | None, stream: str | None, dry_run: bool) -> int:
    """Move streams to another manifest store.

    Shows what would be moved; moves it only with --yes. Offsets, lineage, runs and transaction numbers stay, so readers
    notice nothing; writers that run meanwhile change to the new store. Without --tap and --stream the whole lake is
    moved, and later streams begin in the new store. If it stops half-way, run it again: it continues where it stopped.
    Until then the stream that was being moved may refuse writers. Exits with 1 if something could not be moved.
    """

    def say_outcome(outcome: Migration | Failure | NewStreams) -> None:
        if isinstance(outcome, NewStreams):
            say(f"root metadata: {'would be written' if dry_run else 'written'}; new streams get {outcome.store}")
            return
        what = shown(_said(outcome, dry_run))
        say(f"{name_of(outcome)}: {what}", problem=isinstance(outcome, Failure))

    as_json = is_asked("json")
    result = lake.migrate(kind, tap, stream, dry_run=dry_run, moved=say_outcome if not as_json else lambda _: None)
    if as_json:
        say_json(result)
    return 1 if result.failed else 0


def _said(outcome: Migration | Failure, dry_run: bool) -> str:
    if isinstance(outcome, Failure):
        return f"not moved: {outcome.error}"
    if outcome.transaction is None:
        return "has no state yet"
    holds = f"{counted(outcome.files, 'file')}, {counted(outcome.messages, 'message')}"
    if not outcome.needed:
        return f"is in {outcome.target} already, {holds}"
    verb = "would be moved" if dry_run else "moved"
    again = ", to end what was begun" if outcome.resumed else ""
    return f"{verb} from {outcome.source} to {outcome.target} at transaction {outcome.transaction}, {holds}{again}"
