"""Many tables of one run: planned side by side, made one after the other. A table that fails stops no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from singerlake.errors import SingerlakeError
from singerlake.maintenance.engines.parallel import THREADS, in_parallel
from singerlake.projections.declaration.model import TableDeclaration
from singerlake.projections.declaration.streams import Resolved
from singerlake.projections.run.plan import TablePlan, make_plan
from singerlake.projections.run.run import Outcome, TableRunner
from singerlake.projections.state.commit import Found, load


@dataclass(frozen=True)
class TableResult:
    """What became of one table. ``error`` says why it is as it was. ``outcome`` None and no error: its stream has no
    messages yet."""

    declaration: TableDeclaration
    plan: TablePlan | None
    outcome: Outcome | None = None
    error: SingerlakeError | None = field(default=None, compare=False)


def plan_tables(
    runner: TableRunner, tables: Iterable[Resolved], *, full_refresh: bool = False, threads: int = THREADS
) -> Iterator[TableResult]:
    """What a run would do for each table, in their order; nothing is written."""

    def plan(table: Resolved) -> TableResult:
        declaration = table.declaration
        try:
            manifest = runner.manifest(declaration.tap, declaration.stream)
            schemas = list(manifest.schemas.values())
            declaration = table.with_key(schemas[-1].key_properties if schemas else ())
            base = load(runner.storage, declaration.name)
            if not manifest.next_offset and not _is_published(base):
                return TableResult(declaration, None)
            return TableResult(declaration, make_plan(declaration, manifest, base, full_refresh=full_refresh))
        except SingerlakeError as error:
            return TableResult(declaration, None, error=error)

    return in_parallel(plan, tables, threads=threads)


def run_tables(
    runner: TableRunner,
    tables: Iterable[Resolved],
    *,
    full_refresh: bool = False,
    threads: int = THREADS,
    began: Callable[[TablePlan], None] = lambda _: None,
) -> Iterator[TableResult]:
    """Bring each table up to its stream, in their order. ``began`` is told of each that has something to do."""
    for planned in plan_tables(runner, tables, full_refresh=full_refresh, threads=threads):
        plan = planned.plan
        if plan is None:
            yield planned
        elif plan.is_nothing:
            yield TableResult(planned.declaration, plan, Outcome(plan, plan.state, None))
        else:
            began(plan)
            try:
                outcome = runner.run(planned.declaration, full_refresh=full_refresh)
            except SingerlakeError as error:
                yield TableResult(planned.declaration, plan, error=error)
            else:
                yield TableResult(planned.declaration, outcome.plan, outcome)


def _is_published(base: Found | None) -> bool:
    return base is not None and base.state.is_published
