"""Many tables of one run: planned side by side, made one after the other. A table that fails stops no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

from singerlake.errors import SingerlakeError, expected_errors
from singerlake.maintenance.engines.engine import Answer, Item, Task
from singerlake.maintenance.engines.parallel import THREADS, in_parallel
from singerlake.projections.declaration.model import TableDeclaration
from singerlake.projections.declaration.streams import Resolved
from singerlake.projections.run.plan import TablePlan, make_plan
from singerlake.projections.run.run import Outcome, TableRunner
from singerlake.storage.port import Storage

SMALL_BYTES = 4 << 20
"""Raw bytes to read and stored bytes of the table: what it takes to start an engine is more than the work."""


TableStatus = Literal["made", "nothing_new", "planned", "no_messages", "failed"]


@dataclass(frozen=True)
class TableResult:
    """What became of one table. ``error`` says why it is as it was. ``outcome`` None and no error: its stream has no
    messages yet."""

    declaration: TableDeclaration
    plan: TablePlan | None
    outcome: Outcome | None = None
    error: SingerlakeError | None = field(default=None, compare=False)

    @property
    def status(self) -> TableStatus:
        """The same in a word: ``planned`` where nothing was done yet."""
        if self.error is not None:
            return "failed"
        if self.plan is None:
            return "no_messages"
        if self.outcome is None:
            return "nothing_new" if self.plan.is_nothing else "planned"
        return "nothing_new" if self.outcome.run is None else "made"


def plan_tables(
    runner: TableRunner, tables: Iterable[Resolved], *, full_refresh: bool = False, threads: int = THREADS
) -> Iterator[TableResult]:
    """What a run would do for each table, in their order; nothing is written."""
    return in_parallel(lambda table: _planned(runner, table, full_refresh), tables, threads=threads)


def run_tables(
    runner: TableRunner,
    tables: Iterable[Resolved],
    *,
    full_refresh: bool = False,
    threads: int = THREADS,
    together: bool = False,
    began: Callable[[TablePlan], None] = lambda _: None,
) -> Iterator[TableResult]:
    """Bring each table up to its stream; answers in their order. ``together``: small tables are made side by side, each
    by one thread of this process, while the others are made by the runner's engine, one after the other. ``began`` is
    told of each of these."""
    runner = replace(runner, lake_id=cache(runner.lake_id))
    alone = replace(runner, engine=lambda _: _Here(runner.storage))

    def first(table: Resolved) -> TableResult:
        planned = _caught_up(runner, _planned(runner, table, full_refresh))
        if planned.plan is not None and together and _is_small(planned.plan):
            return _made(alone, planned, full_refresh)
        return planned

    for result in in_parallel(first, tables, threads=threads):
        if result.outcome is None and result.error is None and result.plan is not None:
            began(result.plan)
            yield _made(runner, result, full_refresh)
        else:
            yield result


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
    schemas = list(manifest.schemas.values())
    declaration = table.with_key(schemas[-1].key_properties if schemas else ())
    base = runner.base(declaration.name, full_refresh=full_refresh)
    if not manifest.next_offset and not (base is not None and base.state.is_published):
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
