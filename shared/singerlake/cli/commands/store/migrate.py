"""``singerlake store migrate``: moves streams from one manifest store to another."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import click

from singerlake.adapters import MANIFEST_STORES
from singerlake.cli.options import (
    json_option,
    quiet_option,
    stream_option,
    tap_option,
    with_lake,
)
from singerlake.cli.output import counted, say, say_json, shown
from singerlake.errors import ConfigurationError, SingerlakeError
from singerlake.lake import Lake
from singerlake.upkeep.file_count import Tally
from singerlake.upkeep.migrate import Migration, migrate_stream
from singerlake.upkeep.rebuild.caches import use_manifest_store
from singerlake.upkeep.record_run import record_run

Pair = tuple[str, str]
Outcome = Migration | SingerlakeError
"""What was done to a stream, or why it could not be."""


@click.command("migrate", short_help="Move streams to another manifest store.")
@partial(with_lake, stores=True)
@click.option(
    "--to", "kind", required=True, type=click.Choice(MANIFEST_STORES), help="The manifest store to move them to."
)
@tap_option
@stream_option
@click.option("--dry-run", is_flag=True, help="Show what would be moved and change nothing.")
@json_option
@quiet_option
@click.pass_context
def migrate(
    ctx: click.Context, lake: Lake, kind: str, tap: str | None, stream: str | None, dry_run: bool, as_json: bool
) -> None:
    """Move streams to another manifest store.

    Offsets, lineage, runs and transaction numbers stay, so readers notice nothing; writers that run meanwhile change to
    the new store. Without --tap and --stream the whole lake is moved, and later streams begin in the new store. If it
    stops half-way, run it again: it continues where it stopped. Until then the stream that was being moved may refuse
    writers. Exits with 1 if something could not be moved.
    """
    # Before anything moves: a database knows the lake by it.
    lake_id = lake.known_lake_id() or lake.ids() if dry_run else lake.lake_id()
    outcomes = _move(lake, lake.chosen(tap, stream), kind, dry_run, quiet=as_json)
    root = False
    if tap is None and not any(isinstance(outcome, SingerlakeError) for outcome in outcomes.values()):
        root = use_manifest_store(lake.storage, kind, lake_id=lake_id, dry_run=dry_run)
        if root and not as_json:
            say(f"root metadata: {'would be written' if dry_run else 'written'}; new streams get {kind}")
        # Those that were born in the old store while the others were moved.
        late = [pair for pair in lake.chosen(None, None) if not dry_run and _is_late(lake, pair, outcomes)]
        outcomes |= _move(lake, late, kind, dry_run, quiet=as_json)
    if as_json:
        say_json(_json(lake, outcomes, kind, root, dry_run))
    ctx.exit(1 if any(isinstance(outcome, SingerlakeError) for outcome in outcomes.values()) else 0)


def _move(lake: Lake, pairs: list[Pair], kind: str, dry_run: bool, *, quiet: bool) -> dict[Pair, Outcome]:
    outcomes: dict[Pair, Outcome] = {}
    for pair in pairs:
        outcomes[pair] = _moved(lake, pair, kind, dry_run)
        if not quiet:
            what, failed = shown(_said(outcomes[pair], dry_run)), isinstance(outcomes[pair], SingerlakeError)
            say(f"{shown(pair[0])}/{shown(pair[1])}: {what}", problem=failed)
    return outcomes


def _moved(lake: Lake, pair: Pair, kind: str, dry_run: bool) -> Outcome:
    """The others are moved even if one cannot be. Wrong settings would for all of them: they are raised."""
    there, started = lake.stream(*pair), lake.clock.now()
    try:
        old, new = there.context(), there.context(kind)
        moved = migrate_stream(old, new.store, dry_run=dry_run)
        if moved.needed and not dry_run:
            files = Tally(moved.files, 0)
            record_run(new, "migrate", files, started=started, wait=False)
        return moved
    except ConfigurationError:
        raise
    except SingerlakeError as error:
        return error


def _is_late(lake: Lake, pair: Pair, outcomes: dict[Pair, Outcome]) -> bool:
    outcome = outcomes.get(pair)
    return (not isinstance(outcome, Migration) or outcome.transaction is None) and lake.stream(*pair).kind() is not None


def _said(outcome: Outcome, dry_run: bool) -> str:
    if isinstance(outcome, SingerlakeError):
        return f"not moved: {outcome}"
    if outcome.transaction is None:
        return "has no state yet"
    holds = f"{counted(outcome.files, 'file')}, {counted(outcome.messages, 'message')}"
    if not outcome.needed:
        return f"is in {outcome.target} already, {holds}"
    verb = "would be moved" if dry_run else "moved"
    again = ", to end what was begun" if outcome.resumed else ""
    return f"{verb} from {outcome.source} to {outcome.target} at transaction {outcome.transaction}, {holds}{again}"


def _json(lake: Lake, outcomes: dict[Pair, Outcome], kind: str, root: bool, dry_run: bool) -> dict[str, Any]:
    return {
        "lake": lake.storage.url,
        "to": kind,
        "dry_run": dry_run,
        "streams": [asdict(outcome) for outcome in outcomes.values() if isinstance(outcome, Migration)],
        "root_metadata": root,
        "failed": [
            {"tap": tap, "stream": stream, "error": outcome}
            for (tap, stream), outcome in outcomes.items()
            if isinstance(outcome, SingerlakeError)
        ],
    }
