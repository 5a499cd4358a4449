"""One attempt at a table of a statement: its rows become files, all of the table or more of it, and these a state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from singerlake.storage.port import Storage
from singerlake.tables.declaration.stored import changes
from singerlake.tables.rows.columns import TableColumns
from singerlake.tables.rows.convert import Seen
from singerlake.tables.rows.types import words_of
from singerlake.tables.run.discard import Unpublished
from singerlake.tables.run.plan import partitions_of
from singerlake.tables.run.publish import retired_files
from singerlake.tables.run.regions import ranges_of
from singerlake.tables.run.unique import UniqueColumns, check_unique
from singerlake.tables.run.write import MOST_ROWS, REGION_MEMORY, failed_checks
from singerlake.tables.sql.columns import ROW, statement_columns
from singerlake.tables.sql.plan import SqlPlan
from singerlake.tables.sql.port import Query
from singerlake.tables.sql.rows import WriteRange, WriteRows, Written
from singerlake.tables.state.model import (
    KEPT_RUNS,
    REBUILD,
    RUN,
    ColumnEntry,
    MadeFrom,
    TableFile,
    TableRun,
    TableState,
)
from singerlake.tables.tasks.sorted_run import SortedRun
from singerlake.tables.tasks.write_file import Place
from singerlake.work.engine import Answer, Engine, Item, Task


@dataclass
class SqlAttempt(Unpublished):
    """``made`` are the files of the rows that the query gives. ``continues``: they come behind those that the table
    has."""

    storage: Storage
    engine: Callable[[int], Engine]
    plan: SqlPlan
    query: Query
    id: str
    continues: bool = False
    columns: TableColumns = field(init=False)
    seen: Seen = field(default_factory=Seen)
    made: list[TableFile] = field(default_factory=list)
    scratch: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.columns = statement_columns(self.plan.declaration, self.query.columns)

    @property
    def table(self) -> str:
        return self.plan.declaration.name

    def do(self) -> None:
        """Do it. Raises ``CheckFailedError``, and what the query, reading and storage raise; ``discard`` then."""
        declared = self.plan.declaration
        order = (*self._place.order, ROW) if self._place.order else ()
        task = WriteRows(self._place, self.id, self.columns.table, declared.checks, order)
        answers: list[Written] = self.query.write(task)
        runs: list[SortedRun] = []
        for answer in answers:
            self.seen.add(answer.seen)
            self.made += answer.files
            runs += answer.runs
        self.scratch += [run.key for run in runs]
        self._refuse_failed()
        if runs:
            for _, files in self._done(WriteRange(self._place, order), ranges_of(runs, _rows_of_a_range(runs))):
                self.made += files
        checks = tuple((check, check.column) for check in declared.checks if check.condition is None)
        unique = UniqueColumns(declared.name, checks, beside=())
        self.scratch += check_unique(unique, (*self._kept, *self.made), self.id, self._done, self.seen)
        self._refuse_failed()

    def state(self, made_from: Sequence[MadeFrom], *, lake_id: str, now: str) -> TableState:
        """What is to be published."""
        plan, old = self.plan, self.plan.base.state if self.plan.base is not None else None
        files = (*self._kept, *self.made)
        listed = {path for file in files for path in file.paths}
        rows = sum(file.rows for file in self.made)
        start, stop = self._ends(made_from) if self.continues else (0, 0)
        run = TableRun(
            id=self.id,
            at=now,
            kind=REBUILD if self.is_other else RUN,
            start=start,
            stop=stop,
            records=rows + sum(self.seen.dropped.values()),
            inserted=rows,
            deleted=plan.state.rows if plan.state is not None and not self.continues else 0,
            checks={**self.seen.dropped, **self.seen.warned},
        )
        return TableState(
            lake_id=lake_id,
            table=plan.declaration.name,
            id=self.id,
            number=1 if old is None else old.number + 1,
            generation=self._generation,
            committed=now,
            declaration=plan.declaration.to_json(),
            sources=(),
            made_from=tuple(made_from),
            columns=self._entries,
            order=self._place.order,
            files=files,
            retired=() if old is None else (*old.retired, *retired_files(old.files, listed, now)),
            runs=((*old.runs, run) if old is not None else (run,))[-KEPT_RUNS:],
        )

    @property
    def _kept(self) -> tuple[TableFile, ...]:
        """The files that stay."""
        return self.plan.state.files if self.continues and self.plan.state is not None else ()

    def _ends(self, made_from: Sequence[MadeFrom]) -> tuple[int, int]:
        """Where the table that was read ended, the last time and now."""
        before = self.plan.state.made_from if self.plan.state is not None else ()
        first, last = (each[0].up_to for each in (before, made_from))
        assert first is not None
        assert last is not None
        return first.end, last.end

    def _refuse_failed(self) -> None:
        if self.seen.failed:
            raise failed_checks(self.plan.declaration, self.seen)

    @property
    def _entries(self) -> tuple[ColumnEntry, ...]:
        return tuple(ColumnEntry(name=each.name, type=words_of(each.type)) for each in self.columns.table.fields)

    @property
    def is_other(self) -> bool:
        """Whether the table is another one than before, and not only its rows."""
        state = self.plan.state
        if state is None:
            return False
        return bool(changes(state, self.plan.declaration)) or state.columns != self._entries

    @property
    def _generation(self) -> int:
        old = self.plan.state
        return 1 if old is None else old.generation + self.is_other

    @property
    def _place(self) -> Place:
        declared = self.plan.declaration
        partitions = partitions_of(declared, self.columns)
        return Place(
            declared.name,
            self._generation,
            declared.format,
            (*(each.working for each in partitions), *declared.sort_by),
            MOST_ROWS,
            partitions,
            declared.csv_formulas,
            of_records=False,
        )

    def _done(self, task: Task[Item, Answer], items: Sequence[Item]) -> Iterable[tuple[Item, Answer]]:
        return self.engine(sum(map(task.size, items)))(task, items) if items else ()


def _rows_of_a_range(runs: Sequence[SortedRun]) -> int:
    """As many as the memory of one task holds."""
    rows, memory = sum(run.rows for run in runs), sum(run.memory for run in runs)
    return max(1, min(MOST_ROWS, REGION_MEMORY * rows // max(1, memory)))
