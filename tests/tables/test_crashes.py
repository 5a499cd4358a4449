"""Runs that die, get no answer or race others, at each of their requests."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

from singerlake.errors import (
    AccessDeniedError,
    SingerlakeError,
    StorageFullError,
    StorageUnavailableError,
    UnknownOutcomeError,
)
from singerlake.storage.port import Refused, Storage, Written
from singerlake.tables.maintain.collect import collect_table
from singerlake.tables.read import LakeTable
from singerlake.tables.run.one_table import Outcome
from singerlake.tables.state.arbitrated import arbitrated as by_marks
from singerlake.tables.state.commit import load
from singerlake.tables.state.keys import state_key, table_prefix
from tests.fakes import FakeClock, counting_ids
from tests.storage.memory import MemoryStorage, Step
from tests.tables.cases import Batch
from tests.tables.delta.replay import replayed, rows_in
from tests.tables.iceberg import seen as iceberg
from tests.tables.marks import MemoryMarks
from tests.tables.recompute import Declared, Expected, expected
from tests.tables.tables import (
    TABLE,
    capture,
    check_rows,
    check_state,
    declaration_of,
    memory_lake,
    messages_of,
    plain_rows,
    rows_of,
    run_and_check,
    runner_of,
    small_sizes,
)

SIZES = {"chunk": 2, "rows": 3, "split": 600, "file": 4, "member": 2}
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "integer"}, "v": {}}}
DECLARED = {
    "append": Declared("append"),
    "latest": Declared("latest", order_by=("at",)),
    "history": Declared("history"),
    "sorted": Declared("latest", sort_by=("at",)),
    "delta": Declared("latest", order_by=("at",), format="delta", iceberg=True),
}


class KilledError(BaseException):
    """The process is gone: nothing of it runs any more."""


class World:
    """A lake with three captures, of which a table has the first one or two. All that happens begins from there.
    ``arbitrated``: its storage honours no conditions, and a database says which state is the newest. ``used`` is the
    storage as writers of tables use it."""

    def __init__(self, declared: Declared, *, runs: int = 1, arbitrated: bool = False) -> None:
        self.declared = declared
        self.clock = FakeClock()
        self.storage = MemoryStorage(clock=self.clock, ids=counting_ids(), ignore_conditions=arbitrated)
        self.marks = MemoryMarks(self.storage)
        self.used: Storage = self.storage
        if arbitrated:
            self.used = by_marks(self.storage, self.marks, counting_ids())
        self.lake = memory_lake(self.storage, self.clock)
        self.declaration = declaration_of(declared)
        self.batches = batches()
        capture(self.lake, self.batches[0], SIZES)
        for _ in range(runs):
            self.run()
        self.old = self.wanted(1) if runs else None
        self.clock.seconds += 60
        capture(self.lake, self.batches[1], SIZES)
        self.clock.seconds += 60
        self.new = self.wanted(2)
        self._objects = dict(self.storage._objects)
        self._marked = dict(self.marks.marks)

    def wanted(self, batches: int) -> Expected:
        return expected(messages_of(self.batches[:batches]), self.declared)

    def again(self) -> None:
        """As it was at first."""
        self.storage._objects = dict(self._objects)
        self.marks.marks = dict(self._marked)
        self.storage.hook = lambda step: None

    def run(self, *, full_refresh: bool = False) -> Outcome:
        return runner_of(self.lake, self.used).run(self.declaration, full_refresh=full_refresh)

    def collect(self, days: int = 9) -> None:
        """Remove what the table does not list, long after the grace time."""
        later = self.clock.now() + timedelta(days=days)
        collect_table(self.used, TABLE, now=lambda: later, grace=timedelta(days=1), clock=self.clock, ids=self.lake.ids)

    def check(self, *, wanted: tuple[Expected | None, ...], when: str) -> None:
        """The table is one of these, and all that it lists is there."""
        found = load(self.storage, TABLE)
        if found is None or not found.state.is_published:
            assert None in wanted, f"{when}: there is no table"
            return
        check_state(self.storage, found.state)
        table = LakeTable(self.storage, found.state)
        rows = rows_of(table)
        known = [each for each in wanted if each is not None]
        check_rows(table, next((each for each in known if plain_rows(each) == rows), known[-1]), when)
        self.check_log(wanted=wanted, when=when)

    def check_log(self, *, wanted: tuple[Expected | None, ...], when: str) -> None:
        """In the format delta the log shows one of these, by a reader of the protocol; and so does Iceberg metadata."""
        known = [None if each is None else _by_offset(plain_rows(each)) for each in wanted]
        if self.declared.format == "delta":
            log = replayed(self.storage, TABLE)
            shown = None if log is None else _by_offset(rows_in(self.storage, TABLE, log))
            assert shown in known, f"{when}: the Delta log shows other rows"
        for by_hint in (False, True) if self.declared.iceberg else ():
            rows = iceberg.newest_rows(self.storage, by_hint=by_hint)
            assert (None if rows is None else _by_offset(rows)) in known, f"{when}: Iceberg metadata shows other rows"

    def finish(self, when: str) -> None:
        """The next run brings it to what it should be."""
        run_and_check(runner_of(self.lake, self.used), self.declaration, self.new, f"{when}, and run again")
        self.check_log(wanted=(self.new,), when=f"{when}, and run again")


def _by_offset(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["_singerlake_offset"])


def batches() -> list[Batch]:
    """Captures of which each changes some keys, deletes one and replaces the table's version."""
    made = []
    for number in range(3):
        lines: list[dict[str, Any]] = []
        for each in range(9):
            record = {"id": (each * (number + 2)) % 11, "at": each % 4, "v": f"{number}-{each}"}
            lines.append({"type": "RECORD", "stream": "s", "record": record, "version": number})
        lines.insert(7, {"type": "ACTIVATE_VERSION", "stream": "s", "version": number})
        made.append(Batch(SCHEMA, ("id",), tuple(lines)))
    return made


@contextmanager
def at_step(storage: MemoryStorage, number: int, act: Callable[[Step], None]) -> Iterator[list[Step]]:
    """Do ``act`` at one step of what runs inside; gives the steps so far. A request has two, before and after its
    effect. What ``act`` itself asks of storage does not count."""
    steps: list[Step] = []

    def hook(step: Step) -> None:
        steps.append(step)
        if len(steps) == number + 1:
            storage.hook = lambda step: None
            act(step)
            storage.hook = hook

    storage.hook = hook
    try:
        yield steps
    finally:
        storage.hook = lambda step: None


def _raise(error: BaseException) -> Callable[[Step], None]:
    def act(step: Step) -> None:
        raise error

    return act


READS = ("read_mark", "get", "head", "read_range", "beginning", "open", "list", "list_folder")
Counts = Callable[[Step], bool]
"""Whether what happens at a step can end otherwise than at the step before it."""


def effects(step: Step) -> bool:
    """For a death: it leaves what was written until then."""
    return step.done and step.operation not in READS


def requests(step: Step) -> bool:
    """For what others do meanwhile: before a request they meet what they meet after the one before it."""
    return step.done


def answers(step: Step) -> bool:
    """For an error: a run that gets one from a request that changes nothing cannot tell when it came."""
    return not step.done or step.operation not in READS


def numbers(world: World, counts: Counts, every: int) -> Iterator[int]:
    """The numbers of the steps of a run that count, and of its first one; of these the first of ``every``."""
    world.again()
    with at_step(world.storage, -1, lambda step: None) as steps:
        world.run()
    found = [number for number, step in enumerate(steps) if number == 0 or counts(step)]
    assert len(found) > 10, "the run asked for hardly anything"
    yield from found[::every]


def each_step(world: World, act: Callable[[Step], None], *, counts: Counts, every: int = 1) -> Iterator[str]:
    """Runs with ``act`` at each of their steps that count; a run may end in an error of the lake's."""
    for number in numbers(world, counts, every):
        world.again()
        with at_step(world.storage, number, act) as steps, suppress(KilledError, SingerlakeError):
            world.run()
        step = steps[number]
        yield f"step {number}, {step.operation} {step.key} {'after' if step.done else 'before'} its effect"


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with small_sizes(SIZES):
        yield


EVERY = [
    pytest.param(5, id="some"),
    pytest.param(2, id="half", marks=pytest.mark.thorough),
    pytest.param(1, id="all", marks=pytest.mark.soak),
]
ERRORS = {
    "killed": KilledError(),
    "away": StorageUnavailableError("away"),
    "unknown": UnknownOutcomeError("unknown"),
    "full": StorageFullError("full"),
    "denied": AccessDeniedError("denied"),
}


def leaves(error: str) -> Counts:
    return effects if error == "killed" else answers


def failing() -> Iterator[Any]:
    """Cases of kind, error and steps. Each kind ends at every step by a death, by a write whose outcome is unknown, and
    by one error that changed nothing; no run tells such errors apart, so that the others come at some steps."""
    plain = [error for error in ERRORS if error not in ("killed", "unknown")]
    for row, kind in enumerate(DECLARED):
        for column, error in enumerate(ERRORS):
            is_whole = error not in plain or error == plain[row % len(plain)]
            if row == column or not is_whole:
                some = () if row == column else (pytest.mark.thorough,)
                yield pytest.param(kind, error, 5, id=f"{kind}-{error}-some", marks=some)
            if is_whole:
                # That of sorted tables takes as long as those of all others, and those of delta and history as others.
                is_long = kind == "sorted" or (kind in ("delta", "history") and error != "killed")
                long = pytest.mark.soak if is_long else pytest.mark.thorough
                yield pytest.param(kind, error, 1, id=f"{kind}-{error}-all", marks=long)


@pytest.mark.parametrize(("kind", "error", "every"), list(failing()))
def test_a_run_that_fails_leaves_the_old_table_or_the_new_one(kind: str, error: str, every: int) -> None:
    world = World(DECLARED[kind])
    for when in each_step(world, _raise(ERRORS[error]), counts=leaves(error), every=every):
        world.check(wanted=(world.old, world.new), when=when)
        world.finish(when)


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("error", ["killed", "unknown"])
def test_a_first_run_that_fails_leaves_no_table_or_a_whole_one(error: str, every: int) -> None:
    world = World(DECLARED["latest"], runs=0)
    for when in each_step(world, _raise(ERRORS[error]), counts=leaves(error), every=every):
        world.check(wanted=(None, world.new), when=when)
        world.finish(when)


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("kind", DECLARED)
def test_two_runs_at_once_make_one_table(kind: str, every: int) -> None:
    world = World(DECLARED[kind])
    for when in each_step(world, lambda step: world.run(), counts=requests, every=every):
        world.check(wanted=(world.new,), when=when)
        run = runner_of(world.lake).run(world.declaration).run
        assert run is None, f"{when}: there is something to do"


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("kind", DECLARED)
def test_a_stale_run_takes_nothing_back(kind: str, every: int) -> None:
    world = World(DECLARED[kind])
    newest = world.wanted(3)

    def overtake(step: Step) -> None:
        capture(world.lake, world.batches[2], SIZES)
        world.run()

    for when in each_step(world, overtake, counts=requests, every=every):
        world.check(wanted=(newest,), when=when)


@pytest.mark.parametrize("every", EVERY)
def test_a_full_refresh_that_another_write_overtakes_is_made_all_the_same(every: int) -> None:
    world = World(DECLARED["latest"])
    number = 0
    while True:
        world.again()
        with at_step(world.storage, number, lambda step: world.run()) as steps:
            before = runner_of(world.lake)
            outcome = before.run(world.declaration, full_refresh=True)
        assert outcome.run is not None
        assert outcome.run.kind == "rebuild", steps[number]
        world.check(wanted=(world.new,), when=f"step {number}")
        if len(steps) <= number:
            return
        number += every


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("kind", DECLARED)
def test_a_reader_sees_one_table_at_any_time(kind: str, every: int) -> None:
    world = World(DECLARED[kind])
    held: list[LakeTable] = []

    def read(step: Step) -> None:
        world.check(wanted=(world.old, world.new), when=f"while {step}")
        held.append(LakeTable.load(world.storage, TABLE))

    for when in each_step(world, read, counts=requests, every=every):
        assert world.old is not None
        assert rows_of(held[-1]) in (plain_rows(world.old), plain_rows(world.new)), f"{when}: a snapshot is gone"


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("kind", ["latest", "history", "delta"])
def test_a_collector_takes_nothing_from_a_run(kind: str, every: int) -> None:
    world = World(DECLARED[kind])

    def collect(step: Step) -> None:
        world.collect()

    for when in each_step(world, collect, counts=requests, every=every):
        world.check(wanted=(world.new,), when=when)


@pytest.mark.parametrize("every", EVERY)
def test_a_collector_removes_all_that_a_killed_run_left(every: int) -> None:
    world = World(DECLARED["latest"])
    for when in each_step(world, _raise(KilledError()), counts=effects, every=every):
        # A replaced file's grace time begins when a collector first sees it: the next one deletes it.
        world.collect()
        world.collect(days=18)
        found = load(world.storage, TABLE)
        assert found is not None
        prefix = table_prefix(TABLE)
        there = {entry.key for entry in world.storage.list(prefix)}
        assert there == {state_key(TABLE), *(prefix + path for path in found.state.paths())}, when
        world.finish(when)


class _Twice(MemoryStorage):
    """Storage behind a balancer that sends each PUT again."""

    def put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        super().put(key, body, if_absent=if_absent, if_match=if_match)
        return super().put(key, body, if_absent=if_absent, if_match=if_match)


@pytest.mark.parametrize("kind", DECLARED)
def test_a_refusal_of_a_write_that_took_effect_is_a_success(kind: str) -> None:
    world = World(DECLARED[kind])
    twice = _Twice(clock=world.clock, ids=counting_ids())
    twice._objects = world.storage._objects
    outcome = runner_of(world.lake, twice).run(world.declaration)
    assert outcome.run is not None
    world.check(wanted=(world.new,), when="sent twice")


def test_storage_that_ignores_conditions_is_refused_before_anything_is_written() -> None:
    world = World(DECLARED["latest"])
    blind = MemoryStorage(clock=world.clock, ids=counting_ids(), ignore_conditions=True)
    blind._objects = dict(world.storage._objects)
    with pytest.raises(SingerlakeError, match="conditional"):
        runner_of(world.lake, blind).run(world.declaration)
    assert blind._objects == world.storage._objects


def test_random_steps_of_many_runs_and_readers() -> None:
    """Deaths, races and collectors one after another on one table."""
    chance = random.Random(7)
    world = World(DECLARED["history"])
    acts: list[Callable[[Step], None]] = [
        _raise(KilledError()),
        _raise(UnknownOutcomeError("unknown")),
        lambda step: world.run(),
    ]
    for turn in range(60):
        step = at_step(world.storage, chance.randrange(60), chance.choice(acts))
        with step, suppress(KilledError, SingerlakeError):
            runner_of(world.lake).run(world.declaration, full_refresh=turn % 3 == 0)
        world.check(wanted=(world.old, world.new), when=f"turn {turn}")
    world.finish("at the end")
