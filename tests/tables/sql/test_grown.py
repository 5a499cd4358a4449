"""Statements that take rows one by one: only new rows are read where it is sure that nothing else became of a table."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from singerlake.arrow.schema.columns import Field, Integer, Struct
from singerlake.cli.commands.project.report import Report, table_json
from singerlake.conditions import condition_of
from singerlake.errors import CheckFailedError, UnknownOutcomeError
from singerlake.lake import Lake
from singerlake.tables.declaration.model import Action, Check, Format, Keep, TableDeclaration, partition_of
from singerlake.tables.maintain.collect import collect_table
from singerlake.tables.maintain.drop import drop, plan_drop
from singerlake.tables.maintain.verify import verify_derived, verify_files
from singerlake.tables.project import plan_tables
from singerlake.tables.run.plan import is_continued, new_rows
from singerlake.tables.state.commit import commit, load
from singerlake.tables.state.keys import state_key
from singerlake.tables.state.model import TableState
from tests.lakes import activate_version_line, build_stream, record_line
from tests.storage.memory import MemoryStorage, Step
from tests.tables.sql.engine import Ids
from tests.tables.sql.tables import SCHEMA, ids, made_by, more, resolved, run, source
from tests.tables.tables import memory_lake

LAST = made_by("last", "base")


@pytest.fixture(autouse=True)
def _row_by_row(engine: Ids) -> None:
    engine.row_by_row = True


def state_of(lake: Lake, table: str) -> TableState:
    return lake.table(table).state


def will_continue(lake: Lake, *tables: TableDeclaration) -> bool:
    last = [each.plan for each in plan_tables(lake.table_runner(), resolved(*tables))][-1]
    return last is not None and bool(last.continues)  # type: ignore[union-attr]


def test_only_new_rows_are_read_and_come_behind_those_that_are_there(lake: Lake, engine: Ids) -> None:
    run(lake, engine, source(), LAST)
    before = state_of(lake, "last")
    more(lake, 2)
    assert will_continue(lake, source(), LAST)
    run(lake, engine, source())
    assert will_continue(lake, LAST)
    outcome = run(lake, engine, LAST)["last"].outcome
    assert outcome is not None
    state = state_of(lake, "last")
    # The source wrote its small last file anew: its rows still tell which of them are new.
    assert len(state_of(lake, "base").files) == 1
    assert engine.given == [0, 1]
    assert ids(lake, "last") == [0, 1, 2, 3, 0, 1]
    assert state.files[:4] == before.files
    assert state.retired == ()
    last = state.runs[-1]
    assert (last.kind, last.start, last.stop, last.records, last.inserted, last.deleted) == ("run", 4, 6, 2, 2, 0)
    assert state.generation == 1
    engine.ran.clear()
    assert run(lake, engine, source(), LAST)["last"].status == "nothing_new"
    assert engine.ran == []


def test_plans_and_runs_say_whether_a_table_is_continued(
    lake: Lake, engine: Ids, capsys: pytest.CaptureFixture[str]
) -> None:
    run(lake, engine, source(), LAST)
    more(lake, 2)
    run(lake, engine, source())
    planned = list(plan_tables(lake.table_runner(), resolved(LAST)))
    made = run(lake, engine, LAST)["last"]
    anew = run(lake, engine, LAST, full_refresh=True)["last"]
    foretold = Report(lake.storage.url, dry_run=True)
    told = Report(lake.storage.url)
    foretold.add(planned[0])
    told.add(made)
    told.add(anew)
    lines = [line.partition(", ")[0] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "last: new rows of base to read",
        "last: 2 new rows made from base; 6 rows in 6 files",
        "last: made from base: 6 rows in 6 files",
    ]
    assert [table_json(each)["plan"]["continues"] for each in (made, anew)] == [True, False]
    assert [(each["from"], each["to"]) for each in (table_json(made)["run"], table_json(anew)["run"])] == [
        (4, 6),
        (0, 0),
    ]


def widened(lake: Lake, engine: Ids) -> TableDeclaration:
    build_stream(lake, "t", "s", {"properties": {"id": {"type": "number"}}}, [{"id": 7}])
    return LAST


def with_a_column(lake: Lake, engine: Ids) -> TableDeclaration:
    build_stream(lake, "t", "s", {"properties": {"id": {"type": "integer"}, "b": {"type": "integer"}}}, [{"id": 7}])
    return LAST


def of_another_version(lake: Lake, engine: Ids) -> TableDeclaration:
    build_stream(lake, "t", "s", SCHEMA, [activate_version_line("s", 1), record_line("s", {"id": 7}, version=1)])
    return LAST


def refreshed(lake: Lake, engine: Ids) -> TableDeclaration:
    run(lake, engine, source(), full_refresh=True)
    return LAST


def dropped(lake: Lake, engine: Ids) -> TableDeclaration:
    drop(lake.storage, plan_drop(lake.storage, "base"))
    return LAST


def declared_otherwise(lake: Lake, engine: Ids) -> TableDeclaration:
    changed = TableDeclaration(name="base", tap="t", stream="s", keep=Keep.APPEND, metadata=True)
    assert run(lake, engine, changed)["base"].status == "made"
    run(lake, engine, source())
    return LAST


def of_several_rows(lake: Lake, engine: Ids) -> TableDeclaration:
    engine.row_by_row = False
    return LAST


def with_other_columns(lake: Lake, engine: Ids) -> TableDeclaration:
    engine.columns = Struct((Field("id", Integer()), Field("more", Integer())))
    return LAST


def of_two_tables(lake: Lake, engine: Ids) -> TableDeclaration:
    return made_by("last", "base, base")


def checked(lake: Lake, engine: Ids) -> TableDeclaration:
    return made_by("last", "base", checks=(Check("id", "> -1", condition_of("> -1")),))


def without_a_mark(lake: Lake, engine: Ids) -> TableDeclaration:
    """As an earlier version of the format has it."""
    found = load(lake.storage, "last")
    assert found is not None
    plain = tuple(replace(each, up_to=None) for each in found.state.made_from)
    commit(lake.storage, found, replace(found.state, id="0" * 16, number=9, made_from=plain))
    return LAST


def read_long_ago(lake: Lake, engine: Ids) -> TableDeclaration:
    """The source does not remember the write any more that was read."""
    found = load(lake.storage, "base")
    assert found is not None
    commit(lake.storage, found, replace(found.state, id="0" * 16, number=9, runs=()))
    return LAST


ANEW: dict[str, Callable[[Lake, Ids], TableDeclaration]] = {
    each.__name__: each
    for each in (
        widened, with_a_column, of_another_version, refreshed, dropped, declared_otherwise, of_several_rows,
        with_other_columns, of_two_tables, checked, without_a_mark, read_long_ago,
    )
}  # fmt: skip


@pytest.mark.parametrize("kind", ANEW)
def test_all_rows_are_made_anew_where_anything_else_became_of_a_table(lake: Lake, engine: Ids, kind: str) -> None:
    run(lake, engine, source(), LAST)
    more(lake, 2)
    last = ANEW[kind](lake, engine)
    run(lake, engine, source())
    state = run(lake, engine, last)["last"].outcome.state  # type: ignore[union-attr]
    assert state is not None
    assert not is_continued(state.runs[-1])
    assert ids(lake, "last") == ids(lake, "base") * (2 if kind == "of_two_tables" else 1)
    assert len(engine.given) == state.rows
    assert (state.made_from[0].up_to is None) == (kind in ("of_several_rows", "of_two_tables"))


@pytest.mark.parametrize(
    ("base", "last"),
    [
        (TableDeclaration(name="base", tap="t", stream="s", keep=Keep.LATEST, key=("id",)), LAST),
        (source(), made_by("last", "base", sort_by=("id",))),
        (source(), made_by("last", "base", partition_by=(partition_of("id"),))),
    ],
)
def test_tables_whose_new_rows_do_not_come_last_are_made_anew(
    lake: Lake, engine: Ids, base: TableDeclaration, last: TableDeclaration
) -> None:
    run(lake, engine, base, last)
    build_stream(lake, "t", "s", SCHEMA, [{"id": 7}, {"id": -1}])
    assert not will_continue(lake, base, last)
    run(lake, engine, base, last)
    assert sorted(engine.given) == sorted(ids(lake, "last")) == [-1, 0, 1, 2, 3, 7]


def test_a_source_in_another_order_tells_its_new_rows_too(lake: Lake, engine: Ids) -> None:
    parts = (partition_of("id"),)
    base = TableDeclaration(name="base", tap="t", stream="s", keep=Keep.APPEND, partition_by=parts)
    run(lake, engine, base, LAST)
    more(lake, 3)
    run(lake, engine, base)
    rows = new_rows(state_of(lake, "last").made_from[0], state_of(lake, "base"))
    assert rows is not None
    assert [file.partition for file in rows.files] == [("0",), ("1",), ("2",)]
    run(lake, engine, base, LAST)
    assert engine.given == [0, 1, 2]
    assert sorted(ids(lake, "last")) == ids(lake, "base") == [0, 0, 1, 1, 2, 2, 3]


def test_collecting_and_messages_without_rows_leave_it_to_continue(lake: Lake, engine: Ids) -> None:
    run(lake, engine, source(), LAST)
    for table in ("base", "last"):
        lake.storage.put(f"published/{table}/g1/left-over.parquet", b"?")
        grace = timedelta(seconds=-60)
        collect_table(lake.storage, table, now=lake.clock.now, grace=grace, clock=lake.clock, ids=lake.ids)
    build_stream(lake, "t", "s", SCHEMA, [activate_version_line("s", 1), record_line("s", {"id": 9}, version=1)])
    run(lake, engine, source())
    run(lake, engine, LAST)
    assert ids(lake, "last") == ids(lake, "base") == [9]
    build_stream(lake, "t", "s", SCHEMA, [activate_version_line("s", 1), record_line("s", {"id": 8}, version=1)])
    run(lake, engine, source(), LAST)
    assert engine.given == [8]
    assert ids(lake, "last") == ids(lake, "base") == [9, 8]


def test_one_statement_continues_behind_another(lake: Lake, engine: Ids) -> None:
    tables = made_by("third", "last"), LAST, source()
    run(lake, engine, *tables)
    more(lake, 2)
    run(lake, engine, *tables)
    assert engine.given == [0, 1]
    assert ids(lake, "third") == [0, 1, 2, 3, 0, 1]
    run(lake, engine, LAST, full_refresh=True)
    run(lake, engine, *tables)
    assert len(engine.given) == 6
    assert ids(lake, "third") == [0, 1, 2, 3, 0, 1]


def test_of_many_runs_one_makes_all_rows(lake: Lake, engine: Ids, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singerlake.tables.run.plan.CONTINUED_RUNS", 3)
    given = []
    for _ in range(6):
        run(lake, engine, source(), LAST)
        given.append(len(engine.given))
        more(lake, 1)
    assert given == [4, 1, 1, 1, 8, 1]


def test_a_value_that_is_there_twice_is_found_among_all_rows(lake: Lake, engine: Ids) -> None:
    last = made_by(
        "last", "base", checks=(Check("id", "unique", None), Check("id", "< 9", condition_of("< 9"), Action.DROP))
    )
    run(lake, engine, source(), last)
    build_stream(lake, "t", "s", SCHEMA, [{"id": 4}, {"id": 9}])
    run(lake, engine, source(), last)
    assert engine.given == [4, 9]
    assert ids(lake, "last") == [0, 1, 2, 3, 4]
    before = load(lake.storage, "last")
    build_stream(lake, "t", "s", SCHEMA, [{"id": 2}])
    error = run(lake, engine, source(), last)["last"].error
    assert isinstance(error, CheckFailedError)
    assert "id unique: 1 row" in str(error)
    assert load(lake.storage, "last") == before
    state = state_of(lake, "last")
    listed = {entry.key for entry in lake.storage.list("published/last/")}
    assert listed == {"published/last/_table.json", *(f"published/last/{path}" for path in state.paths())}


@pytest.mark.parametrize("format", Format)
def test_files_of_every_format_come_behind_others(lake: Lake, engine: Ids, format: Format) -> None:
    tables = source(), made_by("last", "base", format=format)
    run(lake, engine, *tables)
    more(lake, 2)
    run(lake, engine, *tables)
    state = state_of(lake, "last")
    assert is_continued(state.runs[-1])
    assert ids(lake, "last") == [0, 1, 2, 3, 0, 1]
    assert list(verify_files(lake.table_runner().engine(0), state)) == []
    assert list(verify_derived(lake.storage, state)) == []


def test_a_run_that_comes_second_adds_nothing_twice(lake: Lake, engine: Ids) -> None:
    run(lake, engine, source(), LAST)
    more(lake, 2)
    run(lake, engine, source())
    other = Ids(lake.storage, row_by_row=True)

    def first() -> None:
        engine.meanwhile = lambda: None
        run(lake, other, LAST)
        more(lake, 1)
        run(lake, other, source())

    engine.meanwhile = first
    run(lake, engine, LAST)
    assert (other.given, engine.given) == ([0, 1], [0])
    assert ids(lake, "last") == ids(lake, "base") == [0, 1, 2, 3, 0, 1, 0]
    state = state_of(lake, "last")
    listed = {entry.key for entry in lake.storage.list("published/last/")}
    assert listed == {"published/last/_table.json", *(f"published/last/{path}" for path in state.paths())}


def test_a_run_that_dies_is_repeated(lake: Lake, engine: Ids) -> None:
    run(lake, engine, source(), LAST)
    before = load(lake.storage, "last")
    more(lake, 2)

    class DiedError(BaseException):
        """As a process that is killed."""

    def dies() -> None:
        raise DiedError

    engine.meanwhile = dies
    with pytest.raises(DiedError):
        run(lake, engine, source(), LAST)
    assert load(lake.storage, "last") == before
    engine.meanwhile = lambda: None
    run(lake, engine, source(), LAST)
    assert engine.given == [0, 1]
    assert ids(lake, "last") == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize("took_effect", [True, False])
def test_a_commit_without_an_answer_adds_nothing_twice(took_effect: bool) -> None:
    lake = memory_lake()
    storage, engine = lake.storage, Ids(lake.storage, row_by_row=True)
    assert isinstance(storage, MemoryStorage)
    more(lake, 4)
    run(lake, engine, source(), LAST)
    more(lake, 2)

    def lost(step: Step) -> None:
        if (step.operation, step.key, step.done) == ("put", state_key("last"), took_effect):
            storage.hook = lambda step: None
            raise UnknownOutcomeError("no answer")

    storage.hook = lost
    error = run(lake, engine, source(), LAST)["last"].error
    assert error is None if took_effect else isinstance(error, UnknownOutcomeError)
    run(lake, engine, source(), LAST)
    assert ids(lake, "last") == [0, 1, 2, 3, 0, 1]


def _random_step(lake: Lake, engine: Ids, chance: random.Random, number: int) -> None:
    """Something that may happen between two runs of a statement."""
    kind = chance.choice(("records", "records", "records", "version", "refresh", "drop", "collect", "widen", "again"))
    version = chance.choice((None, 1, 2))
    envelope: dict[str, Any] = {} if version is None else {"version": version}
    lines = [record_line("s", {"id": number * 10 + at}, **envelope) for at in range(chance.randrange(4))]
    if kind == "version":
        lines.insert(chance.randrange(len(lines) + 1), activate_version_line("s", chance.choice((1, 2))))
    schema = {"properties": {"id": {"type": "integer"}, f"c{number}": {}}} if kind == "widen" else SCHEMA
    if lines:
        build_stream(lake, "t", "s", schema, lines)
    if kind == "drop":
        drop(lake.storage, plan_drop(lake.storage, chance.choice(("base", "last"))))
    table = chance.choice(("base", "last", "third"))
    if kind == "collect" and load(lake.storage, table) is not None:
        lake.storage.put(f"published/{table}/g1/left-{number}.parquet", b"?")
        grace = timedelta(seconds=-60)
        collect_table(lake.storage, table, now=lake.clock.now, grace=grace, clock=lake.clock, ids=lake.ids)
    if kind == "again":
        run(lake, engine, LAST, full_refresh=True)
    run(lake, engine, source(), full_refresh=kind == "refresh")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 12))])
def test_whatever_happens_the_rows_are_those_that_the_statement_gives_of_all(
    lake: Lake, engine: Ids, seed: int
) -> None:
    chance = random.Random(seed)
    run(lake, engine, source(), LAST, made_by("third", "last"))
    continued = 0
    for number in range(1, 16):
        for _ in range(chance.choice((1, 1, 2))):
            _random_step(lake, engine, chance, number)
        engine.row_by_row = chance.random() < 0.9
        results = run(lake, engine, made_by("third", "last"), LAST)
        assert [each.error for each in results.values()] == [None, None]
        assert sorted(ids(lake, "last")) == sorted(ids(lake, "third")) == sorted(ids(lake, "base"))
        made = [each.outcome.run for each in results.values() if each.outcome is not None]
        continued += sum(each is not None and is_continued(each) for each in made)
    assert continued
