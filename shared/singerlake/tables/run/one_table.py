"""A run of one table: planned, written by tasks on an engine, and published by one write."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from singerlake.clock import Clock, IdSource, timestamp
from singerlake.errors import (
    ExpiredMessagesError,
    LakeError,
    LineageChangedError,
    MissingFileError,
    SingerlakeError,
    TooManyConflictsError,
)
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import TableDeclaration
from singerlake.tables.declaration.stored import declaration_of, earlier_declarations
from singerlake.tables.derived import catch_up, require_storage
from singerlake.tables.rows.columns import as_it_was
from singerlake.tables.rows.convert import Rescued
from singerlake.tables.run.discard import discarded
from singerlake.tables.run.plan import SqlPlan, TablePlan, make_plan
from singerlake.tables.run.publish import Publication, first_state
from singerlake.tables.run.sql_engine import SqlEngine, without_spark
from singerlake.tables.run.write import TableAttempt
from singerlake.tables.state.commit import StoredState, commit, load, load_to_replace
from singerlake.tables.state.model import TableRun, TableState, source_of
from singerlake.upkeep.scan import schema_before
from singerlake.work.engine import Engine

logger = logging.getLogger(__name__)

ATTEMPTS = 5


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

    def base(self, table: str, *, full_refresh: bool) -> StoredState | None:
        """What a run begins with; ``full_refresh`` can begin with a broken state, too. Raises as ``load``."""
        return load_to_replace(self.storage, table) if full_refresh else load(self.storage, table)

    def run(self, declaration: TableDeclaration, *, full_refresh: bool = False) -> Outcome:
        """Bring a table up to its stream. Raises ``CheckFailedError``, ``TooManyConflictsError``,
        ``ConditionNotSupportedError``, and what planning, reading and storage raise: the table is then as it was. Where
        its Delta log or Iceberg metadata alone could not be written, the next run does that."""
        begun = False
        for attempt in range(ATTEMPTS + 1):
            plan = self.plan(declaration, full_refresh=full_refresh)
            if plan.base is not None and not attempt:
                self.catch_up(plan.base.state)
            if plan.is_nothing:
                return Outcome(plan, plan.state, None)
            if not begun:
                require_storage(self.storage, declaration)
            if plan.base is None:
                self.announce(declaration, again=begun)
                begun = True
                continue
            begun = True
            work = self._work(plan)
            try:
                with discarded(work):
                    work.do()
                found = self._publication(work).publish()
            except MissingFileError:
                if self._is_as_planned(plan):
                    raise
                logger.warning("files of table %s or its stream were replaced meanwhile; going on", declaration.name)
                continue
            if found is not None:
                self.catch_up(found.state)
                return Outcome(plan, found.state, found.state.runs[-1], work.seen.examples, work.seen.misfits)
            logger.warning("table %s was written by another run meanwhile; going on from there", declaration.name)
        raise TooManyConflictsError(
            "other runs kept writing the table", hint="run again; nothing is lost", table=declaration.name
        )

    def catch_up(self, state: TableState) -> None:
        """Bring what is derived of a table to it, where a run ended before it did. Raises as ``derived.catch_up``: the
        table is as its state says all the same."""
        catch_up(self.storage, state, self.clock)

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
            yield self._publication(work).state()
        finally:
            work.discard()

    def _publication(self, work: TableAttempt) -> Publication:
        return Publication(self.storage, self.lake_id, self.manifest, self.clock, self._work, [work])

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


TableStatus = Literal["made", "nothing_new", "planned", "no_messages", "failed"]


@dataclass(frozen=True)
class TableResult:
    """What became of one table. ``error`` says why it is as it was. ``outcome`` None and no error: its stream has no
    messages yet."""

    declaration: TableDeclaration
    plan: TablePlan | SqlPlan | None
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
