"""Tables of a stream whose oldest messages expire."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from singerlake.conditions import parse_where
from singerlake.errors import CorruptObjectError, ExpiredMessagesError
from singerlake.lake import Lake
from singerlake.tables.declaration.model import Deletions, Format, Keep, TableDeclaration
from singerlake.tables.maintain.verify import verify_rows
from singerlake.tables.run.one_table import Outcome
from singerlake.tables.state.commit import checked, load
from singerlake.tables.state.model import TableSource, TableState
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.defaults import TARGET_BYTES
from singerlake.upkeep.erase.erase import erase_messages
from singerlake.upkeep.gc.apply import collect_now
from singerlake.upkeep.gc.expire import Cut, expire_messages
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from singerlake.upkeep.vacuum.vacuum import vacuum_stream
from tests.lakes import activate_version_line, build_stream, record_line
from tests.tables.tables import STREAM, TABLE, TAP, memory_lake, runner_of

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
KINDS = {
    "append": TableDeclaration(name=TABLE, tap=TAP, stream=STREAM, keep=Keep.APPEND),
    "latest": TableDeclaration(name=TABLE, tap=TAP, stream=STREAM),
    "history": TableDeclaration(name=TABLE, tap=TAP, stream=STREAM, keep=Keep.HISTORY),
    "soft": TableDeclaration(name=TABLE, tap=TAP, stream=STREAM, deletions=Deletions.SOFT),
    "delta": TableDeclaration(name=TABLE, tap=TAP, stream=STREAM, format=Format.DELTA),
    "delta-append": TableDeclaration(name=TABLE, tap=TAP, stream=STREAM, keep=Keep.APPEND, format=Format.DELTA),
}


@pytest.fixture(params=KINDS)
def declaration(request: pytest.FixtureRequest) -> TableDeclaration:
    return KINDS[request.param]


@pytest.fixture
def lake() -> Lake:
    """Ids 0 to 19, five a file."""
    lake = memory_lake()
    add(lake, *range(20))
    return lake


def add(lake: Lake, *numbers: int, schema: Any = SCHEMA) -> None:
    records = [{"id": number, "name": f"n{number}"} for number in numbers]
    build_stream(lake, TAP, STREAM, schema, records, file_size=5, member_size=2, key_properties=("id",))


def context(lake: Lake) -> StreamContext:
    return StreamContext(lake.storage, TAP, STREAM, lake.clock, lake.ids, lake.stream(TAP, STREAM).store())


def expire(lake: Lake, before: int) -> None:
    done = expire_messages(context(lake), Cut(before=before), dry_run=False)
    collect_now(context(lake), frozenset(done.ids))


def erase(lake: Lake, *numbers: int) -> None:
    for number in numbers:
        done = erase_messages(context(lake), parse_where(f"id = {number}", "--where"), who="a-test", dry_run=False)
        assert done.records == 1


def vacuum(lake: Lake) -> None:
    vacuum_stream(context(lake), target_bytes=TARGET_BYTES, threads=1)


def run(lake: Lake, declaration: TableDeclaration, **options: bool) -> Outcome:
    return runner_of(lake).run(declaration, **options)


def ids(lake: Lake) -> list[int]:
    found: list[int] = lake.table(TABLE).to_arrow().read_all()["id"].to_pylist()
    return sorted(found)


def state(lake: Lake) -> TableState:
    found = load(lake.storage, TABLE)
    assert found is not None
    return found.state


def test_a_run_after_an_expiry_goes_on_and_keeps_the_rows(lake: Lake, declaration: TableDeclaration) -> None:
    run(lake, declaration)
    expire(lake, 20)
    assert runner_of(lake).plan(declaration).is_nothing
    assert run(lake, declaration).run is None
    add(lake, 20, 21)
    expire(lake, 20)
    outcome = run(lake, declaration)
    assert (outcome.plan.start, outcome.plan.stop, outcome.plan.why) == (20, 22, "")
    assert ids(lake) == list(range(22))
    assert state(lake).sources[0].begin == 0


def test_the_first_run_begins_at_the_floor(lake: Lake, declaration: TableDeclaration) -> None:
    expire(lake, 12)
    outcome = run(lake, declaration)
    assert (outcome.plan.start, outcome.plan.stop) == (10, 20)
    assert ids(lake) == list(range(10, 20))
    assert (state(lake).sources[0].begin, state(lake).sources[0].offset) == (10, 20)
    assert list(verify_rows(runner_of(lake), state(lake))) == []
    add(lake, 20)
    run(lake, declaration)
    assert (state(lake).sources[0].begin, state(lake).sources[0].offset) == (10, 21)
    assert list(verify_rows(runner_of(lake), state(lake))) == []


def test_the_first_run_after_all_expired_makes_an_empty_table(lake: Lake, declaration: TableDeclaration) -> None:
    expire(lake, 20)
    run(lake, declaration)
    assert ids(lake) == []
    add(lake, 20)
    run(lake, declaration)
    assert ids(lake) == [20]


def test_messages_that_expired_before_the_table_had_them_are_not_passed_over(
    lake: Lake, declaration: TableDeclaration
) -> None:
    run(lake, declaration)
    add(lake, *range(20, 40))
    expire(lake, 30)
    before = state(lake)
    for _ in range(2):
        with pytest.raises(
            ExpiredMessagesError, match=r"from offset 20 to 29 expired before the table had .* with --full-refresh"
        ):
            run(lake, declaration)
    assert state(lake) == before
    assert ids(lake) == list(range(20))
    outcome = run(lake, declaration, full_refresh=True)
    assert (outcome.plan.start, outcome.plan.why) == (30, "asked for")
    assert ids(lake) == list(range(30, 40))
    assert state(lake).sources[0].begin == 30
    add(lake, 40)
    run(lake, declaration)
    assert ids(lake) == list(range(30, 41))


def test_a_declaration_that_changed_needs_what_expired(lake: Lake, declaration: TableDeclaration) -> None:
    run(lake, declaration)
    changed = dataclasses.replace(declaration, sort_by=("name",))
    expire(lake, 10)
    before = state(lake)
    with pytest.raises(
        ExpiredMessagesError, match=r"made anew \(its declaration changed: sort_by\), and messages that made it"
    ):
        run(lake, changed)
    assert state(lake) == before
    # What it was declared as before still goes on.
    add(lake, 20)
    run(lake, declaration)
    assert ids(lake) == list(range(21))
    run(lake, changed, full_refresh=True)
    assert ids(lake) == list(range(10, 21))


def test_a_rebuilt_stream_of_which_nothing_expired_since_makes_the_table_anew(
    lake: Lake, declaration: TableDeclaration
) -> None:
    run(lake, declaration)
    expire(lake, 10)
    repair_stream(context(lake), RepairOptions(discard=True))
    outcome = run(lake, declaration)
    assert "rebuilt or dropped" in outcome.plan.why
    assert ids(lake) == list(range(10, 20))
    assert state(lake).sources[0].begin == 0


def test_rows_that_raw_can_no_longer_prove_are_not_called_wrong(lake: Lake, declaration: TableDeclaration) -> None:
    run(lake, declaration)
    assert list(verify_rows(runner_of(lake), state(lake))) == []
    expire(lake, 10)
    with pytest.raises(ExpiredMessagesError, match="its rows were made of have expired, those before offset 10"):
        list(verify_rows(runner_of(lake), state(lake)))
    run(lake, declaration, full_refresh=True)
    assert list(verify_rows(runner_of(lake), state(lake))) == []


# Erased and expired together

UPKEEP: dict[str, Callable[[Lake], None]] = {"at once": lambda lake: None, "vacuumed": vacuum}


@pytest.mark.parametrize("between", UPKEEP)
@pytest.mark.parametrize("keep", ["append", "latest"])
def test_an_erasure_before_the_table_hides_no_later_one(lake: Lake, keep: str, between: str) -> None:
    """Erased records that expired with their files do not stand for others that are erased later."""
    declaration = KINDS[keep]
    erase(lake, 1, 2, 11)
    run(lake, declaration)
    assert ids(lake) == [n for n in range(20) if n not in (1, 2, 11)]
    expire(lake, 10)
    assert runner_of(lake).plan(declaration).is_nothing
    UPKEEP[between](lake)
    assert runner_of(lake).plan(declaration).is_nothing
    erase(lake, 15)
    with pytest.raises(ExpiredMessagesError, match=r"made anew \(records of the stream were erased\)"):
        run(lake, declaration)
    run(lake, declaration, full_refresh=True)
    assert ids(lake) == [n for n in range(10, 20) if n not in (11, 15)]
    assert runner_of(lake).plan(declaration).is_nothing


def test_an_erasure_of_what_is_left_makes_a_table_anew_that_holds_all_of_it(lake: Lake) -> None:
    declaration = KINDS["append"]
    expire(lake, 5)
    run(lake, declaration)
    erase(lake, 12)
    assert "were erased" in run(lake, declaration).plan.why
    assert ids(lake) == [n for n in range(5, 20) if n != 12]


@pytest.mark.parametrize("first", ["vacuum", "run"])
def test_a_vacuum_of_files_with_holes_and_an_expiry_of_the_joined_file(lake: Lake, first: str) -> None:
    declaration = KINDS["latest"]
    erase(lake, 3, 7)
    for step in ("vacuum", "run") if first == "vacuum" else ("run", "vacuum"):
        if step == "vacuum":
            vacuum(lake)
        else:
            run(lake, declaration)
    add(lake, *range(20, 30))
    run(lake, declaration)
    expire(lake, 20)
    assert lake.stream(TAP, STREAM).snapshot().floor == 20
    assert runner_of(lake).plan(declaration).is_nothing
    erase(lake, 22)
    with pytest.raises(ExpiredMessagesError, match="records of the stream were erased"):
        run(lake, declaration)


# The state says where the rows begin


@pytest.mark.parametrize(("begin", "offset"), [(-1, 5), (6, 5)])
def test_a_beginning_that_cannot_be_is_refused(lake: Lake, begin: int, offset: int) -> None:
    run(lake, KINDS["append"])
    there = state(lake)
    source = TableSource(tap=TAP, stream=STREAM, lineage="l", offset=offset, begin=begin)
    with pytest.raises(CorruptObjectError, match="its source begins behind its end"):
        checked(msgspec.structs.replace(there, sources=(source,)), "k")


def test_a_history_in_another_order_is_made_of_what_is_left_behind_an_activate_version() -> None:
    lake = memory_lake()
    for version in (1, 2):
        lines = [record_line(STREAM, {"id": n, "name": f"n{n % 3}"}, version=version) for n in range(10)]
        lines += [activate_version_line(STREAM, version)]
        build_stream(lake, TAP, STREAM, SCHEMA, lines, file_size=5, key_properties=("id",))
    expire(lake, 5)
    declaration = dataclasses.replace(KINDS["history"], sort_by=("name",))
    state = run(lake, declaration).state
    assert state is not None
    assert (state.rows, state.sources[0].begin) == (10, 5)
    assert list(verify_rows(runner_of(lake), state)) == []
