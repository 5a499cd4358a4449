"""Running a table's plan: tasks on an engine, then the one write that publishes what they made."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from singerlake.arrow.plan.splits import pack, runs
from singerlake.clock import Clock, IdSource, timestamp
from singerlake.errors import CheckFailedError, LineageChangedError, SingerlakeError, TooManyConflictsError
from singerlake.format.state import selection
from singerlake.format.state.model import Manifest
from singerlake.maintenance.engines.engine import Engine
from singerlake.projections.declaration.model import Keep, TableDeclaration
from singerlake.projections.declaration.stored import declaration_of
from singerlake.projections.rows.convert import RowMaker, Seen
from singerlake.projections.rows.types import from_json, words_of
from singerlake.projections.rows.versions import goes_back
from singerlake.projections.run.plan import TablePlan, make_plan
from singerlake.projections.run.regions import regions
from singerlake.projections.state.commit import commit, load, require_conditions
from singerlake.projections.state.model import (
    KEPT_RUNS,
    Activation,
    ColumnEntry,
    RetiredFile,
    TableFile,
    TableRun,
    TableState,
)
from singerlake.projections.tasks.arrange import Arrange, Region
from singerlake.projections.tasks.extract import Extract, Extracted
from singerlake.projections.tasks.write_file import Place
from singerlake.storage.port import Storage

logger = logging.getLogger(__name__)

ATTEMPTS = 5
SPLIT_BYTES = 64 << 20
"""Raw bytes that one task reads: its rows are held in memory while they are sorted."""
REGION_MEMORY = 96 << 20
"""Bytes that the rows of one file may take in memory."""
MOST_ROWS, LEAST_ROWS, WANTED_FILES = 1_000_000, 1 << 16, 32
"""A table with keys is cut into about that many files: fewer rows are rewritten for a few changed keys. Files of rows
that stay are as large as suits readers."""


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
        ``ConditionNotSupportedError``, and what planning, reading and storage raise: the table is then as it was."""
        checked = False
        for _ in range(ATTEMPTS + 1):
            plan = self.plan(declaration, full_refresh=full_refresh)
            if plan.is_nothing:
                return Outcome(plan, plan.state, None)
            if not checked:
                require_conditions(self.storage)
                checked = True
            if plan.base is None:
                self._announce(declaration)
                continue
            made = _Work(self, plan)
            try:
                state, seen = made.state()
            except SingerlakeError:
                made.discard()
                raise
            found = commit(self.storage, plan.base, state)
            made.discard_scratch()
            if found is not None:
                return Outcome(plan, found.state, state.runs[-1], seen.examples)
            made.discard()
            logger.warning("table %s was written by another run meanwhile; going on from there", declaration.name)
            full_refresh = False
        raise TooManyConflictsError(
            "other runs kept writing the table", hint="run again; nothing is lost", table=declaration.name
        )

    @contextmanager
    def made_anew(self, state: TableState) -> Iterator[TableState]:
        """The state that a table would have if it were made anew, up to the same offset, with its files in place as
        long as the block runs. Nothing is published. Raises as ``run``."""
        base = load(self.storage, state.table)
        source = state.sources[0]
        manifest = self.manifest(source.tap, source.stream)
        declaration = declaration_of(state)
        plan = make_plan(declaration, manifest, base, full_refresh=True)
        if source.lineage != manifest.lineage:
            raise LineageChangedError(
                "the stream was rebuilt since the table was made", hint="run the table first", table=state.table
            )
        work = _Work(self, replace(plan, stop=source.offset))
        try:
            yield work.state()[0]
        finally:
            work.discard()

    def _announce(self, declaration: TableDeclaration) -> None:
        """Write a first state, without rows: a collector can then tell files of a run at work from garbage."""
        id = self.ids()
        now = timestamp(self.clock.now())
        state = TableState(
            lake_id=self.lake_id(),
            table=declaration.name,
            id=id,
            number=1,
            generation=0,
            committed=now,
            declaration=declaration.to_json(),
            sources=(),
            columns=(),
            order=(),
            runs=(TableRun(id=id, at=now, kind="begin"),),
        )
        commit(self.storage, None, state)


class _Work:
    """One attempt: the tasks' answers, and the files that they made."""

    def __init__(self, runner: TableRunner, plan: TablePlan) -> None:
        self._runner = runner
        self._plan = plan
        self._id = runner.ids()
        self._files: list[TableFile] = []
        self._scratch: list[str] = []
        self._seen = Seen()

    def state(self) -> tuple[TableState, Seen]:
        """Do the work; the state that it comes to."""
        plan = self._plan
        extracted = self._extract(straight=self._is_straight())
        if self._files:
            files = (*plan.files, *self._files)
            run = self._run(inserted=sum(file.rows for file in self._files))
            return self._state(files, run, self._activations()), self._seen
        activations = self._activations()
        back = goes_back(activations[self._known_activations() :], self._versions())
        if back is not None and plan.start:
            logger.warning(
                "table %s: ACTIVATE_VERSION at offset %d names a version older than others; making it anew",
                plan.declaration.name,
                back.offset,
            )
            self.discard()
            anew = make_plan(plan.declaration, plan.manifest, plan.base, full_refresh=True)
            self._plan, self._seen = anew, Seen()
            return self.state()
        return self._arranged(extracted, activations), self._seen

    def _is_straight(self) -> bool:
        """Whether rows can go into files of the table as they come."""
        plan = self._plan
        declared = plan.declaration
        if declared.keep is not Keep.APPEND or declared.sort_by or declared.partition_by:
            return False
        if plan.messages.value != "records":
            return False
        few = plan.new_bytes < SPLIT_BYTES and plan.files and plan.files[-1].rows < LEAST_ROWS
        return not few

    def _extract(self, *, straight: bool) -> list[Extracted]:
        plan = self._plan
        if plan.start == plan.stop:
            return []
        declared = plan.declaration
        files = [file for file in plan.manifest.files_from(plan.start) if file.offset < plan.stop]
        selection.check_offsets(plan.manifest, files, plan.start, plan.stop)
        splits = pack(runs(files, plan.start, plan.stop, SPLIT_BYTES), SPLIT_BYTES)
        task = Extract(
            maker=RowMaker(declared, plan.columns, plan.key, moments=declared.keep is Keep.HISTORY),
            messages=plan.messages,
            place=self._place(MOST_ROWS),
            run=self._id,
            key=plan.names(plan.key),
            order_by=plan.names(declared.order_by),
            straight=straight,
            reduce=declared.keep is Keep.LATEST and not (declared.order_by and plan.messages.value != "records"),
            bounds=self._bounds(),
        )
        answers: list[Extracted] = []
        for _, answer in self._runner.engine(plan.new_bytes)(task, splits):
            answers.append(answer)
            self._seen.add(answer.seen)
            self._files += answer.files
            self._scratch += [run.key for run in answer.runs]
        if self._seen.failed:
            raise _failed(declared, self._seen)
        return answers

    def _arranged(self, extracted: Sequence[Extracted], activations: Sequence[Activation]) -> TableState:
        plan = self._plan
        declared = plan.declaration
        runs = [run for answer in extracted for run in answer.runs]
        touched = {index for answer in extracted for index in answer.touched}
        new = activations[self._known_activations() :]
        if new:
            touched |= {i for i, file in enumerate(plan.files) if _loses(file, new[-1])}
        rows = self._file_rows(runs)
        cut = regions(plan.files, self._bounds(), touched, runs, rows)
        task = Arrange(
            keep=declared.keep,
            columns=plan.columns,
            place=self._place(rows),
            key=plan.names(plan.key),
            order_by=plan.names(declared.order_by),
            activations=tuple(activations),
            start=plan.start,
        )
        rewritten = {file.id for region in cut for file in region.files}
        made: list[tuple[Region, tuple[TableFile, ...]]] = []
        counts = [0, 0, 0]
        memory = sum(task.size(region) for region in cut)
        for region, answer in self._runner.engine(memory)(task, cut) if cut else ():
            made.append((region, answer.files))
            self._files += answer.files
            counts = [a + b for a, b in zip(counts, (answer.inserted, answer.updated, answer.deleted), strict=True)]
        kept = [file for file in plan.files if file.id not in rewritten]
        files = _in_order([*kept, *(file for _, files in made for file in files)], self._place(rows), plan)
        run = self._run(inserted=counts[0], updated=counts[1], deleted=counts[2])
        return self._state(files, run, activations)

    def _place(self, file_rows: int) -> Place:
        plan = self._plan
        return Place(plan.declaration.name, plan.generation, plan.declaration.format, plan.order, file_rows)

    def _bounds(self) -> tuple[tuple[Any, ...], ...]:
        return tuple(_decoded(file.last, self._plan) for file in self._plan.files)

    def _file_rows(self, runs: Sequence[Any]) -> int:
        plan = self._plan
        rows = sum(run.rows for run in runs)
        total = rows + sum(file.rows for file in plan.files)
        most = MOST_ROWS
        if plan.declaration.keep is not Keep.APPEND:
            most = min(MOST_ROWS, max(LEAST_ROWS, total // WANTED_FILES))
        memory = sum(run.memory for run in runs) // rows if rows else 0
        return max(1000, min(most, REGION_MEMORY // memory)) if memory else most

    def _known_activations(self) -> int:
        return 1 if self._plan.state is not None and self._plan.state.activated is not None else 0

    def _activations(self) -> list[Activation]:
        known = self._plan.state.activated if self._plan.state is not None else None
        return [*([known] if known else []), *self._seen.activations]

    def _versions(self) -> list[tuple[int, int]]:
        earlier = [(file.versions[1], file.offsets[0]) for file in self._plan.files if file.versions]
        return earlier + list(self._seen.versions.items())

    def _run(self, *, inserted: int, updated: int = 0, deleted: int = 0) -> TableRun:
        plan = self._plan
        return TableRun(
            id=self._id,
            at=timestamp(self._runner.clock.now()),
            kind="rebuild" if plan.why else "run",
            start=plan.start,
            stop=plan.stop,
            records=self._seen.records,
            inserted=inserted,
            updated=updated,
            deleted=deleted,
            rescued=self._seen.rescued,
            checks={**self._seen.dropped, **self._seen.warned},
        )

    def _state(self, files: Sequence[TableFile], run: TableRun, activations: Sequence[Activation]) -> TableState:
        plan = self._plan
        old = plan.base.state if plan.base is not None else None
        listed = {path for file in files for path in _paths(file)}
        now = timestamp(self._runner.clock.now())
        retired = list(old.retired) if old is not None else []
        for file in old.files if old is not None else ():
            sizes = {side.path: side.bytes for side in file.sides}
            for path in _paths(file):
                if path not in listed:
                    retired.append(RetiredFile(path=path, bytes=sizes.get(path, file.bytes), at=now))
        return TableState(
            lake_id=self._runner.lake_id(),
            table=plan.declaration.name,
            id=self._id,
            number=1 if old is None else old.number + 1,
            generation=plan.generation,
            committed=now,
            declaration=plan.declaration.to_json(),
            sources=(plan.source,),
            activated=activations[-1] if activations else None,
            columns=tuple(ColumnEntry(name=each.name, type=words_of(each.type)) for each in plan.columns.table.fields),
            order=plan.order,
            files=tuple(files),
            retired=tuple(retired),
            runs=((*old.runs, run) if old is not None else (run,))[-KEPT_RUNS:],
        )

    def discard_scratch(self) -> None:
        """Remove what tasks handed to each other. What cannot be removed now is left to the collector."""
        with suppress(SingerlakeError):
            self._runner.storage.delete_all(self._scratch)
        self._scratch = []

    def discard(self) -> None:
        """Remove all that was made: nothing names it, and nothing will."""
        self.discard_scratch()
        prefix = self._place(1).prefix
        with suppress(SingerlakeError):
            self._runner.storage.delete_all([prefix + path for file in self._files for path in _paths(file)])
        self._files = []


def _paths(file: TableFile) -> list[str]:
    own = [file.path] if file.path is not None else []
    return own + [side.path for side in file.sides]


def _decoded(values: Sequence[Any], plan: TablePlan) -> tuple[Any, ...]:
    schema = plan.columns.schema
    return tuple(from_json(value, schema.field(name).type) for name, value in zip(plan.order, values, strict=True))


def _in_order(files: Sequence[TableFile], place: Place, plan: TablePlan) -> list[TableFile]:
    from singerlake.projections.rows.types import place as place_of

    del place
    return sorted(files, key=lambda file: place_of(_decoded(file.last, plan)))


def _loses(file: TableFile, last: Activation) -> bool:
    """Whether an activation may send rows of a file away, or end their intervals."""
    return file.offsets[0] < last.offset and (
        file.versions is None or file.versions[0] != last.version or file.versions[1] != last.version
    )


def _failed(declaration: TableDeclaration, seen: Seen) -> CheckFailedError:
    told = "; ".join(
        f"{name}: {count} rows, as at offset {', '.join(map(str, seen.examples.get(name, ())))}"
        for name, count in sorted(seen.failed.items())
    )
    return CheckFailedError(
        f"nothing was published, since checks failed: {told}",
        hint="correct the source, or set the check to drop or warn",
        table=declaration.name,
    )
