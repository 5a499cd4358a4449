"""What ``--follow`` means for a run: the same again and again, until a signal ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn

from singerlake.cli.commands.project.options import Project
from singerlake.cli.commands.project.report import say_error_of, say_made, table_json
from singerlake.cli.exit_codes import ends_by_signal
from singerlake.cli.output import counted, is_asked, say, say_json_line, shown
from singerlake.errors import SingerlakeError, UnexpectedError
from singerlake.tables.declaration.streams import Resolved
from singerlake.tables.project import Follower
from singerlake.tables.run.one_table import TableResult


def follow_tables(
    project: Project, run: Callable[[list[Resolved]], Iterable[TableResult]], check: Callable[[], None], *, every: float
) -> NoReturn:
    """Follow, and tell of each table that was made or failed. ``check`` raises where no table can be made any more."""
    as_json = is_asked("json")
    ends_by_signal()

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
