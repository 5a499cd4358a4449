"""What a run is to do for a table of a statement: all of it anew, or nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from singerlake.projections.declaration.model import TableDeclaration
from singerlake.projections.declaration.stored import changes
from singerlake.projections.state.commit import Found
from singerlake.projections.state.model import TableState

ASKED, FIRST = "asked for", "for the first time"


@dataclass(frozen=True)
class SqlPlan:
    """``why`` says in words why the statement is run, and is empty where the table is as it should be. ``tables`` are
    those that it read the last time."""

    declaration: TableDeclaration
    base: Found | None = field(repr=False)
    why: str

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
    rows_now: Callable[[str], str | None],
    *,
    full_refresh: bool = False,
) -> SqlPlan:
    """The plan for a table whose state is ``base``; ``rows_now`` gives the ``rows_id`` of another table as it will be
    when this one is made, None where there is none or it is not known yet."""
    return SqlPlan(declaration, base, _why(declaration, base, rows_now, full_refresh))


def _why(
    declaration: TableDeclaration, base: Found | None, rows_now: Callable[[str], str | None], full_refresh: bool
) -> str:
    if base is None or not base.state.is_published:
        return FIRST
    if full_refresh:
        return ASKED
    changed = changes(base.state, declaration)
    if changed:
        return f"its declaration changed: {', '.join(changed)}"
    others = [each.table for each in base.state.made_from if rows_now(each.table) != each.rows]
    return f"{', '.join(others)} changed" if others else ""
