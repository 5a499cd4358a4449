"""``singerlake status``: the last runs of each stream, what they moved and how they ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import click
from msgspec import to_builtins

from singerlake.cli.options import json_option, stream_option, tap_option, with_lake
from singerlake.cli.output import Column, checks_in_short, counted, say, say_json, second, shown, size, table
from singerlake.clock import parse_timestamp
from singerlake.errors import LakeError, SingerlakeError, expected_errors
from singerlake.format.state.model import CAPTURE, Manifest
from singerlake.format.state.table_versions import unactivated
from singerlake.lake import Lake
from singerlake.tables.maintain.status import Standing, standing_of
from singerlake.tables.state.commit import load
from singerlake.tables.state.model import TableRun
from singerlake.upkeep.lock_files import LockFile, locks_of
from singerlake.upkeep.reports.runs import Tracked, last_signs, track
from singerlake.work.parallel import THREADS, in_parallel

_COLUMNS = (
    Column("TAP", folds=True),
    Column("STREAM", folds=True),
    Column("KIND"),
    Column("STARTED (UTC)"),
    Column("TOOK", number=True),
    Column("OUTCOME"),
    Column("FILES", number=True),
    Column("RECORDS", number=True),
    Column("BYTES", number=True),
    Column("WRITER", folds=True),
)
_TABLE_COLUMNS = (
    Column("TABLE", folds=True),
    Column("STREAM", folds=True),
    Column("KIND"),
    Column("ENDED (UTC)"),
    Column("RECORDS", number=True),
    Column("NEW", number=True),
    Column("CHANGED", number=True),
    Column("GONE", number=True),
    Column("CHECKS"),
    Column("BEHIND", number=True),
)


@dataclass(frozen=True, slots=True)
class _StreamStatus:
    """``manifest`` is None where ``trouble`` says why."""

    tap: str
    stream: str
    manifest: Manifest | None
    locks: tuple[LockFile, ...]
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class _TableStatus:
    """``standing`` is None where ``trouble`` says why."""

    table: str
    standing: Standing | None
    trouble: str | None = None


@click.command(short_help="List the last runs of each stream and table: what they did and how they ended.")
@with_lake
@tap_option
@stream_option
@click.option(
    "--runs",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="How many captures of each stream, runs of maintenance, and runs of each table, the newest first.",
)
@json_option
@click.pass_context
def status(ctx: click.Context, lake: Lake, tap: str | None, stream: str | None, runs: int, as_json: bool) -> None:
    """List the last runs of each stream and table: what they did and how they ended.

    A run is 'running', 'completed', 'failed' (its input had an error), 'interrupted' (by a signal) or 'lost': it has no
    outcome, has committed nothing for an hour, and holds no lock. A star marks a writer that holds a lock of the stream
    now. KIND is 'capture', or the maintenance that changed the stream. Times are those of the writers' clocks.
    BEHIND counts messages of the stream that a table does not hold yet. A warning names each stream whose records came
    with a new version that no ACTIVATE_VERSION followed. Exits with 1 if a stream's manifest or a table's state is
    missing or cannot be read.
    """
    statuses = list(in_parallel(lambda pair: _looked_at(lake, *pair), lake.chosen(tap, stream), threads=THREADS))
    signs = last_signs(each.manifest for each in statuses if each.manifest)
    now = lake.clock.now()
    tracked = {(each.tap, each.stream): _runs(each, signs, now, runs) for each in statuses}
    known = {(each.tap, each.stream): each.manifest for each in statuses}
    found = in_parallel(lambda name: _table_looked_at(lake, name, known), lake.tables(), threads=THREADS)
    # Of a table that cannot be read nobody knows the stream.
    tables = [each for each in found if tap is None or each.standing is None or _source(each.standing) in known]
    if as_json:
        report = {
            "lake": lake.storage.url,
            "streams": [_json(each, tracked[each.tap, each.stream]) for each in statuses],
            "tables": [_table_json(each, runs) for each in tables],
        }
        say_json(report)
    else:
        _table(lake, statuses, tracked)
        if tables:
            _tables(lake, tables, runs)
    ctx.exit(1 if any(each.trouble for each in statuses) or any(each.trouble for each in tables) else 0)


def _looked_at(lake: Lake, tap: str, stream: str) -> _StreamStatus:
    locks = tuple(locks_of(lake.storage, tap, stream))
    try:
        # Never from the data files: nothing but a state remembers runs.
        manifest = lake.stream(tap, stream).state()
    except LakeError as error:
        return _StreamStatus(tap, stream, None, locks, f"{error.message}; {error.hint}")
    return _StreamStatus(tap, stream, manifest, locks, None if manifest else "no manifest; run 'singerlake rebuild'")


def _table_looked_at(lake: Lake, name: str, known: Mapping[tuple[str, str], Manifest | None]) -> _TableStatus:
    try:
        with expected_errors(table=name):
            found = load(lake.storage, name)
            if found is None or not found.state.is_published:
                return _TableStatus(name, None, "begun, and not made yet; run 'singerlake project run'")
            if not found.state.sources:
                return _TableStatus(name, standing_of(found.state, None))
            source = found.state.sources[0]
            pair = (source.tap, source.stream)
            manifest = known[pair] if pair in known else lake.stream(*pair).state()
            return _TableStatus(name, standing_of(found.state, manifest))
    except SingerlakeError as error:
        return _TableStatus(name, None, f"{error.message}; {error.hint}")


def _source(standing: Standing) -> tuple[str, str] | None:
    return (standing.source.tap, standing.source.stream) if standing.source is not None else None


def _runs(status: _StreamStatus, signs: Mapping[str, datetime], now: datetime, last: int) -> tuple[Tracked, ...]:
    if status.manifest is None:
        return ()
    return track(status.manifest, status.locks, signs, now=now, last=last)


def _table(lake: Lake, statuses: list[_StreamStatus], tracked: Mapping[tuple[str, str], tuple[Tracked, ...]]) -> None:
    rows: list[tuple[str, ...]] = []
    for each in statuses:
        runs = tracked[each.tap, each.stream]
        if each.trouble:
            rows.append((each.tap, each.stream, f"! {each.trouble}", *[""] * 7))
        elif not runs:
            rows.append((each.tap, each.stream, "", "", "", "no runs", *[""] * 4))
        rows += [_row(each, run) for run in runs]
    captures = [[run for run in runs if run.kind == CAPTURE] for runs in tracked.values()]
    newest = [runs[0].outcome for runs in captures if runs]
    outcomes = ", ".join(f"{newest.count(outcome):,} {outcome}" for outcome in sorted(set(newest)))
    totals = counted(len(statuses), "stream") + (f"; newest captures: {outcomes}" if outcomes else "")
    table(_COLUMNS, rows, caption=f"{shown(lake.storage.url)}: {totals}")
    for each in statuses:
        if each.manifest and (left := unactivated(each.manifest)):
            say(
                f"{shown(each.tap)}/{shown(each.stream)}: records of run {shown(left.run.id)} have version "
                f"{left.version}, and no ACTIVATE_VERSION followed, so tables keep rows that are gone at the "
                "source; a mapper may have dropped it",
                problem=True,
            )


def _row(status: _StreamStatus, run: Tracked) -> tuple[str, ...]:
    return (
        status.tap,
        status.stream,
        run.kind,
        second(run.started) if run.started else "",
        str(timedelta(seconds=int(run.seconds))) if run.seconds is not None else "",
        run.outcome + (" *" if run.locked else ""),
        f"{run.files:,}",
        f"{run.records:,}",
        size(run.bytes),
        run.writer,
    )


def _tables(lake: Lake, statuses: list[_TableStatus], last: int) -> None:
    rows: list[tuple[str, ...]] = []
    for each in statuses:
        if each.standing is None:
            rows.append((each.table, f"! {each.trouble}", *[""] * 8))
            continue
        for run in each.standing.runs[:last]:
            rows.append(_table_row(each.standing, run))
    behind = sum(bool(each.standing and each.standing.behind) for each in statuses)
    totals = counted(len(statuses), "table") + (f", {behind:,} behind" if behind else "")
    say("")
    table(_TABLE_COLUMNS, rows, caption=f"{shown(lake.storage.url)}: {totals}")


def _table_row(standing: Standing, run: TableRun) -> tuple[str, ...]:
    """Of a table's figures those that hold now stand beside its newest run."""
    newest = run is standing.last_run
    at = parse_timestamp(run.at)
    return (
        standing.table,
        standing.source_text,
        run.kind,
        second(at) if at else "",
        *(f"{count:,}" for count in (run.records, run.inserted, run.updated, run.deleted)),
        checks_in_short(len(standing.checks) if newest else 0, sum(run.checks.values())),
        f"{standing.behind:,}" if newest and standing.behind is not None else "",
    )


def _table_json(status: _TableStatus, last: int) -> dict[str, Any]:
    standing = status.standing
    source = standing.source if standing else None
    return {
        "table": status.table,
        "tap": source.tap if source else None,
        "stream": source.stream if source else None,
        "offset": source.offset if source else None,
        "made_from": standing.made_from if standing else [],
        "behind": standing.behind if standing else None,
        "checks": len(standing.checks) if standing else None,
        "runs": [to_builtins(run) for run in standing.runs[:last]] if standing else [],
        "trouble": status.trouble,
    }


def _json(status: _StreamStatus, runs: tuple[Tracked, ...]) -> dict[str, Any]:
    manifest = status.manifest
    left = unactivated(manifest) if manifest else None
    return {
        "tap": status.tap,
        "stream": status.stream,
        "store": manifest.store if manifest else None,
        "transaction": manifest.transaction.number if manifest else None,
        "runs": [{**asdict(run), "id": run.id or None} for run in runs],
        "locks": [
            {"key": held.key, "writer": held.body.writer_id if held.body else None, "changed": held.changed}
            for held in status.locks
            if not held.free
        ],
        "unactivated": {"version": left.version, "run": left.run.id} if left else None,
        "trouble": status.trouble,
    }
