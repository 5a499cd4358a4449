"""Running a table's plan: tasks on an engine, then the one write that publishes what they made."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from singerlake.clock import Clock, IdSource, timestamp
from singerlake.errors import (
    ExpiredMessagesError,
    LakeError,
    LineageChangedError,
    MissingFileError,
    TooManyConflictsError,
)
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import TableDeclaration
from singerlake.tables.declaration.stored import declaration_of, earlier_declarations
from singerlake.tables.delta.publish import catch_up
from singerlake.tables.rows.rescued import Rescued
from singerlake.tables.run.attempt import TableAttempt
from singerlake.tables.run.new_state import first_state, following, new_state, together
from singerlake.tables.run.plan import TablePlan, as_it_was, make_plan
from singerlake.tables.run.rebase import may_rebase
from singerlake.tables.sql.plan import SqlPlan
from singerlake.tables.sql.port import SqlEngine, without_spark
from singerlake.tables.state.commit import Found, commit, load, load_to_replace, require_conditions
from singerlake.tables.state.model import REBUILD, TableRun, TableState, source_of
from singerlake.upkeep.scan.schema_line import schema_before
from singerlake.work.engine import Engine

logger = logging.getLogger(__name__)

ATTEMPTS = 5
REBASES = 20
"""Times that one run's files are published behind other writes before the work is done again."""


@dataclass(frozen=True)
class Outcome:
    """What a run did for one table. ``plan`` None: it was not made. ``run`` None: there was nothing to do.
    ``behind`` counts, for tables that a statement read, messages of their streams that they do not hold."""

    plan: TablePlan | SqlPlan
    state: TableState | None
    run: TableRun | None
    examples: dict[str, list[int]] = field(default_factory=dict)
    misfits: dict[str, Rescued] = field(default_factory=dict)
    behind: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TableRunner:
    """Runs tables of one lake. ``manifest`` gives a stream's state as it is now; ``engine`` the one that runs tasks on
    that many raw bytes, ``sql`` the one that runs statements; they are opened no sooner than they are needed."""

    storage: Storage
    lake_id: Callable[[], str]
    manifest: Callable[[str, str], Manifest]
    engine: Callable[[int], Engine]
    clock: Clock
    ids: IdSource
    sql: Callable[[], SqlEngine] = without_spark

    def plan(self, declaration: TableDeclaration, *, full_refresh: bool = False) -> TablePlan:
        """What a run would do now. Raises as ``make_plan``, and what storage raises."""
        base = self.base(declaration.name, full_refresh=full_refresh)
        return make_plan(
            declaration, self.manifest(declaration.tap, declaration.stream), base, full_refresh=full_refresh
        )

    def base(self, table: str, *, full_refresh: bool) -> Found | None:
        """What a run begins with; ``full_refresh`` can begin with a broken state, too. Raises as ``load``."""
        return load_to_replace(self.storage, table) if full_refresh else load(self.storage, table)

    def run(self, declaration: TableDeclaration, *, full_refresh: bool = False) -> Outcome:
        """Bring a table up to its stream. Raises ``CheckFailedError``, ``TooManyConflictsError``,
        ``ConditionNotSupportedError``, and what planning, reading and storage raise: the table is then as it was. Where
        its Delta log alone could not be written, the next run does that."""
        begun = False
        for attempt in range(ATTEMPTS + 1):
            plan = self.plan(declaration, full_refresh=full_refresh)
            if plan.base is not None and not attempt:
                self.catch_up(plan.base.state)
            if plan.is_nothing:
                return Outcome(plan, plan.state, None)
            if not begun:
                require_conditions(self.storage, declaration.format)
            if plan.base is None:
                self.announce(declaration, again=begun)
                begun = True
                continue
            begun = True
            work = self._work(plan)
            try:
                with _discarded(work):
                    work.do()
                outcome = self._published(work)
            except MissingFileError:
                if self._is_as_planned(plan):
                    raise
                logger.warning("files of table %s or its stream were replaced meanwhile; going on", declaration.name)
                continue
            if outcome is not None:
                return outcome
            logger.warning("table %s was written by another run meanwhile; going on from there", declaration.name)
        raise TooManyConflictsError(
            "other runs kept writing the table", hint="run again; nothing is lost", table=declaration.name
        )

    def catch_up(self, state: TableState) -> None:
        """Bring the Delta log of a table to it, where a run ended before it did. Raises as ``publish``: the table is as
        its state says all the same."""
        catch_up(self.storage, state, self.clock)

    def _published(self, work: TableAttempt) -> Outcome | None:
        """Commit what ``work`` made. None where other writes came first that it cannot follow; it is removed then.
        Raises as ``run``; what a commit may have made a part of the table is not removed."""
        works, state, base = [work], self._new_state(work), work.plan.base
        for _ in range(REBASES):
            found = commit(self.storage, base, state)
            if found is not None:
                for each in works:
                    each.discard_scratch()
                self.catch_up(found.state)
                return Outcome(work.plan, found.state, state.runs[-1], work.seen.examples, work.seen.misfits)
            with _discarded(*works):
                assert base is not None
                now = load_to_replace(self.storage, state.table)
                follower = None if now is None else self._following(state, now, base.state, works)
            if now is None or follower is None:
                break
            state, base = follower, now
        for each in works:
            each.discard()
        return None

    def _following(
        self, state: TableState, now: Found, base: TableState, works: list[TableAttempt]
    ) -> TableState | None:
        """``state``, made of ``base`` by ``works``, as it can be published behind ``now``; None where it cannot. A
        table that was made anew follows increments: where these are ahead, it takes in as much, by one more work."""
        if not may_rebase(self.storage, state, _paths(works), base, now):
            return None
        if state.runs[-1].kind == REBUILD and now.state.sources[0].offset > state.sources[0].offset:
            declaration = works[0].plan.declaration
            manifest = self.manifest(declaration.tap, declaration.stream)
            plan = make_plan(declaration, manifest, replace(now, state=state))
            if plan.why:
                return None
            more = self._work(plan)
            works.append(more)
            more.do()
            if more.plan.why:
                return None
            state = together(state, self._new_state(more))
        return following(state, now.state, _paths(works))

    def _new_state(self, work: TableAttempt) -> TableState:
        return new_state(work, lake_id=self.lake_id(), now=timestamp(self.clock.now()))

    @contextmanager
    def made_anew(self, state: TableState) -> Iterator[TableState]:
        """The state that a table would have if it were made anew, up to the same offset, with its files in place as
        long as the block runs. Nothing is published. Raises ``ExpiredMessagesError`` where messages have expired that
        its rows were made of, and as ``run``."""
        base = load(self.storage, state.table)
        source = state.sources[0]
        manifest = self.manifest(source.tap, source.stream)
        declaration = declaration_of(state)
        if source.lineage != manifest.lineage:
            raise LineageChangedError(
                "the stream was rebuilt or dropped since the table was made",
                hint="run the table first",
                table=state.table,
            )
        if not source.knows_holes_of(source_of(manifest)):
            raise LakeError(
                "records of the stream were erased since the table was made",
                hint="run the table first",
                table=state.table,
            )
        if source.begin < manifest.floor:
            raise ExpiredMessagesError(
                f"messages that its rows were made of have expired, those before offset {manifest.floor}",
                hint="make the table anew of what is left with 'singerlake project run --full-refresh'",
                table=state.table,
            )
        schema = schema_before(self.storage, manifest, source.offset)
        key = () if schema is None else schema.key_properties
        plan = make_plan(declaration, as_it_was(manifest, source.offset), base, full_refresh=True, stream_key=key)
        work = self._work(replace(plan, stop=source.offset))
        work.earlier = earlier_declarations(state)
        try:
            work.do()
            yield self._new_state(work)
        finally:
            work.discard()

    def _work(self, plan: TablePlan) -> TableAttempt:
        return TableAttempt(self.storage, self.engine, plan, self.ids())

    def _is_as_planned(self, plan: TablePlan) -> bool:
        """Whether what a plan was made from is still so: if not, files that it names may have been collected."""
        base = load_to_replace(self.storage, plan.declaration.name)
        same = (base and base.etag) == (plan.base and plan.base.etag)
        return same and self.manifest(plan.declaration.tap, plan.declaration.stream) == plan.manifest

    def announce(self, declaration: TableDeclaration, *, again: bool) -> None:
        """Write a first state. ``again``: there was one; raises ``TooManyConflictsError`` then."""
        if again:
            raise TooManyConflictsError(
                "the table was dropped while the run was at work, and nothing was published",
                hint="run again to make it anew",
                table=declaration.name,
            )
        now = timestamp(self.clock.now())
        commit(self.storage, None, first_state(declaration, id=self.ids(), lake_id=self.lake_id(), now=now))


@contextmanager
def _discarded(*works: TableAttempt) -> Iterator[None]:
    """Remove what was made where the block fails or is interrupted: no state names it."""
    try:
        yield
    except (Exception, KeyboardInterrupt):
        for work in works:
            work.discard()
        raise


def _paths(works: Iterable[TableAttempt]) -> set[str]:
    return {path for work in works for file in work.made for path in file.paths}
