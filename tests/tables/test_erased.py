"""Tables of streams from which records are erased: the next run makes them anew, and nothing of the records is left."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from singerlake.errors import CheckFailedError, LakeError
from singerlake.format.state.files.totals import totals_of
from singerlake.tables.maintain.status import standing_of
from singerlake.tables.maintain.verify import verify_rows
from singerlake.tables.run.plan import TablePlan
from singerlake.tables.state.commit import load
from singerlake.tables.state.keys import state_key, table_prefix
from singerlake.tables.state.model import TableState, source_of
from tests.everywhere.erasing import erase, vacuum
from tests.storage.memory import Step
from tests.tables.cases import Batch, case
from tests.tables.recompute import expected
from tests.tables.state.test_races import before_commits
from tests.tables.tables import (
    STREAM,
    TABLE,
    TAP,
    capture,
    declaration_of,
    memory_lake,
    messages_of,
    run_and_check,
    runner_of,
    small_sizes,
)
from tests.tables.test_crashes import DECLARED, EVERY, SIZES, World, at_step, numbers, requests

ERASED = {"type": "ERASED"}
SECRET = 4
"""Of the records with this id nothing is to be left."""


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with small_sizes(SIZES):
        yield


def without(batches: Sequence[Batch], name: str, values: Collection[int]) -> list[Batch]:
    """The captures with nothing in the place of what was erased."""

    def left(message: Mapping[str, Any]) -> Mapping[str, Any]:
        return ERASED if message["type"] == "RECORD" and message["record"].get(name) in values else message

    return [replace(batch, messages=tuple(map(left, batch.messages))) for batch in batches]


def wanted(world: World, batches: int, *ids: int) -> Any:
    return expected(messages_of(without(world.batches[:batches], "id", ids)), world.declared)


def state_of(world: World) -> TableState:
    found = load(world.storage, TABLE)
    assert found is not None
    return found.state


def plan_of(world: World) -> TablePlan:
    return runner_of(world.lake).plan(world.declaration)


@pytest.mark.parametrize("kind", DECLARED)
def test_the_next_run_makes_the_table_anew_and_says_why(kind: str) -> None:
    world = World(DECLARED[kind])
    world.run()
    erase(world.lake, TAP, STREAM, [SECRET])
    assert plan_of(world).why == "records of the stream were erased"
    run_and_check(runner_of(world.lake), world.declaration, wanted(world, 2, SECRET), "after an erasure")
    state = state_of(world)
    assert (state.runs[-1].kind, state.generation) == ("rebuild", 2)
    holes = sum(holes for _, holes in state.sources[0].erased)
    assert holes == totals_of(world.lake.stream(TAP, STREAM).snapshot().files).erased > 0
    assert plan_of(world).is_nothing
    vacuum(world.lake, TAP, STREAM)
    assert plan_of(world).is_nothing, "joined files have the holes of the files before"
    capture(world.lake, world.batches[2], SIZES)
    # The new ones have records with that id again.
    batches = [*without(world.batches[:2], "id", [SECRET]), world.batches[2]]
    now = expected(messages_of(batches), world.declared)
    run_and_check(runner_of(world.lake), world.declaration, now, "with new messages")
    assert state_of(world).runs[-1].kind == "run"
    erase(world.lake, TAP, STREAM, [5])
    now = expected(messages_of(without(batches, "id", [5])), world.declared)
    run_and_check(runner_of(world.lake), world.declaration, now, "after another erasure")
    assert state_of(world).generation == 3


@pytest.mark.parametrize("kind", ["append", "latest", "delta", "iceberg"])
def test_a_collector_leaves_nothing_of_the_records(kind: str) -> None:
    """Their values are in no object of the table: not in rows, nor in what is kept of them in states and logs."""
    alone = {
        "delta": replace(DECLARED["delta"], iceberg=False),
        "iceberg": replace(DECLARED["delta"], format="parquet"),
    }
    world = World(alone[kind] if kind in ("delta", "iceberg") else DECLARED[kind])
    value = "a-secret-of-one-person"
    line = {"type": "RECORD", "stream": STREAM, "record": {"id": SECRET, "at": 3, "v": value}, "version": 1}
    capture(world.lake, replace(world.batches[1], messages=(line,)), SIZES)
    world.run()
    if kind == "delta":
        assert value in "".join(logged(world)), "statistics have the values of small files"
    erase(world.lake, TAP, STREAM, [SECRET])
    world.run()
    earlier = {path for path in everything(world) if path.startswith("g1/")}
    assert earlier
    world.collect(days=0)
    # Snapshots that name files which are due leave the metadata a grace time before the files go.
    for _ in range(2 if kind == "iceberg" else 1):
        world.clock.seconds += 9 * 86400
        world.collect(days=0)
    assert not earlier & everything(world).keys()
    assert value not in "".join(logged(world))
    assert value.encode() not in b"".join(everything(world).values())
    run_and_check(runner_of(world.lake), world.declaration, expected_now(world), "collected")


def expected_now(world: World) -> Any:
    gap = Batch(world.batches[1].schema, ("id",), (ERASED,))
    return expected(messages_of([*without(world.batches[:2], "id", [SECRET]), gap]), world.declared)


def everything(world: World) -> dict[str, bytes]:
    prefix = table_prefix(TABLE)
    objects = {entry.key: world.storage.get(entry.key) for entry in world.storage.list(prefix)}
    return {key.removeprefix(prefix): stored.body for key, stored in objects.items() if stored is not None}


def logged(world: World) -> list[str]:
    return [body.decode() for path, body in everything(world).items() if path.endswith(".json")]


def test_nothing_is_made_anew_where_nothing_was_erased() -> None:
    world = World(DECLARED["latest"])
    world.run()
    before = dict(world.storage._objects)
    assert erase(world.lake, TAP, STREAM, [77]).records == 0
    assert plan_of(world).is_nothing
    world.run()
    assert {key: each for key, each in world.storage._objects.items() if key.startswith("published/")} == {
        key: each for key, each in before.items() if key.startswith("published/")
    }


def test_a_state_from_before_there_were_erasures_is_gone_on_from() -> None:
    world = World(DECLARED["latest"])
    body = json.loads(world.storage._objects[state_key(TABLE)].body)
    assert "erased" not in body["sources"][0], "a source without any does not name them"
    run_and_check(runner_of(world.lake), world.declaration, world.new, "without erasures")
    assert state_of(world).runs[-1].kind == "run"
    erase(world.lake, TAP, STREAM, [SECRET])
    run_and_check(runner_of(world.lake), world.declaration, wanted(world, 2, SECRET), "after an erasure")
    assert json.loads(world.storage._objects[state_key(TABLE)].body)["sources"][0]["erased"]


def test_until_then_the_table_is_behind_and_cannot_be_compared() -> None:
    world = World(DECLARED["latest"])
    world.run()
    stream = world.lake.stream(TAP, STREAM)
    assert standing_of(state_of(world), source_of(stream.snapshot())).behind == 0
    erase(world.lake, TAP, STREAM, [SECRET])
    assert standing_of(state_of(world), source_of(stream.snapshot())).behind == stream.snapshot().next_offset
    with pytest.raises(LakeError, match="records of the stream were erased since the table was made; run the table"):
        list(verify_rows(runner_of(world.lake), state_of(world)))
    world.run()
    assert standing_of(state_of(world), source_of(stream.snapshot())).behind == 0
    assert list(verify_rows(runner_of(world.lake), state_of(world))) == []


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("now", [False, True], ids=["later", "now"])
def test_an_erasure_during_a_run_is_in_the_table_after_the_next(now: bool, every: int) -> None:
    """At each of its steps; the run itself may end in the table of before the erasure or in that after it."""
    world = World(DECLARED["latest"])
    after = wanted(world, 2, SECRET)
    for number in numbers(world, requests, every):
        world.again()

        def act(step: Step) -> None:
            erase(world.lake, TAP, STREAM, [SECRET], now=now)

        with at_step(world.storage, number, act) as steps:
            world.run()
        world.check(wanted=(world.new, after), when=f"step {number}, {steps[number]}")
        run_and_check(runner_of(world.lake), world.declaration, after, f"step {number}, and run again")


def erase_and_run(world: World) -> None:
    erase(world.lake, TAP, STREAM, [SECRET])
    runner_of(world.lake).run(world.declaration)


@pytest.mark.parametrize("refresh", [False, True])
def test_a_run_from_before_an_erasure_does_not_bring_back_what_another_run_left_out(refresh: bool) -> None:
    world = World(DECLARED["latest"])
    met = before_commits(world.storage, 1, lambda: erase_and_run(world))
    runner_of(world.lake).run(world.declaration, full_refresh=refresh)
    assert len(met) == 1
    world.check(wanted=(wanted(world, 2, SECRET),), when="after both")
    assert plan_of(world).is_nothing


def test_a_refresh_that_increments_overtake_knows_of_an_erasure_meanwhile() -> None:
    world = World(DECLARED["latest"])

    def meanwhile() -> None:
        capture(world.lake, world.batches[2], SIZES)
        erase_and_run(world)

    before_commits(world.storage, 1, meanwhile)
    runner_of(world.lake).run(world.declaration, full_refresh=True)
    world.check(wanted=(wanted(world, 3, SECRET),), when="after both")
    assert plan_of(world).is_nothing


def numbered(batches: Sequence[Batch]) -> list[Batch]:
    """The captures, each record with a number of its own, which no schema declares."""
    made, number = [], 0
    for batch in batches:
        messages = []
        for message in batch.messages:
            if message["type"] == "RECORD":
                message = {**message, "record": {**message["record"], "nth": number}}
                number += 1
            messages.append(message)
        made.append(replace(batch, messages=tuple(messages)))
    return made


def check_with_erasures(seed: int) -> None:
    """As ``check_case``, with random records erased between captures and runs."""
    made, chance = case(seed), random.Random(seed)
    batches, gone, lake = numbered(made.batches), set[int](), memory_lake()
    runner, declaration = runner_of(lake), declaration_of(made.declared)
    # Verify refuses a table that no run has brought up to the last erasure.
    fresh = True
    with small_sizes(made.sizes):
        for count, batch in enumerate(batches, 1):
            capture(lake, batch, made.sizes)
            there = [each["record"]["nth"] for one in batches[:count] for each in one.messages if "record" in each]
            if chance.random() < 0.5 and there:
                some = chance.sample(there, chance.randint(1, min(4, len(there))))
                erase(lake, TAP, STREAM, some, name="nth")
                gone |= set(some)
                fresh = False
            if chance.random() < 0.2:
                vacuum(lake, TAP, STREAM)
            if batch.run:
                left = expected(messages_of(without(batches[:count], "nth", gone)), made.declared)
                run_and_check(runner, declaration, left, f"seed {seed}, capture {count}")
                fresh = not (left.refused or left.unordered or left.clashes)
        found = load(lake.storage, TABLE)
        with suppress(CheckFailedError):
            if found is not None and found.state.is_published and fresh:
                assert list(verify_rows(runner, found.state)) == [], f"seed {seed}: verify finds another table"


@pytest.mark.parametrize(
    "first",
    [
        0,
        *(pytest.param(each, marks=pytest.mark.thorough) for each in range(10, 40, 30)),
        *(pytest.param(each, marks=pytest.mark.soak) for each in range(40, 910, 30)),
    ],
)
def test_tables_equal_a_recomputation_without_what_was_erased(first: int) -> None:
    for seed in range(first, first + (30 if first else 10)):
        check_with_erasures(seed)
