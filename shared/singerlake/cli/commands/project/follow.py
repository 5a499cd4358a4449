"""What ``--follow`` and ``--every`` mean for a run: the same again and again, until a signal ends it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, NoReturn

import click

from singerlake.cli.commands.project.options import Project
from singerlake.cli.commands.project.report import say_error_of, say_made, table_json
from singerlake.cli.options import duration
from singerlake.cli.output import counted, say, say_json_line, shown
from singerlake.errors import SingerlakeError, UnexpectedError
from singerlake.tables.declaration.streams import Resolved
from singerlake.tables.project import Follower
from singerlake.tables.run.one_table import TableResult

_EVERY = "10s"
_LEAST = timedelta(seconds=1)


def follow_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take ``--follow`` and ``--every``, as one number of seconds; None: it is to end by itself."""

    @functools.wraps(command)
    def chosen(*given: Any, follow: bool, interval: timedelta | None, **arguments: Any) -> Any:
        if interval is not None and not follow:
            raise click.UsageError("--every is for --follow")
        if interval is not None and interval < _LEAST:
            raise click.UsageError("--every is 1s at least")
        if follow and (arguments["full_refresh"] or arguments["dry_run"]):
            raise click.UsageError("--follow goes with neither --full-refresh nor --dry-run")
        seconds = (interval or duration(_EVERY)).total_seconds() if follow else None
        return command(*given, follow=seconds, **arguments)

    made = click.option(
        "--every",
        "interval",
        type=duration,
        metavar="TIME",
        help=f"How often --follow looks for what is new. Default: {_EVERY}.",
    )(chosen)
    flag = click.option("--follow", is_flag=True, help="Go on until a signal ends it: run what has something new.")
    return flag(made)


def follow_tables(
    project: Project,
    run: Callable[[list[Resolved]], Iterable[TableResult]],
    check: Callable[[], None],
    *,
    every: float,
    as_json: bool,
) -> NoReturn:
    """Follow and tell, with ``as_json`` a line of JSON for each table that was made or failed. ``check`` raises where
    no table can be made any more."""

    def told(result: TableResult, wait: float | None) -> None:
        if as_json:
            say_json_line({**table_json(result), "retry_in": wait})
        elif result.error is not None:
            say_error_of(result.declaration.name, result.error, after=_again(wait))
        else:
            say_made(result)
        if isinstance(result.error, UnexpectedError):
            check()

    def told_look(error: SingerlakeError, wait: float) -> None:
        if as_json:
            say_json_line({"table": None, "status": "failed", "error": error, "retry_in": wait})
        else:
            say(f"failed ({error.kind}): {shown(str(error))}{_again(wait)}", problem=True)

    found = project.tables()
    if not as_json:
        say(f"looking every {counted(int(every), 'second')} for what is new; Ctrl-C ends it")
    Follower(project.tables, run, told, told_look, project.lake.clock).follow(found, every)


def _again(wait: float | None) -> str:
    return "" if wait is None else f"; trying again in {counted(int(wait), 'second')}"
