"""The checks that say that a column has no value twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from singerlake.arrow.schema.own import OFFSET
from singerlake.tables.declaration.model import Action, Check, Keep
from singerlake.tables.rows.convert import SHOWN, Seen
from singerlake.tables.run.plan import TablePlan
from singerlake.tables.run.regions import ranges_of
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import TableFile
from singerlake.tables.tasks.duplicates import CountDuplicates, SortColumn
from singerlake.work.engine import Task

RANGE_ROWS = 1_000_000
"""Values that a task counts."""

Done = Callable[[Task[Any, Any], Sequence[Any]], Iterable[tuple[Any, Any]]]
"""Runs a task on items."""


@dataclass(frozen=True, slots=True)
class UniqueColumns:
    """The checks of one table that a run looks at, each with the table's name of its column. ``beside`` are columns
    that tell where a row comes from."""

    table: str
    checks: tuple[tuple[Check, str], ...]
    beside: tuple[str, ...] = (OFFSET,)


def unique_columns(plan: TablePlan) -> UniqueColumns:
    """Those of a table of records, but for what the table cannot have twice."""
    checks = (check for check in plan.declaration.checks if check.condition is None and not _holds_anyway(plan, check))
    return UniqueColumns(plan.declaration.name, tuple((check, plan.columns.name_of(check.column)) for check in checks))


def check_unique(unique: UniqueColumns, files: Sequence[TableFile], run: str, done: Done, seen: Seen) -> list[str]:
    """Count in ``seen`` what the checks find in ``files``; gives the keys of what tasks handed to each other. The
    columns of all files are read. Raises what tasks raise."""
    scratch: list[str] = []
    for check, column in unique.checks:
        sort = SortColumn(table_prefix(unique.table), run, column, unique.beside)
        found = [answer for _, answer in done(sort, files) if answer is not None]
        scratch += [each.key for each in found]
        ranges = ranges_of(found, RANGE_ROWS)
        count, examples = 0, []
        for _, (more, offsets) in done(CountDuplicates(column, unique.beside), ranges):
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
