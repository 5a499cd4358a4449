"""What ``plan`` and ``run`` say of tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from singerlake.cli.commands.project.options import Project
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.output import counted, is_asked, json_of, say, say_json, shown, size
from singerlake.cli.row_difference import difference_text
from singerlake.errors import SingerlakeError
from singerlake.tables.compare.counts import RowDifference
from singerlake.tables.compare.planned import PlannedDifference, planned_differences
from singerlake.tables.declaration.streams import Unresolved
from singerlake.tables.project import plan_tables
from singerlake.tables.rows.mixed_keys import in_words
from singerlake.tables.run.one_table import Outcome, TableResult
from singerlake.tables.run.plan import ASKED, FIRST, SqlPlan, TablePlan, is_continued

_NAMED = 5
"""Properties that the line of a table names."""
NO_MESSAGES = "skipped: its stream has no messages"


@dataclass
class Report:
    """Tells of each table when it is done, or with ``--json`` at the end. Keeps no plan, which holds a manifest."""

    lake: str
    dry_run: bool = False
    _tables: list[dict[str, Any]] = field(default_factory=list)
    _told: int = 0
    _code: int = 0

    def add(self, result: TableResult) -> None:
        """Tell of one table."""
        self._told += 1
        if result.error is not None:
            self._code = max(self._code, exit_code([result.error]))
        if is_asked("json"):
            self._tables.append(table_json(result))
        else:
            _say(result, self.dry_run)

    def add_unresolved(self, failed: Sequence[Unresolved]) -> None:
        """Tell of tables that cannot be made."""
        for each in failed:
            self.add(TableResult(each.declaration, None, error=each.error))

    def end(self) -> int:
        """The exit code, when all is told."""
        if is_asked("json"):
            say_json({"lake": self.lake, "dry_run": self.dry_run, "tables": self._tables})
        elif not self._told:
            say("no table is declared, or the lake has no stream yet")
        return self._code


def plan_report(project: Project, *, full_refresh: bool) -> int:
    """Say what a run would do; the exit code."""
    report = Report(project.lake.storage.url, dry_run=True)
    for planned in _all_planned(project, full_refresh):
        report.add(planned)
    return report.end()


def _all_planned(project: Project, full_refresh: bool) -> Iterator[TableResult]:
    tables, failed = project.tables()
    yield from (TableResult(each.declaration, None, error=each.error) for each in failed)
    yield from plan_tables(project.lake.table_runner(), tables, full_refresh=full_refresh)


def diff_report(project: Project, *, full_refresh: bool, rows: bool) -> int:
    """Say what a run would make of the rows that tables have; the exit code."""
    held = defaultdict[str, list[RowDifference]](list)

    def told(table: str, row: RowDifference) -> None:
        if is_asked("json"):
            held[table].append(row)
        else:
            say(f"{shown(table)}: {difference_text(row)}")

    lake, planned = project.lake, _all_planned(project, full_refresh)
    found = planned_differences(lake.storage.url, lake.table_maker(), planned, told if rows else None)
    if is_asked("json"):
        tables = [{**json_of(each), **({"rows": held[each.table]} if rows else {})} for each in found.tables]
        say_json({**json_of(found), "tables": tables})
    else:
        for each in found.tables:
            _say_difference(each)
        for failure in found.failed:
            say(f"{shown(failure.table)}: not compared: {shown(str(failure.error))}", problem=True)
    return exit_code(each.error for each in found.failed)


_FATES = {"kept": "keeps its rows", "new": "not published yet", "no_messages": NO_MESSAGES}


def _say_difference(one: PlannedDifference) -> None:
    why = "made anew" if one.why == ASKED else f"made anew, since {one.why}"
    say(shown(f"{one.table}: {_FATES.get(one.fate, why)}"))
    for mark, columns in (("+", one.added), ("-", one.removed)):
        for name, type in columns.items():
            say(shown(f"  {mark} column {name}, {type}"))
    for name, (before, after) in one.retyped.items():
        say(shown(f"  ~ column {name}, {before} -> {after if after != before else f'another {after}'}"))
    if one.fate != "made_anew":
        return
    if one.why_not_compared is not None:
        say(shown(f"  rows are not compared: {one.why_not_compared}"))
        return
    counts = ((one.inserted, "inserted"), (one.changed, "changed"), (one.deleted, "deleted"))
    rows = ", ".join(f"{count:,} {what}" for count, what in counts if count) or "no row differs"
    say(shown(f"  before offset {one.offset:,} of {one.tap}.{one.stream}: {rows}"))
    for name, count in one.columns.items():
        say(shown(f"    {name}: {counted(count, 'row')}"))


def say_error_of(table: str, error: SingerlakeError, *, after: str = "") -> None:
    """Why a table is as it was; programs look at the kind. ``after`` stands at the end of the line."""
    say(f"{shown(table)}: failed ({error.kind}): {shown(str(error))}{after}", problem=True)


def say_made(result: TableResult) -> None:
    """What was done for a table, and below it the rows that checks do not hold for."""
    say(f"{shown(result.declaration.name)}: {shown(_done(result))}")
    for line in _checks(result):
        say(line)
    for table, count in result.outcome.behind.items() if result.outcome is not None else ():
        say(f"  {shown(table)} is {counted(count, 'message')} behind its stream")
    _say_mixed_keys(result.plan)


def _say_mixed_keys(plan: TablePlan | SqlPlan | None) -> None:
    for key, types in plan.mixed_keys.items() if isinstance(plan, TablePlan) else ():
        say(f"  {in_words(key, types)}")


def _say(result: TableResult, dry_run: bool) -> None:
    """One line, and below it the rows that checks do not hold for."""
    name = result.declaration.name
    if result.error is not None:
        say_error_of(name, result.error)
    elif dry_run or result.outcome is None:
        say(f"{shown(name)}: {shown(_planned(result.plan))}")
        _say_mixed_keys(result.plan)
    else:
        say_made(result)


def _planned(plan: TablePlan | SqlPlan | None) -> str:
    if plan is None:
        return NO_MESSAGES
    if plan.is_nothing:
        return "nothing new"
    if isinstance(plan, SqlPlan) and plan.continues:
        return f"new rows of {plan.tables[0]} to read, if it only grew"
    if isinstance(plan, SqlPlan):
        return f"made {plan.why}" if plan.why == FIRST else _anew(plan)
    source = f"{plan.declaration.tap}.{plan.declaration.stream}"
    new = f"{counted(plan.stop - plan.start, 'message')} of {source} ({size(plan.new_bytes)}) to read"
    if plan.why:
        return f"{_anew(plan)}: {new}"
    return new if plan.start or plan.files else f"{new}, for the first time"


def _anew(plan: TablePlan | SqlPlan) -> str:
    return "made anew" if plan.why == ASKED else f"made anew, since {plan.why}"


def _done(result: TableResult) -> str:
    assert result.outcome is not None
    run, state = result.outcome.run, result.outcome.state
    if run is None or state is None:
        return "nothing new"
    files = counted(len(state.files), "file")
    if isinstance(result.plan, SqlPlan):
        tables = ", ".join(each.table for each in state.made_from) or "no table"
        if is_continued(run):
            told = f"{counted(run.inserted, 'new row')} made from {tables}"
            return f"{told}; {counted(state.rows, 'row')} in {files}, {size(state.bytes)}"
        return f"made from {tables}: {counted(state.rows, 'row')} in {files}, {size(state.bytes)}"
    changes = ((run.inserted, "new"), (run.updated, "changed"), (run.deleted, "gone"))
    told = ", ".join(f"{count:,} {word}" for count, word in changes if count) or "no row changed"
    rescued = f", {counted(run.rescued, 'row')} with rescued values{_misfits(result.outcome)}" if run.rescued else ""
    anew = " (made anew)" if run.kind == "rebuild" else ""
    return (
        f"{counted(run.records, 'record')} read: {told}{rescued}; "
        f"{counted(state.rows, 'row')} in {files}, {size(state.bytes)}{anew}"
    )


def _misfits(outcome: Outcome) -> str:
    """Which properties these are, those of most rows first."""
    most = sorted(outcome.misfits.items(), key=lambda item: -item[1].rows)
    told = [
        f"{name}: {each.rows:,}, the first {each.first}" + ("" if each.declared else ", in no schema")
        for name, each in most[:_NAMED]
    ]
    if len(most) > _NAMED:
        told.append("and others")
    return f" ({'; '.join(told)})" if told else ""


def _checks(result: TableResult) -> Iterator[str]:
    assert result.outcome is not None
    run = result.outcome.run
    for name, count in sorted(run.checks.items()) if run is not None else ():
        examples = ", ".join(map(str, result.outcome.examples.get(name, ())))
        at = f", as at offset {examples}" if examples else ""
        yield f"  check {shown(name)}: {counted(count, 'row')}{at}"


def table_json(result: TableResult) -> dict[str, Any]:
    """What became of a table, as commands write it with ``--json``."""
    plan, outcome, declaration = result.plan, result.outcome, result.declaration
    run, state = (outcome.run, outcome.state) if outcome is not None else (None, None)
    return {
        "table": declaration.name,
        "tap": declaration.tap or None,
        "stream": declaration.stream or None,
        "keep": declaration.keep.value if declaration.sql is None else None,
        "sql": declaration.sql,
        "status": result.status,
        "plan": None if plan is None else _plan_json(plan),
        "run": None if run is None else msgspec.to_builtins(run),
        "examples": outcome.examples if outcome is not None else {},
        "misfits": outcome.misfits if outcome is not None else {},
        "made_from": [] if state is None else [each.table for each in state.made_from],
        "behind": outcome.behind if outcome is not None else {},
        "rows": None if state is None else state.rows,
        "files": None if state is None else len(state.files),
        "bytes": None if state is None else state.bytes,
        "error": result.error,
    }


def _plan_json(plan: TablePlan | SqlPlan) -> dict[str, Any]:
    if isinstance(plan, SqlPlan):
        return {"why": plan.why or None, "tables": list(plan.tables), "continues": plan.continues}
    return {
        "from": plan.start,
        "to": plan.stop,
        "raw_bytes": plan.new_bytes,
        "generation": plan.generation,
        "why_anew": plan.why or None,
        "key": list(plan.key),
        "mixed_keys": plan.mixed_keys,
        "columns": [field.name for field in plan.columns.table.fields],
    }
