"""Running a table's plan: tasks on an engine, then the one write that publishes what they made."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from singerlake.clock import Clock, IdSource, timestamp
from singerlake.errors import LineageChangedError, MissingFileError, TooManyConflictsError
from singerlake.format.state.model import Manifest
from singerlake.maintenance.engines.engine import Engine
from singerlake.projections.declaration.model import TableDeclaration
from singerlake.projections.declaration.stored import declaration_of
from singerlake.projections.delta.publish import catch_up
from singerlake.projections.run.new_state import first_state, new_state
from singerlake.projections.run.plan import TablePlan, as_it_was, make_plan
from singerlake.projections.run.work import Work
from singerlake.projections.state.commit import commit, load, require_conditions
from singerlake.projections.state.model import TableRun, TableState
from singerlake.storage.port import Storage

logger = logging.getLogger(__name__)

ATTEMPTS = 5


@dataclass(frozen=True)
class Outcome:
    """What a run did for one table. ``plan`` None: it was not made. ``run`` None: there was nothing to do."""

    plan: TablePlan
    state: TableState | None
    run: TableRun | None
    examples: dict[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class TableRunner:
    """Runs tables of one lake. ``manifest`` gives a stream's state as it is now; ``engine`` the one that runs tasks on
    that many raw bytes, which is opened no sooner than it is needed."""

    storage: Storage
    lake_id: Callable[[], str]
    manifest: Callable[[str, str], Manifest]
    engine: Callable[[int], Engine]
    clock: Clock
    ids: IdSource

    def plan(self, declaration: TableDeclaration, *, full_refresh: bool = False) -> TablePlan:
        """What a run would do now. Raises as ``make_plan``, and what storage raises."""
        base = load(self.storage, declaration.name)
        return make_plan(
            declaration, self.manifest(declaration.tap, declaration.stream), base, full_refresh=full_refresh
        )

    def run(self, declaration: TableDeclaration, *, full_refresh: bool = False) -> Outcome:
        """Bring a table up to its stream. Raises ``CheckFailedError``, ``TooManyConflictsError``,
        ``ConditionNotSupportedError``, and what planning, reading and storage raise: the table is then as it was. Where
        its Delta log alone could not be written, the next run does that."""
        checked = False
        for attempt in range(ATTEMPTS + 1):
            plan = self.plan(declaration, full_refresh=full_refresh)
            if plan.base is not None and not attempt:
                self.catch_up(plan.base.state)
            if plan.is_nothing:
                return Outcome(plan, plan.state, None)
            if not checked:
                require_conditions(self.storage)
                checked = True
            if plan.base is None:
                self._announce(declaration)
                continue
            work = self._work(plan)
            try:
                work.do()
            except MissingFileError:
                work.discard()
                if self._is_as_planned(plan):
                    raise
                logger.warning("files of table %s or its stream were replaced meanwhile; going on", declaration.name)
                continue
            except (Exception, KeyboardInterrupt):
                # An interruption, too: no state names what was made before the commit.
                work.discard()
                raise
            state = new_state(work, lake_id=self.lake_id(), now=timestamp(self.clock.now()))
            found = commit(self.storage, plan.base, state)
            work.discard_scratch()
            if found is not None:
                self.catch_up(found.state)
                return Outcome(work.plan, found.state, state.runs[-1], work.seen.examples)
            work.discard()
            logger.warning("table %s was written by another run meanwhile; going on from there", declaration.name)
        raise TooManyConflictsError(
            "other runs kept writing the table", hint="run again; nothing is lost", table=declaration.name
        )

    def catch_up(self, state: TableState) -> None:
        """Bring the Delta log of a table to it, where a run ended before it did. Raises as ``publish``: the table is as
        its state says all the same."""
        catch_up(self.storage, state, self.clock)

    @contextmanager
    def made_anew(self, state: TableState) -> Iterator[TableState]:
        """The state that a table would have if it were made anew, up to the same offset, with its files in place as
        long as the block runs. Nothing is published. Raises as ``run``."""
        base = load(self.storage, state.table)
        source = state.sources[0]
        manifest = self.manifest(source.tap, source.stream)
        declaration = declaration_of(state)
        if source.lineage != manifest.lineage:
            raise LineageChangedError(
                "the stream was rebuilt since the table was made", hint="run the table first", table=state.table
            )
        plan = make_plan(declaration, as_it_was(manifest, source.offset), base, full_refresh=True)
        work = self._work(replace(plan, stop=source.offset))
        try:
            work.do()
            yield new_state(work, lake_id=self.lake_id(), now=timestamp(self.clock.now()))
        finally:
            work.discard()

    def _work(self, plan: TablePlan) -> Work:
        return Work(self.storage, self.engine, plan, self.ids())

    def _is_as_planned(self, plan: TablePlan) -> bool:
        """Whether what a plan was made from is still so: if not, files that it names may have been collected."""
        base = load(self.storage, plan.declaration.name)
        same = (base and base.etag) == (plan.base and plan.base.etag)
        return same and self.manifest(plan.declaration.tap, plan.declaration.stream) == plan.manifest

    def _announce(self, declaration: TableDeclaration) -> None:
        """Write a first state."""
        now = timestamp(self.clock.now())
        commit(self.storage, None, first_state(declaration, id=self.ids(), lake_id=self.lake_id(), now=now))
