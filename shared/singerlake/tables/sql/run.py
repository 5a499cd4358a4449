"""Making tables of statements: each after those that it reads, from one snapshot of each, by one conditional write."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from singerlake.clock import timestamp
from singerlake.errors import SettingError, SingerlakeError, TooManyConflictsError, expected_errors
from singerlake.tables.declaration.model import TableDeclaration
from singerlake.tables.declaration.statement import name_in, relations_in
from singerlake.tables.declaration.streams import hint_for
from singerlake.tables.derived import require_storage
from singerlake.tables.read import LakeTable
from singerlake.tables.run.one_table import ATTEMPTS, Outcome, TableResult, TableRunner
from singerlake.tables.run.plan import SqlPlan, new_rows, sql_plan, up_to
from singerlake.tables.run.sql_engine import Shown, SqlEngine
from singerlake.tables.sql.write import SqlAttempt
from singerlake.tables.state.commit import commit, load
from singerlake.tables.state.commit import tables as table_names
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import MadeFrom, TableState, source_of
from singerlake.tables.tasks.files import read_rows
from singerlake.work.parallel import THREADS, in_parallel

logger = logging.getLogger(__name__)


class _CircleError(SettingError):
    """Tables whose statements read each other; ``first`` is the one that was begun first."""

    first = ""


@dataclass
class SqlTables:
    """The tables of statements of one run. ``others`` are names of tables that the run is to make before them and that
    will be other ones then: a plan does not know their rows. ``began`` is told of each table that is made."""

    runner: TableRunner
    declared: Mapping[str, TableDeclaration]
    full_refresh: bool = False
    others: frozenset[str] = frozenset()
    began: Callable[[SqlPlan], None] = lambda _: None
    _done: dict[str, TableResult] = field(default_factory=dict)
    _under_way: list[str] = field(default_factory=list)

    def plans(self) -> Iterator[TableResult]:
        """What a run would do, in the order of the declarations. Of a statement no more is seen than the tables that it
        names: what else is wrong with it, Spark tells in the run."""
        return map(self._planned, self.declared)

    def run(self) -> Iterator[TableResult]:
        """Make all of them, in the order in which they are made."""
        told: set[str] = set()
        for name in self.declared:
            self._make(name)
            for each, result in self._done.items():
                if each not in told:
                    told.add(each)
                    yield result

    def _planned(self, name: str) -> TableResult:
        """Raises ``SettingError`` where the table is just being planned, as ``_make`` does."""
        if name in self._under_way:
            raise self._circle(name)
        if name not in self._done:
            self._finish(name, self._planned_anew)
        return self._done[name]

    def _planned_anew(self, declaration: TableDeclaration) -> TableResult:
        names = self._read_as_seen(declaration)
        results = [self._planned(name) for name in names if name in self.declared]
        plan = self._plan(declaration, self._state_planned)
        for result in results:
            if result.error is not None and not plan.is_nothing:
                LakeTable.load(self.runner.storage, result.declaration.name)
        return TableResult(declaration, plan)

    def _read_as_seen(self, declaration: TableDeclaration) -> list[str]:
        """The tables that a statement reads: those of its last run, or what is seen in it."""
        before = self._read_before(declaration)
        if before is not None:
            return before
        try:
            meant = [_meant(relation, self._names()) for relation in relations_in(declaration.sql or "")]
        except SettingError as error:
            raise _with_line(error, declaration) from None
        return [name for name in meant if name is not None]

    def _state_planned(self, name: str) -> TableState | None:
        if name in self.others:
            return None
        if name in self.declared:
            plan = self._planned(name).plan
            if plan is not None and not plan.is_nothing:
                return None
        return self._state_now(name)

    def _plan(self, declaration: TableDeclaration, now: Callable[[str], TableState | None]) -> SqlPlan:
        base = self.runner.base(declaration.name, full_refresh=self.full_refresh)
        return sql_plan(declaration, base, now, full_refresh=self.full_refresh)

    def _state_now(self, name: str) -> TableState | None:
        found = load(self.runner.storage, name)
        return found.state if found is not None and found.state.is_published else None

    def _make(self, name: str) -> None:
        """Make a table, unless that was done. Raises ``SettingError`` where it is just being made."""
        if name in self._under_way:
            raise self._circle(name)
        if name not in self._done:
            self._finish(name, self._made)

    def _finish(self, name: str, do: Callable[[TableDeclaration], TableResult]) -> None:
        """Note what became of a table. Raises where it is part of a circle that was begun by another one."""
        self._under_way.append(name)
        declaration = self.declared[name]
        try:
            with expected_errors(table=name):
                result = do(declaration)
        except SingerlakeError as error:
            result = TableResult(declaration, None, error=error)
        finally:
            self._under_way.pop()
        self._done[name] = result
        if isinstance(result.error, _CircleError) and result.error.first in self._under_way:
            raise result.error

    def _made(self, declaration: TableDeclaration) -> TableResult:
        for other in self._read_before(declaration) or ():
            if other in self.declared:
                self._make(other)
        plan = self._plan(declaration, self._state_now)
        try:
            with expected_errors(table=declaration.name):
                outcome = Outcome(plan, plan.state, None) if plan.is_nothing else self._published(plan)
                if plan.is_nothing and plan.state is not None:
                    self.runner.catch_up(plan.state)
        except SingerlakeError as error:
            return TableResult(declaration, plan, error=error)
        return TableResult(declaration, outcome.plan, outcome)

    def _circle(self, name: str) -> _CircleError:
        circle = [*self._under_way[self._under_way.index(name) :], name]
        error = _CircleError(
            f"tables read each other in a circle: {' reads '.join(map(repr, circle))}",
            hint="let one of them read tables of streams alone",
            **self.declared[name].at("sql"),
        )
        error.first = name
        return error

    def _read_before(self, declaration: TableDeclaration) -> list[str] | None:
        """The tables that the same statement read the last time; None where it was not run yet."""
        base = self.runner.base(declaration.name, full_refresh=self.full_refresh)
        if base is None or not base.state.is_published or base.state.declaration.get("sql") != declaration.sql:
            return None
        return [each.table for each in base.state.made_from]

    def _published(self, plan: SqlPlan) -> Outcome:
        runner, declaration = self.runner, plan.declaration
        engine = runner.sql()
        require_storage(runner.storage, declaration)
        self.began(plan)
        for attempt in range(ATTEMPTS + 1):
            if plan.base is None:
                runner.announce(declaration, again=attempt > 0)
                plan = self._plan(declaration, self._state_now)
            if plan.is_nothing:
                return Outcome(plan, plan.state, None)
            read: dict[str, LakeTable] = {}
            work = self._worked(plan, engine, read)
            made_from = [_made_from(read[name], work.query.row_by_row) for name in sorted(read)]
            state = work.state(made_from, lake_id=runner.lake_id(), now=timestamp(runner.clock.now()))
            found = commit(runner.storage, plan.base, state)
            work.discard_scratch()
            if found is not None:
                runner.catch_up(found.state)
                return Outcome(plan, found.state, state.runs[-1], behind=self._behind(read))
            work.discard()
            logger.warning("table %s was written by another run meanwhile; making it again", declaration.name)
            plan = self._plan(declaration, self._state_now)
        raise TooManyConflictsError(
            "other runs kept writing the table", hint="run again; nothing is lost", table=declaration.name
        )

    def _worked(self, plan: SqlPlan, engine: SqlEngine, read: dict[str, LakeTable]) -> SqlAttempt:
        """The work, done; ``read`` gets the tables that the statement reads."""
        work = self._continued(plan, engine, read)
        if work is None:
            read.clear()
            work = self._attempt(plan, engine, read)
        with closing(work.query):
            return self._done_by(work, read)

    def _continued(self, plan: SqlPlan, engine: SqlEngine, read: dict[str, LakeTable]) -> SqlAttempt | None:
        """The work where it takes in only what is new; None where all rows have to be made."""
        state = self._state_now(plan.tables[0]) if plan.continues else None
        if state is None or plan.state is None:
            return None
        rows = new_rows(plan.state.made_from[0], state)
        if rows is None:
            return None
        read[state.table] = LakeTable(self.runner.storage, state)
        part = LakeTable(self.runner.storage, replace(state, files=rows.files))
        work = self._attempt(plan, engine, read, Shown(part, rows.start))
        if work.query.row_by_row == state.table and list(read) == [state.table] and not work.is_other:
            return work
        work.query.close()
        return None

    def _attempt(
        self, plan: SqlPlan, engine: SqlEngine, read: dict[str, LakeTable], part: Shown | None = None
    ) -> SqlAttempt:
        """The work, to be done; its query is to be closed. Of one table the statement sees ``part``."""
        runner, declaration = self.runner, plan.declaration
        names = [name for name in self._names() if name != declaration.name]

        def find(relation: str) -> Shown:
            table = self._find(read, relation)
            return part if part is not None and part.table.name == table.name else Shown(table)

        try:
            query = engine.query(declaration.sql or "", names, find)
            try:
                return SqlAttempt(
                    runner.storage, runner.engine, plan, runner.ids(), query=query, continues=part is not None
                )
            except BaseException:
                query.close()
                raise
        except SettingError as error:
            raise _with_line(error, declaration) from None

    def _done_by(self, work: SqlAttempt, read: Mapping[str, LakeTable]) -> SqlAttempt:
        try:
            work.do()
        except (Exception, KeyboardInterrupt) as error:
            # An interruption, too: no state names what was made before the commit.
            work.discard()
            if isinstance(error, SettingError) or not isinstance(error, SingerlakeError | KeyboardInterrupt):
                # What an engine tells of a file that cannot be read says little.
                self._read_files(read)
            if isinstance(error, SettingError):
                raise _with_line(error, work.plan.declaration) from None
            raise
        return work

    def _read_files(self, read: Mapping[str, LakeTable]) -> None:
        """Raise ``MissingFileError`` or ``BrokenFileError`` where a file of these tables is not as it was written."""
        for table in read.values():
            look = partial(read_rows, self.runner.storage, table_prefix(table.name), columns=())
            deque(in_parallel(look, table.state.files, threads=THREADS), maxlen=0)

    def _names(self) -> list[str]:
        """All that a statement may name."""
        return sorted({*table_names(self.runner.storage), *self.declared})

    def _find(self, read: dict[str, LakeTable], relation: str) -> LakeTable:
        """The snapshot of the table that a statement names, made first where this run makes it. It is kept in
        ``read``, so that a statement never sees two of one table."""
        names = self._names()
        name = _meant(relation, names)
        if name is None:
            raise SettingError(
                f"the statement reads {relation}, which is not a table of this lake",
                hint=hint_for(name_in(relation) or relation, names),
            )
        if name not in read:
            if name in self.declared:
                self._make(name)
            read[name] = LakeTable.load(self.runner.storage, name)
        return read[name]

    def _behind(self, read: Mapping[str, LakeTable]) -> dict[str, int]:
        """How many messages of its stream a table that was read does not hold."""
        found = {}
        for name, table in read.items():
            for source in table.state.sources:
                try:
                    manifest = self.runner.manifest(source.tap, source.stream)
                except SingerlakeError:
                    # The table is published: that its source cannot be looked at is told by what looks after streams.
                    continue
                if (behind := source.behind(source_of(manifest))) > 0:
                    found[name] = behind
        return found


def _meant(relation: str, names: Sequence[str]) -> str | None:
    """Spark tells no upper case from lower case in names; the lake does."""
    name = name_in(relation)
    if name is None or name in names:
        return name
    same = [each for each in names if each.lower() == name.lower()]
    if len(same) > 1:
        both = " and ".join(map(repr, same))
        raise SettingError(f"the statement reads {relation}, which may mean {both}", hint="write it in the same case")
    return same[0] if same else None


def _made_from(table: LakeTable, row_by_row: str | None) -> MadeFrom:
    state = table.state
    return MadeFrom(
        table=state.table,
        generation=state.generation,
        number=state.number,
        rows=state.rows_id,
        up_to=up_to(state) if state.table == row_by_row else None,
    )


def _with_line(error: SettingError, declaration: TableDeclaration) -> SettingError:
    """The same error with the line of the statement, where it says none."""
    if isinstance(error, _CircleError) or "line" in error.context:
        return error
    context = {**error.context, **declaration.at("sql")}
    return SettingError(error.message, hint=error.hint, **context)
