"""Publishing what a run has written: the state that it comes to, and the one write of it, also behind other writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from dataclasses import replace as changed

from msgspec import UNSET
from msgspec.structs import replace

from singerlake.clock import Clock, parse_timestamp, timestamp
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import Deletions, TableDeclaration
from singerlake.tables.run.discard import discarded
from singerlake.tables.run.plan import WITHOUT_ROWS, TablePlan, make_plan
from singerlake.tables.run.write import TableAttempt
from singerlake.tables.state.commit import StoredState, commit, load_to_replace
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import (
    CASTS,
    COLLECT,
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
from singerlake.tables.state.types import words_of

REBASES = 20
"""Times that one run's files are published behind other writes before the work is done again."""


@dataclass(frozen=True)
class Publication:
    """What ``works`` have made of one table, to be published as one write; ``more`` gives the work of another plan.
    ``manifest`` gives a stream's state as it is now."""

    storage: Storage
    lake_id: Callable[[], str]
    manifest: Callable[[str, str], Manifest]
    clock: Clock
    more: Callable[[TablePlan], TableAttempt]
    works: list[TableAttempt]

    def publish(self) -> StoredState | None:
        """Commit what was made. None where other writes came first that it cannot follow; it is removed then. Raises
        what planning, reading and storage raise; what a commit may have made a part of the table is not removed."""
        state, base = self.state(), self.works[0].plan.base
        for _ in range(REBASES):
            found = commit(self.storage, base, state)
            if found is not None:
                for each in self.works:
                    each.discard_scratch()
                return found
            with discarded(*self.works):
                assert base is not None
                now = load_to_replace(self.storage, state.table)
                follower = None if now is None else self._following(state, now, base.state)
            if now is None or follower is None:
                break
            state, base = follower, now
        for each in self.works:
            each.discard()
        return None

    def state(self) -> TableState:
        """The state of the last work."""
        return new_state(self.works[-1], lake_id=self.lake_id(), now=timestamp(self.clock.now()))

    def _following(self, state: TableState, now: StoredState, base: TableState) -> TableState | None:
        """``state``, made of ``base``, as it can be published behind ``now``; None where it cannot. A table that was
        made anew follows increments: where these are ahead, it takes in as much, by one more work."""
        if not may_rebase(self.storage, state, self._paths(), base, now):
            return None
        if state.runs[-1].kind == REBUILD and now.state.sources[0].offset > state.sources[0].offset:
            declaration = self.works[0].plan.declaration
            manifest = self.manifest(declaration.tap, declaration.stream)
            plan = make_plan(declaration, manifest, changed(now, state=state))
            if plan.why:
                return None
            more = self.more(plan)
            self.works.append(more)
            more.do()
            if more.plan.why:
                return None
            state = together(state, self.state())
        return following(state, now.state, self._paths())

    def _paths(self) -> set[str]:
        return {path for work in self.works for file in work.made for path in file.paths}


def may_rebase(storage: Storage, made: TableState, paths: Collection[str], base: TableState, now: StoredState) -> bool:
    """Whether ``made`` from ``base``, with new files at ``paths``, can be published behind ``now``: only collectors
    wrote meanwhile, or it needs nothing of what they wrote; and no collector deletes a file of it.

    Raises what storage raises.
    """
    since = now.state.since(base.id)
    if since is None:
        return False
    if any(each.kind != COLLECT for each in since) and not _replaces(made, now.state):
        return False
    collected = [each.before for each in since if each.kind == COLLECT]
    if not collected:
        return True
    prefix = table_prefix(now.state.table)
    keys = {prefix + path for path in paths}
    ages = {entry.key: entry.last_modified for entry in storage.list(prefix) if entry.key in keys}
    ends = [parse_timestamp(before or "") for before in collected]
    oldest = min(ages.values(), default=None)
    return len(ages) == len(keys) and all(end is not None and (oldest is None or oldest > end) for end in ends)


def _replaces(made: TableState, now: TableState) -> bool:
    """Whether the table was made anew from the stream that it is of now, and holds nothing that was erased by then."""
    if made.runs[-1].kind != REBUILD or not now.sources:
        return False
    mine, other = made.sources[0], now.sources[0]
    return mine.lineage == other.lineage and mine.knows_holes_of(other)


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
        # Kept where the declaration names Iceberg no more: an id is never that of another column.
        ids=plan.numbered[1] if plan.declaration.iceberg else UNSET if old is None else old.ids,
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
