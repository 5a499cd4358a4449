"""Tables of statements: when they are made, after which others, and that each is published whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

import pytest

from singerlake.arrow.schema.columns import Array, Column, Field, Integer, Struct, Text
from singerlake.conditions import condition_of
from singerlake.errors import CheckFailedError, SettingError, UnknownNameError
from singerlake.lake import Lake
from singerlake.tables.declaration.model import Action, Check, Format, TableDeclaration, partition_of
from singerlake.tables.maintain.collect import collect_table
from singerlake.tables.maintain.drop import drop, plan_drop
from singerlake.tables.maintain.status import standing_of
from singerlake.tables.maintain.verify import verify_files
from singerlake.tables.project import plan_tables, run_tables
from singerlake.tables.run.one_table import TableResult
from singerlake.tables.state.commit import load
from tests.tables.sql.engine import Ids
from tests.tables.sql.tables import ids, made_by, more, resolved, run, source


def planned(lake: Lake, *tables: TableDeclaration) -> dict[str, str]:
    """Why each would be made, without an engine; empty where it would not."""
    results = plan_tables(lake.table_runner(), resolved(*tables))
    return {each.declaration.name: each.plan.why for each in results if each.plan is not None}


def same_errors(lake: Lake, engine: Callable[[], Ids], *tables: TableDeclaration) -> dict[str, TableResult]:
    """What a run makes of them; a plan before it tells the same errors."""
    foretold = {each.declaration.name: each for each in plan_tables(lake.table_runner(), resolved(*tables))}
    results = run(lake, engine, *tables)
    assert _errors(foretold) == _errors(results)
    return results


def _errors(results: Mapping[str, TableResult]) -> dict[str, tuple[type, str]]:
    """Which tables there are, an error lists, and a run has begun some."""
    errors = {name: each.error for name, each in results.items()}
    return {name: (type(each), "" if type(each) is UnknownNameError else str(each)) for name, each in errors.items()}


def test_it_is_made_after_the_tables_that_it_reads_wherever_it_is_declared(lake: Lake, engine: Ids) -> None:
    results = run(lake, engine, made_by("last", "middle"), made_by("middle", "base, base"), source())
    assert [(name, each.status) for name, each in results.items()] == [
        ("base", "made"),
        ("middle", "made"),
        ("last", "made"),
    ]
    assert ids(lake, "last") == [0, 1, 2, 3] * 2
    state = load(lake.storage, "last").state  # type: ignore[union-attr]
    assert [(each.table, each.generation, each.number) for each in state.made_from] == [("middle", 1, 2)]
    assert state.made_from[0].rows == lake.table("middle").state.rows_id


def test_with_nothing_new_no_engine_is_asked(lake: Lake, engine: Ids) -> None:
    tables = made_by("last", "middle"), made_by("middle", "base"), source()
    run(lake, engine, *tables)

    def unused() -> Ids:
        raise AssertionError("asked")

    assert {each.status for each in run(lake, unused, *tables).values()} == {"nothing_new"}
    assert set(planned(lake, *tables).values()) == {""}


def test_what_is_new_goes_through_all_tables_and_a_plan_says_so_before(lake: Lake, engine: Ids) -> None:
    tables = made_by("last", "middle"), made_by("middle", "base"), made_by("aside", "still"), source(), source("still")
    assert planned(lake, *tables)["last"] == "for the first time"
    run(lake, engine, *tables)
    more(lake, 6)
    engine.ran.clear()
    assert planned(lake, tables[0], tables[1], tables[3]) == {
        "base": "",
        "middle": "base changed",
        "last": "middle changed",
    }
    assert planned(lake, *tables[:2]) == {"last": "", "middle": ""}
    results = run(lake, engine, *tables[:2], source())
    assert engine.ran == ["SELECT FROM base", "SELECT FROM middle"]
    assert ids(lake, "last") == [0, 1, 2, 3, 0, 1, 2, 3, 4, 5]
    assert results["last"].outcome.state.generation == 1  # type: ignore[union-attr]
    assert run(lake, engine, tables[2])["aside"].status == "nothing_new"


def test_collecting_a_table_that_is_read_is_nothing_new(lake: Lake, engine: Ids) -> None:
    run(lake, engine, source(), made_by("last", "base"))
    lake.storage.put("published/base/g1/left-over.parquet", b"?")
    gone = collect_table(
        lake.storage, "base", now=lake.clock.now, grace=timedelta(seconds=-60), clock=lake.clock, ids=lake.ids
    )
    assert len(gone.unlisted) == 1
    assert run(lake, engine, made_by("last", "base"))["last"].status == "nothing_new"


@pytest.mark.parametrize("named", ["LAST", "last"])
def test_one_table_reads_the_others_as_they_are_and_says_how_far_they_are_behind(
    lake: Lake, engine: Ids, named: str
) -> None:
    run(lake, engine, source("Last"))
    more(lake, 3)
    result = run(lake, engine, made_by("alone", named))["alone"]
    assert result.outcome is not None
    assert result.outcome.behind == {"Last": 3}
    assert ids(lake, "alone") == [0, 1, 2, 3]


def test_a_circle_names_its_tables_and_stops_no_other(lake: Lake, engine: Ids) -> None:
    tables = made_by("one", "two"), made_by("two", "three"), made_by("three", "one"), made_by("it", "it")
    results = same_errors(lake, engine, *tables, made_by("fine", "base"), made_by("reader", "one"), source())
    for name in ("one", "two", "three"):
        assert "'one' reads 'two' reads 'three' reads 'one'" in str(results[name].error)
    assert "'it' reads 'it'" in str(results["it"].error)
    assert isinstance(results["reader"].error, UnknownNameError)
    assert results["fine"].status == "made"


def test_a_statement_that_is_changed_into_a_circle_leaves_the_table_as_it_was(lake: Lake, engine: Ids) -> None:
    run(lake, engine, source(), made_by("one", "base"), made_by("two", "one"))
    results = same_errors(lake, engine, source(), made_by("one", "two"), made_by("two", "one"))
    assert {name: each.status for name, each in results.items()} == {
        "base": "nothing_new",
        "one": "failed",
        "two": "failed",
    }
    assert ids(lake, "two") == [0, 1, 2, 3]


def test_another_statement_is_run_and_other_columns_begin_a_generation(lake: Lake, engine: Ids) -> None:
    run(lake, engine, source(), made_by("last", "base"))
    assert planned(lake, made_by("last", "base, base"))["last"] == "its declaration changed: sql"
    results = run(lake, engine, made_by("last", "base, base"))
    state = results["last"].outcome.state  # type: ignore[union-attr]
    assert state is not None
    assert (state.generation, state.rows, len(state.retired)) == (2, 8, 4)
    engine.columns = Struct((Field("id", Integer()), Field("more", Integer())))
    again = run(lake, engine, made_by("last", "base, base"), full_refresh=True)["last"].outcome
    assert again is not None
    assert again.state is not None
    assert (again.state.generation, again.state.runs[-1].kind) == (3, "rebuild")
    assert run(lake, engine, made_by("last", "base, base"), full_refresh=True)["last"].outcome.run.kind == "run"  # type: ignore[union-attr]


@pytest.mark.parametrize("format", [Format.PARQUET, Format.CSV, Format.DELTA])
def test_rows_are_in_order_and_in_folders(lake: Lake, engine: Ids, format: Format) -> None:
    more(lake, 9)
    engine.columns = Struct((Field("id", Integer()), Field("of", Integer())))
    declared = made_by("last", "base, base", sort_by=("id",), partition_by=(partition_of("of"),), format=format)
    state = run(lake, engine, source(), declared)["last"].outcome.state  # type: ignore[union-attr]
    assert state is not None
    assert [file.partition for file in state.files] == [(str(number),) for number in range(9)]
    assert ids(lake, "last") == sorted([*range(4), *range(9)] * 2)
    assert not list(lake.storage.list("published/last/_scratch/"))
    assert list(verify_files(lake.table_runner().engine(0), state)) == []


@pytest.mark.parametrize("action", Action)
def test_checks_hold_of_its_rows(lake: Lake, engine: Ids, action: Action) -> None:
    run(lake, engine, source(), made_by("last", "base"))
    before = load(lake.storage, "last").state.files  # type: ignore[union-attr]
    checks = (Check("id", "> 1", condition_of("> 1"), action),)
    result = run(lake, engine, made_by("last", "base", checks=checks))["last"]
    if action is Action.FAIL:
        assert isinstance(result.error, CheckFailedError)
        assert "id > 1: 2 rows;" in str(result.error)
        listed = {entry.key for entry in lake.storage.list("published/last/")}
        assert listed == {"published/last/_table.json", *(f"published/last/{file.path}" for file in before)}
        return
    assert result.outcome is not None
    assert result.outcome.run is not None
    assert result.outcome.run.checks == {"id > 1": 2}
    assert ids(lake, "last") == ([2, 3] if action is Action.DROP else [0, 1, 2, 3])


def test_a_value_that_is_there_twice_fails_a_check(lake: Lake, engine: Ids) -> None:
    unique = (Check("id", "unique", None),)
    assert run(lake, engine, source(), made_by("last", "base", checks=unique))["last"].status == "made"
    error = run(lake, engine, made_by("last", "base, base", checks=unique))["last"].error
    assert "id unique: 4 rows;" in str(error)
    assert ids(lake, "last") == [0, 1, 2, 3]


INNER = Array(Struct((Field("a", Integer()), Field("A", Integer()))))
COLUMNS: dict[str, tuple[dict[str, Column], str]] = {
    "two": ({"id": Integer(), "ID": Integer()}, "gives two columns 'ID'"),
    "none": ({"id": Integer(), " ": Integer()}, "has no name"),
    "own": ({"id": Integer(), "__row": Integer()}, "a column '__row'"),
    "within": ({"id": Struct((Field("o", INNER),))}, "column 'id' of the statement has fields of an object"),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_names_of_columns_that_no_table_can_have_are_refused(lake: Lake, engine: Ids, kind: str) -> None:
    columns, message = COLUMNS[kind]
    engine.columns = Struct(tuple(Field(name, column) for name, column in columns.items()))
    places = {"": ("projections.yml", 2), "sql": ("projections.yml", 3)}
    error = run(lake, engine, source(), made_by("last", "base", written_at=places))["last"].error
    assert isinstance(error, SettingError)
    assert message in error.message
    assert error.context["line"] == 3


USES = {
    "sort_by": ({"sort_by": ("i",)}, "'i', which is not a column of its statement; did you mean 'id'?"),
    "checks": ({"checks": (Check("no", "null", condition_of("null")),)}, "it has: id"),
    "literal": ({"checks": (Check("id", "= 'a'", condition_of("= 'a'")),)}, "compared with 'a'"),
    "time": ({"partition_by": (partition_of("year(id)"),)}, "which is not a time"),
}


@pytest.mark.parametrize("kind", USES)
def test_what_is_declared_has_to_suit_the_columns(lake: Lake, engine: Ids, kind: str) -> None:
    declared, message = USES[kind]
    places = {"": ("projections.yml", 2), next(iter(declared)): ("projections.yml", 5)}
    error = run(lake, engine, source(), made_by("last", "base", written_at=places, **declared))["last"].error
    assert message in str(error)
    assert error is not None
    assert error.context["line"] == 5


def test_a_table_that_is_not_there_is_named_with_those_that_are(lake: Lake, engine: Ids) -> None:
    places = {"": ("projections.yml", 2), "sql": ("projections.yml", 3)}
    results = run(lake, engine, source(), made_by("last", "bas", written_at=places), made_by("fine", "base"))
    assert "reads `bas`, which is not a table of this lake; did you mean 'base'?" in str(results["last"].error)
    assert results["last"].error.context["line"] == 3  # type: ignore[union-attr]
    assert results["fine"].status == "made"


def test_two_tables_that_one_name_may_mean_are_told(lake: Lake, engine: Ids) -> None:
    run(lake, engine, source("Base"), source())
    error = same_errors(lake, engine, source("Base"), source(), made_by("last", "BASE"))["last"].error
    assert "may mean 'Base' and 'base'" in str(error)


def test_without_spark_it_says_what_is_needed(lake: Lake) -> None:
    results = {
        each.declaration.name: each
        for each in run_tables(lake.table_runner(), resolved(made_by("last", "base"), source()))
    }
    assert "need Spark; run with --engine spark" in str(results["last"].error)
    assert results["base"].status == "made"
    assert load(lake.storage, "last") is None


def test_a_run_that_comes_second_goes_on_from_the_first(lake: Lake, engine: Ids) -> None:
    run(lake, engine, source())
    other = Ids(lake.storage)

    def first() -> None:
        engine.meanwhile = lambda: None
        assert run(lake, other, made_by("last", "base"))["last"].status == "made"

    engine.meanwhile = first
    assert run(lake, engine, made_by("last", "base"))["last"].status == "nothing_new"
    listed = {entry.key for entry in lake.storage.list("published/last/")}
    state = load(lake.storage, "last").state  # type: ignore[union-attr]
    assert listed == {"published/last/_table.json", *(f"published/last/{path}" for path in state.paths())}


def test_a_run_that_dies_leaves_the_old_table_and_what_a_collector_deletes(lake: Lake, engine: Ids) -> None:
    run(lake, engine, source(), made_by("last", "base"))
    more(lake, 2)
    run(lake, engine, source())
    before = load(lake.storage, "last")

    class DiedError(BaseException):
        """As a process that is killed."""

    def dies() -> None:
        lake.storage.put("published/last/g1/half.parquet", b"?")
        raise DiedError

    engine.meanwhile = dies
    with pytest.raises(DiedError):
        run(lake, engine, made_by("last", "base"))
    assert load(lake.storage, "last") == before
    now = lake.clock.now
    gone = collect_table(lake.storage, "last", now=now, grace=timedelta(seconds=-60), clock=lake.clock, ids=lake.ids)
    assert [entry.key for entry in gone.unlisted] == ["published/last/g1/half.parquet"]
    engine.meanwhile = lambda: None
    run(lake, engine, made_by("last", "base"))
    assert ids(lake, "last") == [0, 1, 2, 3, 0, 1]


def test_it_becomes_a_table_of_a_stream_and_back(lake: Lake, engine: Ids) -> None:
    run(lake, engine, source(), made_by("last", "base"))
    state = run(lake, engine, source("last"))["last"].outcome.state  # type: ignore[union-attr]
    assert state is not None
    assert (state.generation, state.made_from, state.rows) == (2, (), 4)
    state = run(lake, engine, made_by("last", "base"))["last"].outcome.state  # type: ignore[union-attr]
    assert state is not None
    assert (state.generation, state.sources, len(state.made_from)) == (3, (), 1)


def test_it_stands_with_the_tables_that_it_was_made_from_and_is_dropped(lake: Lake, engine: Ids) -> None:
    run(lake, engine, source(), made_by("last", "base"))
    standing = standing_of(lake.table("last").state, None)
    assert (standing.source_text, standing.behind, standing.source) == ("sql of base", None, None)
    drop(lake.storage, plan_drop(lake.storage, "last"))
    assert lake.tables() == ["base"]


def test_text_is_a_type_that_it_can_have(lake: Lake, engine: Ids) -> None:
    engine.columns = Struct((Field("id", Text()),))
    run(lake, engine, source(), made_by("last", "base"))
    assert ids(lake, "last") == ["0", "1", "2", "3"]
