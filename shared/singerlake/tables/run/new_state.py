"""The state that a run comes to. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from singerlake.clock import timestamp
from singerlake.tables.declaration.model import Deletions, TableDeclaration
from singerlake.tables.rows.types import words_of
from singerlake.tables.run.attempt import TableAttempt
from singerlake.tables.run.plan import WITHOUT_ROWS
from singerlake.tables.state.model import (
    CASTS,
    KEPT_RUNS,
    REBUILD,
    Activation,
    ColumnEntry,
    EarlierRules,
    RetiredFile,
    TableFile,
    TableRun,
    TableState,
)


def new_state(work: TableAttempt, *, lake_id: str, now: str) -> TableState:
    """What is to be published of ``work`` that is done; ``now`` is RFC 3339."""
    plan = work.plan
    old = plan.base.state if plan.base is not None else None
    listed = {path for file in work.files for path in file.paths}
    retired = (*old.retired, *retired_files(old.files, listed, now)) if old is not None else ()
    run = TableRun(
        id=work.id,
        at=now,
        kind=REBUILD if plan.why else "run",
        start=plan.start,
        stop=plan.stop,
        records=work.seen.records,
        inserted=work.inserted,
        updated=work.updated,
        deleted=work.deleted,
        rescued=work.seen.rescued,
        checks={**work.seen.dropped, **work.seen.warned},
    )
    return TableState(
        lake_id=lake_id,
        table=plan.declaration.name,
        id=work.id,
        number=1 if old is None else old.number + 1,
        generation=plan.generation,
        committed=now,
        declaration=plan.declaration.to_json(),
        earlier=_earlier(work),
        sources=(plan.source,),
        activated=work.activations[-1] if work.activations else None,
        activated_before=_before_last(work),
        version=_greatest(work),
        moment=None if work.seen.moment is None else timestamp(work.seen.moment),
        columns=tuple(ColumnEntry(name=each.name, type=words_of(each.type)) for each in plan.columns.table.fields),
        key=plan.names(plan.key),
        order=plan.order,
        files=work.files,
        retired=retired,
        runs=((*old.runs, run) if old is not None else (run,))[-KEPT_RUNS:],
        casts=CASTS,
    )


def _before_last(work: TableAttempt) -> Activation | None:
    """Rows that stay though they are gone are told from others by it: they may be of the version that came again."""
    if work.plan.declaration.deletions is Deletions.HARD:
        return None
    *before, last = work.activations or (None,)
    return next((each for each in reversed(before) if each and last and each.version != last.version), None)


def together(first: TableState, second: TableState) -> TableState:
    """``second``, whose last write went on from that of ``first``, with both of them as one."""
    one, two = first.runs[-1], second.runs[-1]
    sums = {
        name: getattr(one, name) + getattr(two, name)
        for name in ("records", "inserted", "updated", "deleted", "rescued")
    }
    checks = {name: one.checks.get(name, 0) + two.checks.get(name, 0) for name in (*one.checks, *two.checks)}
    run = replace(two, kind=one.kind, start=one.start, checks=checks, **sums)
    return replace(second, runs=(*second.runs[:-1], run))


def following(state: TableState, now: TableState, made: Collection[str]) -> TableState:
    """``state``, whose last write is one's own and not done yet, as it comes right after ``now``. ``made`` are the
    paths of one's own files."""
    listed = state.paths()
    own = tuple(file for file in state.retired if file.path in made)
    return replace(
        state,
        number=now.number + 1,
        generation=max(state.generation, now.generation + (state.runs[-1].kind == REBUILD)),
        retired=(*now.retired, *own, *retired_files(now.files, listed, state.committed)),
        runs=(*now.runs, state.runs[-1])[-KEPT_RUNS:],
    )


def retired_files(files: Iterable[TableFile], listed: Collection[str], now: str) -> list[RetiredFile]:
    """The objects of ``files`` that are not ``listed`` any more."""
    return [
        RetiredFile(path=path, bytes=size, at=now)
        for file in files
        for path, size in file.sizes.items()
        if path not in listed
    ]


def _earlier(work: TableAttempt) -> tuple[EarlierRules, ...]:
    """By what the records of the table were checked that the work left as they are."""
    old, now = work.plan.state, work.plan.declaration.to_json()
    if old is None:
        return ()
    start = work.plan.start
    known = old.earlier[-1].offset if old.earlier else 0
    rules = {name: old.declaration[name] for name in WITHOUT_ROWS}
    if known == start or all(rules[name] == now[name] for name in WITHOUT_ROWS):
        return old.earlier
    return (*old.earlier, EarlierRules(offset=start, **rules))


def _greatest(work: TableAttempt) -> int | None:
    known = work.plan.state.version if work.plan.state is not None else None
    versions = [known, work.seen.greatest, *(each.version for each in work.activations)]
    return max((each for each in versions if each is not None), default=None)


def first_state(declaration: TableDeclaration, *, id: str, lake_id: str, now: str) -> TableState:
    """A state without rows: a collector can tell files of a run at work from garbage by it."""
    return TableState(
        lake_id=lake_id,
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
