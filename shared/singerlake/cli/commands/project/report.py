"""What ``plan`` and ``run`` say of tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from singerlake.cli.commands.project.options import Project
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.output import counted, error_json, say, say_json, shown, size
from singerlake.errors import SingerlakeError
from singerlake.projections.declaration.streams import Unresolved
from singerlake.projections.run.plan import TablePlan
from singerlake.projections.run.tables import TableResult, plan_tables

NO_MESSAGES = "skipped: its stream has no messages yet"


def plan_report(project: Project, *, full_refresh: bool, as_json: bool) -> int:
    """Say what a run would do; the exit code."""
    tables, failed = project.tables()
    planned = list(plan_tables(project.lake.table_runner(), tables, full_refresh=full_refresh))
    if as_json:
        report = {"lake": project.lake.storage.url, "dry_run": True, "tables": tables_json(planned, failed)}
        say_json(report)
    else:
        say_unresolved(failed)
        for each in planned:
            if each.error is not None:
                say_error_of(each.declaration.name, each.error)
            else:
                say(f"{shown(each.declaration.name)}: {shown(_planned(each.plan))}")
    return exit_code([each.error for each in failed] + [each.error for each in planned if each.error is not None])


def say_unresolved(failed: Sequence[Unresolved]) -> None:
    """One line for each declared table that means no stream."""
    for each in failed:
        say_error_of(each.declaration.name, each.error)


def say_error_of(table: str, error: SingerlakeError) -> None:
    """Why a table is as it was; programs look at the kind."""
    say(f"{shown(table)}: failed ({error.kind}): {shown(str(error))}", problem=True)


def say_result(result: TableResult) -> None:
    """What became of one table, and below it the rows that checks do not hold for."""
    name = result.declaration.name
    if result.error is not None:
        say_error_of(name, result.error)
    elif result.outcome is None:
        say(f"{shown(name)}: {NO_MESSAGES}")
    else:
        say(f"{shown(name)}: {shown(_done(result))}")
        for line in _checks(result):
            say(line)


def _planned(plan: TablePlan | None) -> str:
    if plan is None:
        return NO_MESSAGES
    if plan.is_nothing:
        return "nothing new"
    source = f"{plan.declaration.tap}.{plan.declaration.stream}"
    new = f"{counted(plan.stop - plan.start, 'message')} of {source} ({size(plan.new_bytes)}) to read"
    if plan.why:
        return f"made anew, since {plan.why}: {new}" if plan.why != "asked for" else f"made anew: {new}"
    return new if plan.start or plan.files else f"{new}, for the first time"


def _done(result: TableResult) -> str:
    assert result.outcome is not None
    run, state = result.outcome.run, result.outcome.state
    if run is None or state is None:
        return "nothing new"
    changes = ((run.inserted, "new"), (run.updated, "changed"), (run.deleted, "gone"))
    told = ", ".join(f"{count:,} {word}" for count, word in changes if count) or "no row changed"
    rescued = f", {counted(run.rescued, 'row')} with rescued values" if run.rescued else ""
    anew = " (made anew)" if run.kind == "rebuild" else ""
    files = counted(len(state.files), "file")
    return (
        f"{counted(run.records, 'record')} read: {told}{rescued}; "
        f"{counted(state.rows, 'row')} in {files}, {size(state.bytes)}{anew}"
    )


def _checks(result: TableResult) -> Iterator[str]:
    assert result.outcome is not None
    run = result.outcome.run
    for name, count in sorted(run.checks.items()) if run is not None else ():
        examples = ", ".join(map(str, result.outcome.examples.get(name, ())))
        at = f", as at offset {examples}" if examples else ""
        yield f"  check {shown(name)}: {counted(count, 'row')}{at}"


def tables_json(results: Sequence[TableResult], failed: Sequence[Unresolved]) -> list[dict[str, Any]]:
    """Each table as ``--json`` has it. ``status`` is ``made``, ``nothing_new``, ``planned``, ``no_messages`` or
    ``failed``."""
    unresolved = [TableResult(each.declaration, None, error=each.error) for each in failed]
    return [_table_json(each) for each in (*unresolved, *results)]


def _table_json(result: TableResult) -> dict[str, Any]:
    plan, outcome, declaration = result.plan, result.outcome, result.declaration
    run, state = (outcome.run, outcome.state) if outcome is not None else (None, None)
    if result.error is not None:
        status = "failed"
    elif plan is None:
        status = "no_messages"
    elif plan.is_nothing:
        status = "nothing_new"
    else:
        status = "planned" if outcome is None else "made" if run is not None else "nothing_new"
    return {
        "table": declaration.name,
        "tap": declaration.tap or None,
        "stream": declaration.stream or None,
        "keep": declaration.keep.value,
        "status": status,
        "plan": None if plan is None else _plan_json(plan),
        "run": None if run is None else msgspec.to_builtins(run),
        "examples": outcome.examples if outcome is not None else {},
        "rows": None if state is None else state.rows,
        "files": None if state is None else len(state.files),
        "bytes": None if state is None else state.bytes,
        "error": None if result.error is None else error_json(result.error),
    }


def _plan_json(plan: TablePlan) -> dict[str, Any]:
    return {
        "from": plan.start,
        "to": plan.stop,
        "raw_bytes": plan.new_bytes,
        "generation": plan.generation,
        "why_anew": plan.why or None,
        "key": list(plan.key),
        "columns": [field.name for field in plan.columns.table.fields],
    }
