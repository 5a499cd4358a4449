"""What a run is to do for a table of a statement: all of it anew, what is new behind it, or nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from singerlake.tables.declaration.model import TableDeclaration
from singerlake.tables.declaration.stored import changes
from singerlake.tables.sql.grown import may_continue, new_rows
from singerlake.tables.state.commit import Found
from singerlake.tables.state.model import TableState

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
