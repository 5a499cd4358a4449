"""What became of a table's rows between two offsets, against what the two tables hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.tables.compare import counts
from singerlake.tables.compare.counts import RowDifference
from singerlake.tables.declaration.model import Deletions, Keep, TableDeclaration, partition_of
from tests.lakes import activate_version_line, record_line
from tests.tables.compare.lakes import LATEST, TEN, add, captured, contents, run
from tests.tables.tables import STREAM, TABLE, small_sizes


@pytest.fixture(scope="module", autouse=True)
def small_pieces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts, "PIECE", 2)
        yield


def differing(lake: Lake, start: Any, end: Any = None) -> tuple[Any, list[RowDifference]]:
    rows: list[RowDifference] = []
    return lake.diff_table(TABLE, start, end, row=rows.append), rows


def told(rows: list[RowDifference]) -> list[tuple[str, Any, Any, Any]]:
    """What, id, and the names before and after."""
    return [(row.what, row.key["id"], (row.before or {}).get("name"), (row.after or {}).get("name")) for row in rows]


MESSAGES = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["a", "b", None])), min_size=1, max_size=12)


@given(messages=MESSAGES, data=st.data())
def test_it_is_what_the_rows_say(messages: list[tuple[int, str | None]], data: st.DataObject) -> None:
    lake = captured([{"id": id, **({} if name is None else {"name": name})} for id, name in messages])
    run(lake)
    end = data.draw(st.integers(1, len(messages)))
    start = data.draw(st.integers(1, end))
    before, after = dict(messages[:start]), dict(messages[:end])
    with small_sizes({}):
        found, rows = differing(lake, start, end)
    wanted = [
        ("inserted" if id not in before else "changed", id, before.get(id), after[id])
        for id in sorted(after)
        if id not in before or before[id] != after[id]
    ]
    assert told(rows) == wanted
    whats = [what for what, *_ in wanted]
    assert (found.inserted, found.changed, found.deleted) == (whats.count("inserted"), whats.count("changed"), 0)
    assert found.columns == ({"name": found.changed} if found.changed else {})


@pytest.mark.parametrize(
    "declaration",
    [
        LATEST,
        replace(LATEST, keep=Keep.HISTORY),
        replace(LATEST, sort_by=("name",), partition_by=(partition_of("name"),)),
    ],
)
def test_rows_that_went_are_deleted_whatever_the_order_of_the_table(declaration: TableDeclaration) -> None:
    lake = captured([record_line(STREAM, row, version=1) for row in TEN])
    add(lake, [record_line(STREAM, {"id": 1, "name": "new"}, version=2), activate_version_line(STREAM, 2)])
    run(lake, declaration)
    before = contents(lake)
    found, rows = differing(lake, 10)
    assert told(rows) == [
        ("deleted", 0, "n8", None),
        ("changed", 1, "n9", "new"),
        ("deleted", 2, "n6", None),
        ("deleted", 3, "n7", None),
    ]
    assert (found.key, found.from_offset, found.to_offset) == (("id",), 10, 12)
    assert contents(lake) == before


def test_a_soft_deletion_is_a_change() -> None:
    lake = captured([record_line(STREAM, row, version=1) for row in TEN[:1]])
    add(lake, [record_line(STREAM, {"id": 1, "name": "new"}, version=2), activate_version_line(STREAM, 2)])
    run(lake, replace(LATEST, deletions=Deletions.SOFT))
    found, (row, _) = differing(lake, 1)
    assert (found.changed, found.inserted) == (1, 1)
    assert (row.before, row.after) == ({"_deleted": False}, {"_deleted": True})


def test_a_table_of_every_record_has_the_new_records_inserted() -> None:
    lake = captured()
    run(lake, replace(LATEST, keep=Keep.APPEND, metadata=True))
    found, rows = differing(lake, 7, 9)
    assert (found.key, found.inserted, found.changed, found.deleted) == ((), 2, 0, 0)
    assert [row.key for row in rows] == [{"_singerlake_offset": 7}, {"_singerlake_offset": 8}]


def test_a_record_that_came_again_unchanged_is_no_difference() -> None:
    lake = captured([record_line(STREAM, TEN[0], time_extracted=f"2026-01-0{day}T00:00:00Z") for day in (1, 2)])
    run(lake, replace(LATEST, metadata=True))
    found, rows = differing(lake, 1)
    assert (rows, found.changed, found.columns) == ([], 0, {})


def test_both_have_the_columns_and_the_types_of_the_later_one() -> None:
    lake = captured([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    wider = {"type": "object", "properties": {"id": {"type": "number"}, "name": {}, "age": {"type": "number"}}}
    add(lake, [{"id": 2.0, "name": "b", "age": 1.5}], schema=wider)
    run(lake)
    found, rows = differing(lake, 2)
    assert told(rows) == [("changed", 2.0, None, None)]
    assert (rows[0].before, rows[0].after, found.columns) == ({"age": None}, {"age": 1.5}, {"age": 1})


def test_moments_and_offsets_go_together() -> None:
    lake = captured(TEN[:4])
    add(lake, TEN[4:])
    run(lake)
    found, _ = differing(lake, "2026-01-01T00:00:30Z", 9)
    assert (found.from_offset, found.to_offset) == (4, 9)


def test_the_later_moment_first_is_refused() -> None:
    lake = captured()
    run(lake)
    with pytest.raises(SettingError, match="exchange the two"):
        differing(lake, 5, 4)
