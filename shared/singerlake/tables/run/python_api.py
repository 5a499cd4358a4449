"""A run of tables for callers in Python: plain results, and errors that are raised when all tables are made."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from singerlake.errors import SettingError, SingerlakeError
from singerlake.tables.declaration.streams import Declared, Streams, chosen, everything, resolve
from singerlake.tables.run.many_tables import plan_tables, run_tables
from singerlake.tables.run.one_table import TableRunner
from singerlake.tables.run.plan import TablePlan
from singerlake.tables.run.results import TableResult, TableStatus
from singerlake.tables.sql.plan import SqlPlan
from singerlake.tables.state.commit import sources
from singerlake.upkeep.progress import UNSEEN, Report, reporting
from singerlake.work.engine import Engine, Watched


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedTable:
    """What a run did for one table. ``rows``, ``files`` and ``bytes`` are those of the table after it, None where there
    is none yet. ``records`` were read; by them ``inserted`` rows are new, ``updated`` ones changed and ``deleted`` ones
    gone; ``rescued`` rows have values that did not fit. ``checks`` counts rows that a check does not hold for.
    ``error`` is there where ``status`` is ``failed``."""

    name: str
    tap: str
    stream: str
    status: TableStatus
    rows: int | None = None
    files: int | None = None
    bytes: int | None = None
    records: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    rescued: int = 0
    checks: Mapping[str, int] = field(default_factory=dict)
    error: SingerlakeError | None = field(default=None, compare=False)


def declared_tables(file: str | Path | None, *, every: bool) -> tuple[Declared, ...]:
    """What ``file`` declares, or ``every`` stream without a file. Raises ``SettingError``, also without pyarrow or
    pyyaml."""
    if (file is None) != every:
        raise SettingError("tables are declared by a file or by all=True", hint="give one of them")
    if importlib.util.find_spec("pyarrow") is None:
        raise SettingError("tables need pyarrow", hint="run: pip install 'singerlake[tables]'")
    if file is None:
        return (everything(),)
    from singerlake.tables.declaration.yaml_file import read_file

    return read_file(Path(file), None).tables


def project(
    runner: TableRunner,
    declared: Sequence[Declared],
    streams: Streams,
    names: Sequence[str],
    *,
    full_refresh: bool = False,
    dry_run: bool = False,
    together: bool = False,
    progress: Report | None = None,
) -> list[ProjectedTable]:
    """Run the tables that ``names`` means, all where it is empty; with ``dry_run`` only plan to. ``progress`` gets the
    bytes that are read for each table which is not made beside others. Raises ``UnknownNameError``."""
    tables, failed = chosen(*resolve(declared, streams, sources(runner.storage)), names)
    wrong = [TableResult(each.declaration, None, error=each.error) for each in failed]
    if dry_run:
        planned = plan_tables(runner, tables, full_refresh=full_refresh)
        return [_projected(each) for each in (*wrong, *planned)]
    bar = UNSEEN

    def began(plan: TablePlan | SqlPlan) -> None:
        nonlocal bar
        bar = reporting(progress, plan.declaration.name)

    def watched(size: int) -> Engine:
        bar.sized(size)
        return Watched(runner.engine(size), lambda done: bar.advance(done))

    made = run_tables(
        replace(runner, engine=watched), tables, full_refresh=full_refresh, together=together, began=began
    )
    return [_projected(each) for each in (*wrong, *made)]


def raise_failed(tables: Sequence[ProjectedTable]) -> None:
    """Raise the error of the first table that failed, with a note on each other."""
    errors = [(each.name, each.error) for each in tables if each.error is not None]
    if not errors:
        return
    (_, first), *others = errors
    for name, error in others:
        first.add_note(f"table {name!r} failed too ({error.kind}): {error}")
    raise first


def _projected(result: TableResult) -> ProjectedTable:
    declaration, outcome = result.declaration, result.outcome
    run, state = (outcome.run, outcome.state) if outcome is not None else (None, None)
    counts = ("records", "inserted", "updated", "deleted", "rescued", "checks")
    return ProjectedTable(
        name=declaration.name,
        tap=declaration.tap,
        stream=declaration.stream,
        status=result.status,
        rows=None if state is None else state.rows,
        files=None if state is None else len(state.files),
        bytes=None if state is None else state.bytes,
        **({name: getattr(run, name) for name in counts} if run is not None else {}),
        error=result.error,
    )
