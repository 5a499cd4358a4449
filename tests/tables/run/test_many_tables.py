"""Many tables of one run: in order, each by itself, the small ones without an engine and without a listing each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import SettingError, UnexpectedError
from singerlake.lake import Lake
from singerlake.tables import project as many_tables
from singerlake.tables.declaration.streams import everything, resolve
from singerlake.tables.project import plan_tables, run_tables
from singerlake.tables.run.one_table import TableResult, TableRunner
from singerlake.tables.run.plan import TablePlan
from singerlake.work.engine import Engine, Threads
from tests.lakes import build_stream

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
NAMES = [f"s{number}" for number in range(6)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Six streams of which the first has no key and the last no message."""
    lake = Lake.open(str(tmp_path / "lake"))
    for name in NAMES:
        keys = () if name == NAMES[0] else ("id",)
        records = [] if name == NAMES[-1] else [{"id": number % 3} for number in range(7)]
        build_stream(lake, "t", name, SCHEMA, records, key_properties=keys)
    return lake


def run(lake: Lake, engine: Callable[[int], Engine] | None = None, **more: Any) -> list[TableResult]:
    found, failed = resolve([everything()], {"t": lake.streams("t")})
    assert failed == []
    return list(run_tables(lake.table_runner(engine), found, **more))


def rows(results: Iterable[TableResult]) -> list[int | None]:
    return [each.outcome.state.rows if each.outcome and each.outcome.state else None for each in results]


def unused(size: int) -> Engine:
    raise AssertionError(f"an engine for {size} bytes")


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("together", [False, True])
def test_each_table_is_told_in_its_order(
    lake: Lake, together: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_tables, "THREADS", threads)
    results = run(lake, together=together)
    assert [each.declaration.name for each in results] == NAMES
    assert rows(results) == [7, 3, 3, 3, 3, None]
    again = run(lake, unused, together=together)
    assert [each.outcome.run if each.outcome else None for each in again] == [None] * 6
    assert rows(again) == [7, 3, 3, 3, 3, None]


def test_small_tables_need_no_engine(lake: Lake) -> None:
    assert rows(run(lake, unused, together=True)) == [7, 3, 3, 3, 3, None]


def test_others_are_made_by_the_engine_and_told_before(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_tables, "SMALL_BYTES", 0)
    began: list[str] = []
    sizes: list[int] = []

    def engine(size: int) -> Engine:
        sizes.append(size)
        return Threads(lake.storage)

    def told(plan: TablePlan) -> None:
        began.append(plan.declaration.name)

    assert rows(run(lake, engine, together=True, began=told)) == [7, 3, 3, 3, 3, None]
    assert began == NAMES[:-1]
    assert len(sizes) >= len(began)


def test_a_table_that_grew_large_is_not_made_beside_others(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = run(lake, together=True)[1].outcome
    assert stored is not None
    assert stored.state is not None
    build_stream(lake, "t", NAMES[1], SCHEMA, [{"id": 9}], key_properties=("id",))
    monkeypatch.setattr(many_tables, "SMALL_BYTES", stored.state.bytes)
    asked = [str(each.error.__cause__) for each in run(lake, unused, together=True) if each.error]
    assert len(asked) == 1
    assert asked[0].startswith("an engine for")


def test_the_streams_of_a_tap_are_not_listed_for_each_table(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = resolve([everything()], {"t": lake.streams("t")})
    asked: list[str] = []

    def listed(self: object, prefix: str) -> Iterator[str]:
        asked.append(prefix)
        raise AssertionError(f"lists {prefix}")

    monkeypatch.setattr(type(lake.storage), "list_folder", listed)
    runner = lake.table_runner()
    assert [each.error for each in plan_tables(runner, found)] == [None] * 6
    assert rows(run_tables(runner, found)) == [7, 3, 3, 3, 3, None]
    assert asked == []


def test_an_error_of_one_table_is_its_own(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_tables, "SMALL_BYTES", 0)
    made: list[int] = []

    def engine(size: int) -> Engine:
        made.append(size)
        if len(made) == 1:
            raise SettingError("no engine", hint="get one")
        return Threads(lake.storage)

    results = run(lake, engine)
    assert [each.error.kind if each.error else None for each in results] == ["setting", None, None, None, None, None]
    assert rows(results) == [None, 3, 3, 3, 3, None]
    assert rows(run(lake)) == [7, 3, 3, 3, 3, None]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("step", ["_plan", "run"])
def test_an_exception_that_nothing_expects_ends_no_other_table(
    lake: Lake, step: str, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    where: Any = many_tables if step == "_plan" else TableRunner
    real = getattr(where, step)

    def broken(*given: Any, **more: Any) -> Any:
        meant = [getattr(each, "declaration", each) for each in given]
        if any(getattr(each, "name", None) == NAMES[2] for each in meant):
            raise ArithmeticError("a record of somebody: 4711")
        return real(*given, **more)

    monkeypatch.setattr(where, step, broken)
    results = run(lake, together=together)
    assert rows(results) == [7, 3, None, 3, 3, None]
    failed = results[2].error
    assert isinstance(failed, UnexpectedError)
    assert isinstance(failed.__cause__, ArithmeticError)
    assert str(failed).startswith("ArithmeticError was raised")
    assert NAMES[2] in str(failed)
    assert "4711" not in str(failed)
