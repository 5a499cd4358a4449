"""What a run counts as new, changed and gone, and which records it keeps without a row."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import pytest

from singerlake.conditions import named_condition_of
from singerlake.lake import Lake
from singerlake.tables.declaration.model import Action, Check, ColumnRule, Deletions, Keep, TableDeclaration
from singerlake.tables.read import LakeTable
from tests.lakes import activate_version_line, build_stream, record_line
from tests.tables.tables import STREAM, TABLE, TAP, memory_lake, runner_of, small_sizes

SCHEMA = {"properties": {"id": {"type": "integer"}, "n": {"type": "integer"}, "op": {"type": ["null", "string"]}}}
Counts = tuple[int, int, int]


class Table:
    """A table whose runs are counted."""

    def __init__(self, **declared: Any) -> None:
        self.lake: Lake = memory_lake()
        deleted = named_condition_of("op = 'D'")
        self.declared = TableDeclaration(name=TABLE, tap=TAP, stream=STREAM, deleted_when=deleted, **declared)

    def run(self, *messages: tuple[int, ...] | bytes) -> Counts:
        """The counts of a run over records ``(id, n)``, or ``(id, n, 1)`` of a deletion."""
        lines = [each if isinstance(each, bytes) else _line(*each) for each in messages]
        build_stream(self.lake, TAP, STREAM, SCHEMA, lines, key_properties=["id"], member_size=1)
        run = runner_of(self.lake).run(self.declared).run
        assert run is not None
        return run.inserted, run.updated, run.deleted

    @property
    def hidden(self) -> int:
        """Records that are kept without a row."""
        files = LakeTable.load(self.lake.storage, TABLE).state.files
        return sum(file.hidden.rows for file in files if file.hidden is not None)


def _line(id: int, n: int, deleted: int = 0) -> bytes:
    record = {"id": id, "n": n, "op": "D" if deleted else None}
    return record_line(STREAM, record, version=1, time_extracted=f"2026-01-01T00:00:{n:02}Z")


layouts = pytest.mark.parametrize("sort_by", [(), ("n",)], ids=["by key", "sorted"])


@layouts
def test_counts_of_latest(sort_by: tuple[str, ...]) -> None:
    table = Table(sort_by=sort_by)
    assert table.run((1, 1), (2, 1), (3, 1)) == (3, 0, 0)
    assert table.run((1, 2), (2, 2, 1), (4, 2), (4, 3)) == (1, 1, 1)
    assert table.run((2, 4)) == (1, 0, 0)
    assert table.run((9, 5, 1)) == (0, 0, 0)
    assert table.run((3, 6)) == (0, 1, 0)
    assert table.hidden == 0
    assert table.run(activate_version_line(STREAM, 2)) == (0, 0, 4)


@layouts
def test_counts_of_latest_with_an_order(sort_by: tuple[str, ...]) -> None:
    table = Table(sort_by=sort_by, order_by=("n",))
    assert table.run((1, 1), (2, 1)) == (2, 0, 0)
    assert table.run((2, 5, 1), (1, 0)) == (0, 0, 1)
    assert table.hidden == 1
    # It loses against the deletion, and the next one wins.
    assert table.run((2, 4)) == (0, 0, 0)
    assert table.run((2, 6), (1, 2)) == (1, 1, 0)
    assert table.hidden == 0


@layouts
def test_counts_of_history(sort_by: tuple[str, ...]) -> None:
    table = Table(sort_by=sort_by, keep=Keep.HISTORY)
    assert table.run((1, 1), (2, 1), (3, 1)) == (3, 0, 0)
    assert table.run((1, 2), (2, 2, 1), (3, 1)) == (1, 2, 0)
    assert table.run((2, 3), (2, 4), (5, 4, 1)) == (2, 0, 0)
    assert table.hidden == 0


def test_ends_that_an_activation_made_do_not_count_again() -> None:
    table = Table(keep=Keep.HISTORY, order_by=("n",))
    assert table.run((1, 1), (2, 1), (3, 2, 1)) == (2, 0, 0)
    assert table.hidden == 1
    # The deletion needs no end.
    assert table.run(activate_version_line(STREAM, 2)) == (0, 2, 0)
    assert table.hidden == 3
    assert table.run((1, 5), (2, 5)) == (2, 0, 0)
    assert table.run((1, 6)) == (1, 1, 0)


def test_counts_of_rows_that_stay() -> None:
    table = Table(deletions=Deletions.SOFT)
    assert table.run((1, 1), (2, 1)) == (2, 0, 0)
    assert table.run((1, 2, 1)) == (0, 1, 0)
    assert table.run(activate_version_line(STREAM, 2)) == (0, 0, 1)
    assert table.run(activate_version_line(STREAM, 3)) == (0, 0, 0)


def test_a_key_with_nothing_but_deletions_is_not_kept_beside_one_that_goes_on() -> None:
    table = Table(keep=Keep.HISTORY)
    deletion = record_line(STREAM, {"id": 2, "n": 1, "op": "D"}, version=2)
    assert table.run((1, 1), deletion) == (1, 0, 0)
    assert table.hidden == 0


def test_the_end_that_an_activation_makes_has_no_zone_where_the_order_has_none() -> None:
    schema = {"properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}}
    lake = memory_lake()
    line = record_line(STREAM, {"id": 1, "at": "2026-01-01T05:00:00+05:00"}, time_extracted="2026-01-02T00:00:00Z")
    build_stream(lake, TAP, STREAM, schema, [line, activate_version_line(STREAM, 2)], key_properties=["id"])
    columns = {"at": ColumnRule(cast="local_timestamp")}
    declared = TableDeclaration(
        name=TABLE, tap=TAP, stream=STREAM, keep=Keep.HISTORY, order_by=("at",), columns=columns
    )
    runner_of(lake).run(declared)
    (row,) = LakeTable.load(lake.storage, TABLE).to_arrow().read_all().to_pylist()
    assert (row["_valid_from"], row["_valid_to"]) == (datetime(2026, 1, 1), datetime(2026, 1, 2))


def test_an_activation_sends_no_row_of_its_own_version_away_however_often_it_comes() -> None:
    table = Table(deletions=Deletions.SOFT)
    again = activate_version_line(STREAM, 1)
    assert table.run((1, 1), again, again, (2, 2)) == (2, 0, 0)
    assert table.run(again, again) == (0, 0, 0)


@pytest.mark.parametrize("deletions", Deletions)
def test_a_record_without_a_version_is_of_no_version_even_0(deletions: Deletions) -> None:
    table = Table(deletions=deletions)
    assert table.run(record_line(STREAM, {"id": 1})) == (1, 0, 0)
    assert table.run(activate_version_line(STREAM, 0)) == (0, 0, 1)


def test_a_table_is_made_anew_for_an_older_version_in_force_alone() -> None:
    """A record without a version has that of the ACTIVATE_VERSION before it, in whichever task it is read."""
    first, bare, again = _line(1, 1), record_line(STREAM, {"id": 2, "n": 2}), activate_version_line(STREAM, 1)
    for size in (1, 1 << 20):
        newer = _line(1, 3)
        runs = (((newer,), "run"), ((again, bare), "run"), ((bare, again), "rebuild"), ((bare,), "rebuild"))
        for messages, kind in runs:
            with small_sizes({"split": size}):
                table = Table()
                table.run(first)
                table.run(*messages)
            assert LakeTable.load(table.lake.storage, TABLE).state.runs[-1].kind == kind


def test_an_activation_of_an_older_version_sends_rows_of_newer_ones_away() -> None:
    table = Table(keep=Keep.APPEND)
    assert table.run((1, 1), record_line(STREAM, {"id": 2}, version=2)) == (2, 0, 0)
    assert table.run(activate_version_line(STREAM, 1)) == (0, 0, 1)


def test_only_values_that_are_there_twice_fail_a_unique_check() -> None:
    unique = (Check("x", "unique", None, Action.WARN),)
    schema = {"properties": {"id": {"type": "integer"}, "x": {"type": ["null", "number"]}}}
    lake = memory_lake()
    records = [{"id": id, "x": x} for id, x in enumerate([1, None, 2, None, math.nan, math.nan, -0.0, 0.0])]
    build_stream(lake, TAP, STREAM, schema, records, key_properties=["id"])
    declared = TableDeclaration(name=TABLE, tap=TAP, stream=STREAM, checks=unique)
    run = runner_of(lake).run(declared).run
    assert run is not None
    # One NaN, and one zero, beside another.
    assert run.checks == {"x unique": 2}


@pytest.mark.parametrize(("condition", "left"), [("n null", [1, 3]), ("n not null", [2, 3])])
def test_a_value_that_does_not_fit_tells_no_deletion(condition: str, left: list[int]) -> None:
    lake = memory_lake()
    records: list[dict[str, Any]] = [{"id": 1, "n": 1}, {"id": 2, "n": None}, {"id": 3, "n": "one"}]
    build_stream(lake, TAP, STREAM, SCHEMA, records, key_properties=["id"])
    deleted = named_condition_of(condition)
    run = runner_of(lake).run(TableDeclaration(name=TABLE, tap=TAP, stream=STREAM, deleted_when=deleted)).run
    assert run is not None
    assert run.checks == {"n fits its type": 1}
    assert LakeTable.load(lake.storage, TABLE).to_arrow().read_all().column("id").to_pylist() == left
