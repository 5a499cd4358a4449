"""``singerlake status``: the last runs of each stream, what they moved and how they ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import click

from singerlake.cli.help import command, examples
from singerlake.cli.options import result_options, streams_options, with_lake
from singerlake.cli.output import SEE_BELOW, count_streams, lake_named, say, say_findings, show, table
from singerlake.clock import parse_timestamp
from singerlake.humanize import checks_in_short, counted, minute, second, size
from singerlake.lake import Lake
from singerlake.tables.maintain.check import newest_capture, of_stream, of_table
from singerlake.tables.maintain.status import StatusResult, TableStatus
from singerlake.tables.state.model import TableRun
from singerlake.upkeep.reports.status import LakeRun, RunsResult, StreamStatus, Tracked

_RUN = ("STARTED (UTC)", ">TOOK", "OUTCOME")
_MOVED = (">FILES", ">RECORDS", ">BYTES", "WRITER")
_COLUMNS = ("TAP", "STREAM", "KIND", *_RUN, *_MOVED)
_RUN_COLUMNS = ("TAP", "KIND", *_RUN, ">STREAMS", *_MOVED)
_TABLE_RUNS = ("ENDED (UTC)", ">RECORDS", ">NEW", ">CHANGED", ">GONE", "CHECKS", ">BEHIND")
_TABLE_COLUMNS = ("TABLE", "STREAM", "KIND", *_TABLE_RUNS)
_NEWEST = ("TAP", "STREAM", "STARTED (UTC)", "OUTCOME")
_NEWEST_OF_TABLES = ("TABLE", "STREAM", "ENDED (UTC)", "CHECKS", ">BEHIND")
"""What is shown without --runs: a line of a terminal for each, where names are not long."""


@examples("singerlake status lake", "singerlake status lake --tap my-tap --by-run")
@command("List the newest run of each stream and table, and what needs a look.")
@with_lake
@streams_options
@click.option(
    "--runs",
    type=click.IntRange(1),
    metavar="N",
    help="List the last N captures of each stream, runs of maintenance, and runs of each table, the newest first, with "
    "what they moved. With --by-run: how many runs (default 20).",
)
@click.option("--by-run", is_flag=True, help="List runs, one row for all streams of a run, and no tables.")
@result_options
def status(lake: Lake, tap: str | None, stream: str | None, runs: int | None, by_run: bool) -> int:
    """List the newest capture of each stream and the newest run of each table, and behind them what needs a look.

    A run is 'running', 'completed', 'failed' (its input had an error), 'interrupted' (by a signal) or 'lost': it has no
    outcome, has committed nothing for an hour, and holds no lock. A star marks a writer that holds a lock of the stream
    now. Times are those of the writers' clocks. With --runs, KIND is 'capture', or the maintenance that changed the
    stream. BEHIND counts messages of the stream that a table does not hold yet. A run that is killed before its first
    commit leaves no trace.

    What needs a look comes last, as 'singerlake check' says it: captures that failed or are lost, stale streams, which
    have been silent for a day or more and for more than twice the longest pause between their last ten captures, checks
    of tables that do not hold.
    Exits with 1 if the newest capture of a stream failed or is lost, or if a stream's manifest or a table's state is
    missing or cannot be read; with --by-run for such a manifest alone.
    """
    if by_run:
        listed = lake.runs(tap, stream, last=runs or 20)
        show(listed, _say_runs)
        return 1 if listed.findings else 0
    result = lake.status(tap, stream, runs=runs or 3)
    show(result, partial(_say, runs is None))
    critical = any(found.level == "critical" for each in result.streams for found in of_stream(each))
    return 1 if critical or any(each.trouble for each in result.tables) else 0


def _say(newest: bool, result: StatusResult) -> None:
    captures = [capture for each in result.streams if (capture := newest_capture(each)) is not None]
    outcomes = Counter(capture.outcome for capture in captures)
    totals = count_streams(result.streams)
    if outcomes:
        totals += (
            f"; newest captures: {', '.join(f'{count:,} {outcome}' for outcome, count in sorted(outcomes.items()))}"
        )
    if stale := sum(each.silence is not None for each in result.streams):
        totals += f"; {stale:,} stale"
    caption = f"{lake_named(result.lake)}: {totals}"
    if newest:
        table(_NEWEST, [_newest(each) for each in result.streams if not each.dropped], caption=caption)
    else:
        table(_COLUMNS, [row for each in result.streams for row in _rows(each)], caption=caption)
    if result.tables:
        _say_tables(newest, result)
    findings = [found for each in result.streams if not each.dropped for found in of_stream(each)]
    findings += [found for each in result.tables for found in of_table(each)]
    say("", f"{counted(len(findings), 'finding')}:" if findings else "nothing needs a look")
    for found in findings:
        say(f"{found.subject}: {found.message}", problem=True)


def _newest(each: StreamStatus) -> tuple[str, ...]:
    if each.trouble:
        return each.tap, each.stream, SEE_BELOW, ""
    capture = newest_capture(each)
    if capture is None:
        return each.tap, each.stream, "", "no capture"
    return each.tap, each.stream, minute(capture.started) if capture.started else "", _outcome(capture)


def _rows(each: StreamStatus) -> Iterator[tuple[str, ...]]:
    if each.trouble:
        yield each.tap, each.stream, SEE_BELOW, *[""] * 7
    elif not each.runs:
        yield each.tap, each.stream, "", "", "", "no runs", *[""] * 4
    for run in each.runs:
        yield each.tap, each.stream, run.kind, *_lasted(run), _outcome(run), *_moved(run)


def _outcome(run: Tracked) -> str:
    return run.outcome + (" *" if run.locked else "")


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


def _say_tables(newest: bool, result: StatusResult) -> None:
    behind = sum(bool(each.behind) for each in result.tables)
    totals = counted(len(result.tables), "table") + (f", {behind:,} behind" if behind else "")
    columns = _NEWEST_OF_TABLES if newest else _TABLE_COLUMNS
    rows: list[tuple[str, ...]] = []
    for each in result.tables:
        if each.trouble:
            rows.append((each.table, SEE_BELOW, *[""] * (len(columns) - 2)))
        runs = each.runs[:1] if newest else each.runs
        rows += [_table_row(each, run, newest, place == 0) for place, run in enumerate(runs)]
    say("")
    table(columns, rows, caption=f"{lake_named(result.lake)}: {totals}")


def _table_row(each: TableStatus, run: TableRun, newest: bool, first: bool) -> tuple[str, ...]:
    """Of a table's figures those that hold now stand beside its newest run."""
    at = parse_timestamp(run.at)
    checks = checks_in_short(each.checks or 0 if first else 0, sum(run.checks.values()))
    behind = f"{each.behind:,}" if first and each.behind is not None else ""
    if newest:
        return each.table, each.source, minute(at) if at else "", checks, behind
    counts = (f"{count:,}" for count in (run.records, run.inserted, run.updated, run.deleted))
    return each.table, each.source, run.kind, second(at) if at else "", *counts, checks, behind
