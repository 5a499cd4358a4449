"""Two captures of one source, compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import UnknownNameError
from singerlake.lake import Lake
from singerlake.tables.compare.taps import EXAMPLES, CompareResult, StreamComparison
from tests.lakes import build_stream
from tests.tables.compare.lakes import SCHEMA, TEN, add, captured, contents
from tests.tables.tables import STREAM, TAP, memory_lake

OTHER = "tap-2"


def both(one: Sequence[Any], other: Sequence[Any], schema: Any = SCHEMA, **options: Any) -> Lake:
    """A lake with two captures; ``schema`` is that of the second one."""
    lake = captured(one, **options)
    add(lake, other, tap=OTHER, schema=schema, **options)
    return lake


def compared(lake: Lake, **options: Any) -> StreamComparison:
    found = lake.compare(TAP, OTHER, **options)
    assert found.failed == ()
    (one,) = found.streams
    assert one.same == found.same
    return one


def counts(one: StreamComparison) -> tuple[int, int, int]:
    return one.only_first, one.only_second, one.changed


RECORDS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["a", "b"])), min_size=1, max_size=8)


@given(one=RECORDS, other=RECORDS)
def test_it_is_what_the_last_records_of_each_key_say(one: list[tuple[int, str]], other: list[tuple[int, str]]) -> None:
    lake = both(*([{"id": id, "name": name} for id, name in each] for each in (one, other)))
    first, second = dict(one), dict(other)
    found = compared(lake)
    changed = [id for id in first.keys() & second.keys() if first[id] != second[id]]
    assert counts(found) == (len(first.keys() - second.keys()), len(second.keys() - first.keys()), len(changed))
    assert found.rows == (len(first), len(second))
    assert found.columns == ({"name": len(changed)} if changed else {})
    assert found.same == (first == second)


def test_the_same_twice_does_not_differ_and_nothing_is_written() -> None:
    lake = both(TEN, TEN)
    before = contents(lake)
    found = lake.compare(TAP, OTHER)
    assert found.same
    assert (found.streams[0].schema, found.streams[0].examples) == (None, ())
    assert contents(lake) == before


def test_the_order_in_which_records_came_does_not_count() -> None:
    assert compared(both(TEN[6:], [*reversed(TEN[6:])])).same


def test_a_type_that_is_another_one_is_told_and_its_values_are_compared() -> None:
    wider = {"type": "object", "properties": {"id": {"type": "number"}, "name": {"type": "string"}}}
    found = compared(both([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], [{"id": 1.0, "name": "a"}], wider))
    assert counts(found) == (1, 0, 0)
    assert found.schema is not None
    assert [each.before.path for each in found.schema.changed] == ["id"]


def test_a_column_that_one_alone_has_counts_where_it_has_values() -> None:
    more = {"type": "object", "properties": {**SCHEMA["properties"], "age": {"type": "integer"}}}
    found = compared(both(TEN[:2], [{**TEN[0], "age": 5}, TEN[1]], more))
    assert (counts(found), found.columns) == ((0, 0, 1), {"age": 1})
    assert found.schema is not None
    assert [each.path for each in found.schema.added] == ["age"]


def test_json_counts_by_its_value() -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "any": {}}}
    lake = captured([b'{"type":"RECORD","stream":"s","record":{"id":1,"any":{"a":1,"b":2}}}'], schema=schema)
    add(lake, [b'{"type":"RECORD","stream":"s","record":{"id":1,"any":{"b": 2, "a": 1}}}'], tap=OTHER, schema=schema)
    assert compared(lake).same


def test_every_kind_of_difference_has_its_examples() -> None:
    many = [{"id": n, "name": "a"} for n in range(100)]
    found = compared(both(many[:60], [{**row, "name": "b"} for row in many[40:]]))
    assert counts(found) == (40, 40, 20)
    whats = [row.what for row in found.examples]
    assert {what: whats.count(what) for what in whats} == dict.fromkeys(("deleted", "changed", "inserted"), EXAMPLES)


def test_the_key_is_that_of_either_or_is_named() -> None:
    lake = captured(TEN[:4], key_properties=())
    add(lake, TEN[:4], tap=OTHER)
    assert compared(lake).key == ("id",)
    assert compared(lake, key=["name"]).rows == (4, 4)


def test_a_record_without_the_key_is_counted_and_left_out() -> None:
    found = compared(both([*TEN[:2], {"name": "x"}], TEN[:2]))
    assert (counts(found), found.without_key, found.same) == ((0, 0, 0), (1, 0), False)


def failure(found: CompareResult) -> str:
    (failed,) = found.failed
    assert not found.same
    return str(failed.error)


def test_what_cannot_be_compared_stops_no_other() -> None:
    lake = both(TEN, TEN, key_properties=())
    for tap in (TAP, OTHER):
        build_stream(lake, tap, "u", SCHEMA, TEN, key_properties=("id",))
    found = lake.compare(TAP, OTHER)
    assert "the stream has no key; name its properties" in failure(found)
    assert [(each.stream, each.same) for each in found.streams] == [("u", True)]
    assert "'nme', which is not a property" in failure(lake.compare(TAP, OTHER, STREAM, key=["nme"]))


def test_streams_of_one_tap_alone_are_named() -> None:
    lake = both(TEN, TEN)
    build_stream(lake, TAP, "a", SCHEMA, TEN)
    build_stream(lake, OTHER, "b", SCHEMA, TEN)
    found = lake.compare(TAP, OTHER)
    assert (found.only_first, found.only_second, found.same) == (("a",), ("b",), False)
    assert lake.compare(TAP, OTHER, "s").same
    assert lake.compare(TAP, OTHER, "[s-z]").same


def test_streams_may_have_any_name() -> None:
    lake = memory_lake()
    for tap in (TAP, OTHER):
        for stream in ("../../x", "/x", "nul\0", "\udc80"):
            build_stream(lake, tap, stream, SCHEMA, TEN, key_properties=("id",))
    assert lake.compare(TAP, OTHER).same


@pytest.mark.parametrize(
    ("first", "second", "stream", "message"),
    [
        ("no", OTHER, None, "no tap 'no'"),
        (TAP, "no", None, "no tap 'no'"),
        (TAP, OTHER, "no", "have no stream 'no'; it has: s"),
    ],
)
def test_names_that_are_not_there_are_refused(first: str, second: str, stream: str | None, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        both(TEN, TEN).compare(first, second, stream)
