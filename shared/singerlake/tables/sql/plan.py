"""What a run is to do for a table of a statement: all of it anew, what is new behind it, or nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from singerlake.tables.declaration.model import Keep, TableDeclaration
from singerlake.tables.declaration.stored import changes
from singerlake.tables.state.commit import Found
from singerlake.tables.state.model import COLLECT, RUN, MadeFrom, TableFile, TableRun, TableState, UpTo

ASKED, FIRST = "asked for", "for the first time"


@dataclass(frozen=True)
class SqlPlan:
    """``why`` says in words why the statement is run, and is empty where the table is as it should be. ``tables`` are
    those that it read the last time. ``continues``: of the one that it reads only new rows are to be read, if the run
    finds that it only grew."""

    declaration: TableDeclaration
    base: Found | None = field(repr=False)
    why: str
    continues: bool = False

    @property
    def is_nothing(self) -> bool:
        """Whether the table is as it should be."""
        return not self.why

    @property
    def state(self) -> TableState | None:
        """The table as it is published."""
        return self.base.state if self.base is not None and self.base.state.is_published else None

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(each.table for each in self.state.made_from) if self.state is not None else ()


def sql_plan(
    declaration: TableDeclaration,
    base: Found | None,
    now: Callable[[str], TableState | None],
    *,
    full_refresh: bool = False,
) -> SqlPlan:
    """The plan for a table whose state is ``base``; ``now`` gives the state of another table as it will be
    when this one is made, None where there is none or it is not known yet."""
    if base is None or not base.state.is_published:
        return SqlPlan(declaration, base, FIRST)
    if full_refresh:
        return SqlPlan(declaration, base, ASKED)
    changed = changes(base.state, declaration)
    if changed:
        return SqlPlan(declaration, base, f"its declaration changed: {', '.join(changed)}")
    states = [(each, now(each.table)) for each in base.state.made_from]
    others = [each.table for each, state in states if state is None or state.rows_id != each.rows]
    if not others:
        return SqlPlan(declaration, base, "")
    only_grew = all(state is None or new_rows(each, state) is not None for each, state in states)
    continues = only_grew and may_continue(base.state)
    return SqlPlan(declaration, base, f"{', '.join(others)} changed", continues)


CONTINUED_RUNS = 50
"""After so many runs that continue one makes all rows: each adds a file, however small."""


@dataclass(frozen=True)
class NewRows:
    """Rows that came to a table: those of ``files`` that are of records with offsets from ``start`` on."""

    files: tuple[TableFile, ...]
    start: int


def up_to(state: TableState) -> UpTo | None:
    """Where the table ends; None where rows that come later could not be told from those that it has."""
    if state.is_of_statement:
        end: int | None = len(state.files)
    else:
        end = state.sources[0].offset if state.declaration.get("keep") == Keep.APPEND.value else None
    return None if end is None else UpTo(id=state.id, end=end, columns=state.columns_id)


def may_continue(state: TableState) -> bool:
    """Whether a table of a statement can have new rows behind those that it has, if the one that it was made from only
    grew."""
    if state.order or len(state.made_from) != 1 or state.made_from[0].up_to is None:
        return False
    runs = [run for run in state.runs if run.kind != COLLECT]
    return any(not is_continued(run) for run in runs[-CONTINUED_RUNS:])


def is_continued(run: TableRun) -> bool:
    """Whether a run of a statement left the rows as they were that the table had."""
    return run.stop > 0


def new_rows(before: MadeFrom, now: TableState) -> NewRows | None:
    """What came to a table since it was read; None where it may have done anything but grow."""
    mark = before.up_to
    if mark is None or now.generation != before.generation or now.columns_id != mark.columns:
        return None
    return _of_statement(before, mark, now) if now.is_of_statement else _of_stream(mark, now)


def _of_stream(mark: UpTo, now: TableState) -> NewRows | None:
    """A table with all records of a stream. Each of its rows tells its offset, in whatever file it lies by now."""
    since = now.since(mark.id)
    end = up_to(now)
    if since is None or any(map(_changed_rows, since)) or end is None or end.end < mark.end:
        return None
    return NewRows(tuple(file for file in now.files if file.offsets[1] >= mark.end), mark.end)


def _of_statement(before: MadeFrom, mark: UpTo, now: TableState) -> NewRows | None:
    """A table of a statement that has the files that it had, and others behind them. An id of a file is never used
    again."""
    if now.rows_id_of(now.files[: mark.end]) != before.rows:
        return None
    return NewRows(now.files[mark.end :], 0)


def _changed_rows(run: TableRun) -> bool:
    """Whether a write may have done something to rows that were there before it."""
    if run.kind == COLLECT:
        return False
    return run.kind != RUN or run.updated > 0 or run.deleted > 0
