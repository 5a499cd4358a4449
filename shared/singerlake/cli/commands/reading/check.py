"""``singerlake check``: what a monitor is told of a lake."""

from __future__ import annotations

from datetime import timedelta

import click

from singerlake.cli.help import command, examples
from singerlake.cli.options import duration, result_options, streams_options, with_lake
from singerlake.cli.output import counted, is_asked, lake_named, say, show
from singerlake.lake import Lake
from singerlake.tables.maintain.check import CheckResult, prometheus

_CODES = {"ok": 0, "warning": 1, "critical": 2}


@examples("singerlake check lake --max-age 2h", "singerlake check lake --tap my-tap --max-behind 1000 --json")
@command("Say what is wrong, for a monitor: late and failed captures, tables that are behind.")
@with_lake
@streams_options
@click.option("--max-age", type=duration, metavar="AGE", help="How old the last write to a stream may be, as 2h or 1d.")
@click.option("--max-behind", type=click.IntRange(0), metavar="N", help="How many messages a table may be behind.")
@click.option("--prometheus", "text", is_flag=True, help="Print figures for Prometheus, and exit with 0.")
@result_options
def check(
    lake: Lake, tap: str | None, stream: str | None, max_age: timedelta | None, max_behind: int | None, text: bool
) -> int:
    """Say what is wrong with a lake, one line a finding, and exit as plugins of monitors do.

    Exits with 2 if a finding is critical: a state that cannot be read, a newest capture that failed or is lost, a
    stream that is late by --max-age, a table that is behind by --max-behind. Exits with 1 if there are warnings alone:
    a stream that is stale, a version that was never activated, a check of a table that does not hold. Reads what
    'singerlake status' reads.
    """
    if text and is_asked("json"):
        raise click.UsageError("--prometheus and --json exclude each other")
    result = lake.check(tap, stream, max_age=max_age, max_behind=max_behind)
    if text:
        click.echo(prometheus(result), nl=False)
        return 0
    show(result, _say)
    return _CODES[result.level]


def _say(result: CheckResult) -> None:
    counts = [counted(result.streams, "stream"), counted(result.tables, "table")]
    for level in ("critical", "warning"):
        if count := sum(each.level == level for each in result.findings):
            counts.append(f"{count:,} {level}")
    say(f"{result.level.upper()}: {lake_named(result.lake)}: {', '.join(counts)}")
    for each in result.findings:
        say(f"{each.level}: {each.subject}: {each.message}", problem=True)
