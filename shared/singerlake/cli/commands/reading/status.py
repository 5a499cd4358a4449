"""``singerlake status``: the last runs of each stream, what they moved and how they ended."""

from __future__ import annotations

from datetime import timedelta

import click

from singerlake.cli.help import command, examples
from singerlake.cli.options import result_options, streams_options, with_lake
from singerlake.cli.output import SEE_BELOW, count_streams, lake_named, say, say_findings, say_troubles, show, table
from singerlake.clock import parse_timestamp
from singerlake.format.state.model import CAPTURE
from singerlake.humanize import checks_in_short, counted, second, size
from singerlake.lake import Lake
from singerlake.tables.maintain.check import of_stream
from singerlake.tables.maintain.status import StatusResult, TableStatus
from singerlake.tables.state.model import TableRun
from singerlake.upkeep.reports.status import LakeRun, RunsResult, StreamStatus, Tracked

_RUN = ("STARTED (UTC)", ">TOOK", "OUTCOME")
_MOVED = (">FILES", ">RECORDS", ">BYTES", "WRITER")
_COLUMNS = ("TAP", "STREAM", "KIND", *_RUN, *_MOVED)
_RUN_COLUMNS = ("TAP", "KIND", *_RUN, ">STREAMS", *_MOVED)
_TABLE_RUNS = ("ENDED (UTC)", ">RECORDS", ">NEW", ">CHANGED", ">GONE", "CHECKS", ">BEHIND")
_TABLE_COLUMNS = ("TABLE", "STREAM", "KIND", *_TABLE_RUNS)


@examples("singerlake status lake", "singerlake status lake --tap my-tap --by-run")
@command("List the last runs of each stream and table: what they did and how they ended.")
@with_lake
@streams_options
@click.option(
    "--runs",
    type=click.IntRange(1),
    help="How many captures of each stream, runs of maintenance, and runs of each table, the newest first (default 3). "
    "With --by-run: how many runs (default 20).",
)
@click.option("--by-run", is_flag=True, help="List runs, one row for all streams of a run, and no tables.")
@result_options
def status(lake: Lake, tap: str | None, stream: str | None, runs: int | None, by_run: bool) -> int:
    """List the last runs of each stream and table: what they did and how they ended.

    A run is 'running', 'completed', 'failed' (its input had an error), 'interrupted' (by a signal) or 'lost': it has no
    outcome, has committed nothing for an hour, and holds no lock. A star marks a writer that holds a lock of the stream
    now. KIND is 'capture', or the maintenance that changed the stream. Times are those of the writers' clocks. A stream
    is stale, and named, when it has been silent for a day or more, and for more than twice the longest pause between
    its last ten captures.
    BEHIND counts messages of the stream that a table does not hold yet. A warning names each stream whose records came
    with a new version that no ACTIVATE_VERSION followed. A run that is killed before its first commit leaves no trace.
    Exits with 1 if the newest capture of a stream failed or is lost, or if a stream's manifest or a table's state is
    missing or cannot be read; with --by-run for such a manifest alone.
    """
    if by_run:
        listed = lake.runs(tap, stream, last=runs or 20)
        show(listed, _say_runs)
        return 1 if listed.findings else 0
    result = lake.status(tap, stream, runs=runs or 3)
    show(result, _say)
    critical = any(found.level == "critical" for each in result.streams for found in of_stream(each))
    return 1 if critical or any(each.trouble for each in result.tables) else 0


def _say(result: StatusResult) -> None:
    rows: list[tuple[str, ...]] = []
    for each in result.streams:
        if each.trouble:
            rows.append((each.tap, each.stream, SEE_BELOW, *[""] * 7))
        elif not each.runs:
            rows.append((each.tap, each.stream, "", "", "", "no runs", *[""] * 4))
        rows += [_row(each, run) for run in each.runs]
    captures = [[run for run in each.runs if run.kind == CAPTURE] for each in result.streams]
    newest = [runs[0].outcome for runs in captures if runs]
    outcomes = ", ".join(f"{newest.count(outcome):,} {outcome}" for outcome in sorted(set(newest)))
    totals = count_streams(result.streams) + (f"; newest captures: {outcomes}" if outcomes else "")
    if stale := sum(each.silence is not None for each in result.streams):
        totals += f"; {stale:,} stale"
    table(_COLUMNS, rows, caption=f"{lake_named(result.lake)}: {totals}")
    for each in result.streams:
        for finding in of_stream(each):
            say(f"{finding.subject}: {finding.message}", problem=True)
    if result.tables:
        _say_tables(result)


def _row(status: StreamStatus, run: Tracked) -> tuple[str, ...]:
    return (
        status.tap,
        status.stream,
        run.kind,
        *_lasted(run),
        run.outcome + (" *" if run.locked else ""),
        *_moved(run),
    )


def _lasted(run: Tracked | LakeRun) -> tuple[str, str]:
    took = str(timedelta(seconds=int(run.seconds))) if run.seconds is not None else ""
    return (second(run.started) if run.started else "", took)


def _moved(run: Tracked | LakeRun) -> tuple[str, ...]:
    return (f"{run.files:,}", f"{run.records:,}", size(run.bytes), run.writer)


def _say_runs(result: RunsResult) -> None:
    rows = [
        (run.tap, run.kind, *_lasted(run), run.outcome, f"{len(run.streams):,}", *_moved(run)) for run in result.runs
    ]
    table(_RUN_COLUMNS, rows, caption=f"{lake_named(result.lake)}: {counted(len(rows), 'run')}")
    say_findings(result.findings)


def _say_tables(result: StatusResult) -> None:
    rows: list[tuple[str, ...]] = []
    for each in result.tables:
        if each.trouble:
            rows.append((each.table, SEE_BELOW, *[""] * 8))
        rows += [_table_row(each, run, newest=place == 0) for place, run in enumerate(each.runs)]
    behind = sum(bool(each.behind) for each in result.tables)
    totals = counted(len(result.tables), "table") + (f", {behind:,} behind" if behind else "")
    say("")
    table(_TABLE_COLUMNS, rows, caption=f"{lake_named(result.lake)}: {totals}")
    say_troubles(result.tables)


def _table_row(each: TableStatus, run: TableRun, *, newest: bool) -> tuple[str, ...]:
    """Of a table's figures those that hold now stand beside its newest run."""
    at = parse_timestamp(run.at)
    return (
        each.table,
        each.source,
        run.kind,
        second(at) if at else "",
        *(f"{count:,}" for count in (run.records, run.inserted, run.updated, run.deleted)),
        checks_in_short(each.checks or 0 if newest else 0, sum(run.checks.values())),
        f"{each.behind:,}" if newest and each.behind is not None else "",
    )
