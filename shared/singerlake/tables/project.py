"""A run of many tables: planned side by side, made one after the other, once or again and again, and what callers in
Python get of it. A table that fails stops no other."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NoReturn

from singerlake.clock import Clock
from singerlake.errors import SettingError, SingerlakeError, expected_errors
from singerlake.format.state.selection import schema_in_force
from singerlake.glance import at_a_glance
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import TableDeclaration
from singerlake.tables.declaration.streams import Declared, Resolved, Streams, Unresolved, chosen, everything, resolve
from singerlake.tables.run.one_table import Outcome, TableResult, TableRunner, TableStatus
from singerlake.tables.run.plan import SqlPlan, TablePlan, make_plan
from singerlake.tables.sql.run import SqlTables
from singerlake.tables.state.commit import sources
from singerlake.upkeep.result import UNSEEN, Report, reporting
from singerlake.work.engine import Answer, Engine, Item, Task, Watched
from singerlake.work.parallel import THREADS, in_parallel

SMALL_BYTES = 4 << 20
"""Raw bytes to read and stored bytes of the table: what it takes to start an engine is more than the work."""


def plan_tables(
    runner: TableRunner, tables: Iterable[Resolved], *, full_refresh: bool = False
) -> Iterator[TableResult]:
    """What a run would do for each table, first those of streams, then those of statements; nothing is written."""
    streams, statements = _apart(tables)
    others = set()
    for result in in_parallel(lambda table: _planned(runner, table, full_refresh), streams, threads=THREADS):
        if result.status == "planned":
            others.add(result.declaration.name)
        yield result
    yield from SqlTables(runner, statements, full_refresh, frozenset(others)).plans()


def run_tables(
    runner: TableRunner,
    tables: Iterable[Resolved],
    *,
    full_refresh: bool = False,
    together: bool = False,
    began: Callable[[TablePlan | SqlPlan], None] = lambda _: None,
) -> Iterator[TableResult]:
    """Bring each table up to its stream, in their order, and then those of statements up to the tables that they read,
    each behind these. ``together``: small tables are made side by side, each
    by one thread of this process, while the others are made by the runner's engine, one after the other. ``began`` is
    told of each of these."""
    runner = replace(runner, lake_id=cache(runner.lake_id))
    alone = replace(runner, engine=lambda _: _Here(runner.storage))
    streams, statements = _apart(tables)

    def first(table: Resolved) -> TableResult:
        planned = _caught_up(runner, _planned(runner, table, full_refresh))
        if isinstance(planned.plan, TablePlan) and together and _is_small(planned.plan):
            return _made(alone, planned, full_refresh)
        return planned

    for result in in_parallel(first, streams, threads=THREADS):
        if result.outcome is None and result.error is None and result.plan is not None:
            began(result.plan)
            yield _made(runner, result, full_refresh)
        else:
            yield result
    yield from SqlTables(runner, statements, full_refresh, began=began).run()


def _apart(tables: Iterable[Resolved]) -> tuple[list[Resolved], dict[str, TableDeclaration]]:
    """Tables of streams, and tables of statements by their names."""
    streams, statements = [], {}
    for each in tables:
        if each.declaration.sql is None:
            streams.append(each)
        else:
            statements[each.declaration.name] = each.declaration
    return streams, statements


def _planned(runner: TableRunner, table: Resolved, full_refresh: bool) -> TableResult:
    """``outcome`` is there where there is nothing to do."""
    try:
        with expected_errors(table=table.declaration.name):
            return _plan(runner, table, full_refresh)
    except SingerlakeError as error:
        return TableResult(table.declaration, None, error=error)


def _plan(runner: TableRunner, table: Resolved, full_refresh: bool) -> TableResult:
    declaration = table.declaration
    manifest = runner.manifest(declaration.tap, declaration.stream)
    schema = schema_in_force(manifest)
    declaration = table.with_key(() if schema is None else schema.key_properties)
    base = runner.base(declaration.name, full_refresh=full_refresh)
    dropped = manifest.lineage is not None and not manifest.versions
    if dropped or (not manifest.next_offset and not (base is not None and base.state.is_published)):
        # Of a stream that was dropped the table may be all that is left.
        return TableResult(declaration, None)
    plan = make_plan(declaration, manifest, base, full_refresh=full_refresh)
    return TableResult(declaration, plan, Outcome(plan, plan.state, None) if plan.is_nothing else None)


def _caught_up(runner: TableRunner, planned: TableResult) -> TableResult:
    """Where there is nothing to do, a run that was ended may yet have left a Delta log behind its table."""
    if planned.outcome is None or planned.outcome.state is None:
        return planned
    try:
        with expected_errors(table=planned.declaration.name):
            runner.catch_up(planned.outcome.state)
    except SingerlakeError as error:
        return TableResult(planned.declaration, None, error=error)
    return planned


def _made(runner: TableRunner, planned: TableResult, full_refresh: bool) -> TableResult:
    if planned.outcome is not None:
        return planned
    try:
        with expected_errors(table=planned.declaration.name):
            outcome = runner.run(planned.declaration, full_refresh=full_refresh)
    except SingerlakeError as error:
        return replace(planned, error=error)
    return replace(planned, plan=outcome.plan, outcome=outcome)


def _is_small(plan: TablePlan) -> bool:
    """Whether all that a run may hold of this table is little, so that several can be made at once."""
    return plan.new_bytes + sum(file.bytes for file in plan.files) <= SMALL_BYTES


@dataclass(frozen=True)
class _Here:
    """The engine for few items: the thread that asks."""

    storage: Storage

    def __call__(self, task: Task[Item, Answer], items: Iterable[Item]) -> Iterator[tuple[Item, Answer]]:
        for item in items:
            yield item, task(self.storage, item)


LONGEST_WAIT = 300.0
"""Seconds until a table that keeps failing is tried again, at most, if looks are not further apart."""

Looked = tuple[list[Resolved], list[Unresolved]]


@dataclass
class Retries:
    """When what failed is tried again: after twice as long each time. ``every`` is in seconds."""

    every: float
    clock: Clock
    _failed: dict[str | None, tuple[float, float]] = field(default_factory=dict)

    def is_due(self, name: str | None) -> bool:
        """Whether it may be tried."""
        return name not in self._failed or self.clock.monotonic() >= self._failed[name][1]

    def add(self, name: str | None) -> float:
        """Note that it failed; the seconds until it is tried again."""
        before = self._failed[name][0] if name in self._failed else self.every
        wait = min(2 * before, max(LONGEST_WAIT, self.every))
        self._failed[name] = (wait, self.clock.monotonic() + wait)
        return wait

    def forget(self, name: str | None) -> None:
        """Note that it did not fail."""
        self._failed.pop(name, None)


@dataclass(frozen=True)
class Follower:
    """``look`` gives the tables that are meant, by the streams that there are now; ``run`` brings some up to them.
    ``told`` is told of each table that was made, and of each that failed with the seconds until it is tried again;
    ``told_look`` of a look that failed."""

    look: Callable[[], Looked]
    run: Callable[[list[Resolved]], Iterable[TableResult]]
    told: Callable[[TableResult, float | None], None]
    told_look: Callable[[SingerlakeError, float], None]
    clock: Clock

    def follow(self, found: Looked, every: float) -> NoReturn:
        """Run what a first look ``found``, then look every so many seconds, and run the tables whose streams have
        something new. An error of one table stops no other, and neither ends this. Raises what ``told`` does."""
        retries = Retries(every, self.clock)
        while True:
            self._run(found, retries)
            found = self._next(retries)

    def _run(self, found: Looked, retries: Retries) -> None:
        tables, failed = found
        due = [each for each in tables if retries.is_due(each.declaration.name)]
        wrong = [each for each in failed if retries.is_due(each.declaration.name)]
        unresolved = (TableResult(each.declaration, None, error=each.error) for each in wrong)
        for result in chain(unresolved, self.run(due) if due else ()):
            name = result.declaration.name
            if result.error is not None:
                self.told(result, retries.add(name))
                continue
            retries.forget(name)
            if result.status == "made":
                self.told(result, None)

    def _next(self, retries: Retries) -> Looked:
        while True:
            self.clock.sleep(retries.every)
            if not retries.is_due(None):
                continue
            try:
                found = self.look()
            except SingerlakeError as error:
                self.told_look(error, retries.add(None))
            else:
                retries.forget(None)
                return found


@at_a_glance
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
    if dry_run:
        planned = planned_tables(runner, declared, streams, names, full_refresh=full_refresh)
        return [_projected(each) for each in planned]
    tables, wrong = _meant(runner, declared, streams, names)
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


def planned_tables(
    runner: TableRunner, declared: Sequence[Declared], streams: Streams, names: Sequence[str], *, full_refresh: bool
) -> list[TableResult]:
    """What a run would do for the tables that ``names`` means, all where it is empty. Raises ``UnknownNameError``."""
    tables, wrong = _meant(runner, declared, streams, names)
    return [*wrong, *plan_tables(runner, tables, full_refresh=full_refresh)]


def _meant(
    runner: TableRunner, declared: Sequence[Declared], streams: Streams, names: Sequence[str]
) -> tuple[list[Resolved], list[TableResult]]:
    """The tables that are meant, and those of them that mean no stream."""
    tables, failed = chosen(*resolve(declared, streams, sources(runner.storage)), names)
    return tables, [TableResult(each.declaration, None, error=each.error) for each in failed]


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
