"""The checks that say that a column has no value twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from singerlake.maintenance.engines.engine import Task
from singerlake.projections.declaration.model import Action, Check, Keep
from singerlake.projections.rows.convert import SHOWN, Seen
from singerlake.projections.run.plan import TablePlan
from singerlake.projections.run.regions import cut
from singerlake.projections.state.keys import table_prefix
from singerlake.projections.state.model import TableFile
from singerlake.projections.tasks.duplicates import CountDuplicates, SortColumn, ValueRange

RANGE_ROWS = 1_000_000
"""Values that a task counts."""

Done = Callable[[Task[Any, Any], Sequence[Any]], Iterable[tuple[Any, Any]]]
"""Runs a task on items."""


def check_unique(plan: TablePlan, files: Sequence[TableFile], run: str, done: Done, seen: Seen) -> list[str]:
    """Count in ``seen`` what the checks of ``plan`` find in ``files``; gives the keys of what tasks handed to each
    other. Columns of all files are read, unless the table cannot have a value twice. Raises what tasks raise."""
    scratch: list[str] = []
    for check in plan.declaration.checks:
        if check.condition is not None or _holds_anyway(plan, check):
            continue
        column = plan.columns.name_of(check.column)
        sort = SortColumn(table_prefix(plan.declaration.name), run, column)
        found = [answer for _, answer in done(sort, files) if answer is not None]
        scratch += [each.key for each in found]
        ranges, after = [], None
        for end in [*cut(found, RANGE_ROWS), None]:
            parts = tuple(part for part in (each.within(after, end) for each in found) if part.chunks)
            ranges.append(ValueRange(after, end, parts))
            after = end
        count, examples = 0, []
        for _, (more, offsets) in done(CountDuplicates(column), ranges):
            count += more
            examples += offsets
        if count:
            counts = seen.failed if check.action is Action.FAIL else seen.warned
            counts[check.name] += count
            seen.examples[check.name] = examples[:SHOWN]
    return scratch


def _holds_anyway(plan: TablePlan, check: Check) -> bool:
    """Whether the column is the whole key of a table that has each key once."""
    return plan.declaration.keep is Keep.LATEST and plan.key == (check.column,)
