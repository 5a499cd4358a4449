"""Which lines hold a record that is meant: the fast way and plain Python agree on all that a lake holds."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.upkeep.erase.condition import Condition, OfRun, Test, parse_condition
from singerlake.upkeep.erase.find import FindMessages
from singerlake.upkeep.erase.match import RecordMatcher
from singerlake.upkeep.erase.matcher_cache import Ready


def lines(*records: Any) -> bytes:
    return b"".join(
        record + b"\n"
        if isinstance(record, bytes)
        else json.dumps({"type": "RECORD", "record": record}).encode() + b"\n"
        for record in records
    )


def hits(where: str, *records: Any, **files: str) -> list[int]:
    return list(RecordMatcher(parse_condition(where, lambda name: files[name]))(lines(*records)).lines)


@pytest.mark.parametrize(
    ("where", "record", "holds"),
    [
        ("a = 'x'", {"a": "x"}, True),
        ("a = 'x'", {"a": "X"}, False),
        ("a = 'x'", {"b": "x"}, False),
        ("a = 'x'", {"a": ["x"]}, False),
        ("a = 'x'", {"a": {"a": "x"}}, False),
        ("a = 'x'", {"a": None}, False),
        ("a[*] = 'x'", {"a": ["y", "x"]}, True),
        ("a[*] = 'x'", {"a": "x"}, False),
        ("a[*].b = 'x'", {"a": [1, {"b": "x"}]}, True),
        ("a[*].b[*] = 1", {"a": [{"b": [3]}, {"b": [2, 1]}]}, True),
        ("a.b = 'x'", {"a": {"b": "x"}}, True),
        ("a.b = 'x'", {"a": "x"}, False),
        ("a.b = 'x' and a.c = 1", {"a": {"b": "x", "c": 1}}, True),
        ("a.b = 'x' and a.c = 1", {"a": {"b": "x", "c": 2}}, False),
        ("a = 'x' and a.b = 1", {"a": "x"}, False),
        ("a.b = 1 and a[*] = 2", {"a": {"b": 1}}, False),
        ("a = 1", {"a": 1}, True),
        ("a = 1", {"a": 1.0}, True),
        ("a = 1", {"a": "1"}, False),
        ("a = 1", {"a": True}, False),
        ("a = true", {"a": True}, True),
        ("a = true", {"a": 1}, False),
        ("a = false", {"a": 0}, False),
        ("a = '1'", {"a": 1}, False),
        ("a = 0.1", {"a": 0.1}, True),
        ("a in (0.1, 0.2)", {"a": 0.2}, True),
        ("a = 12345678901234567890123", {"a": 12345678901234567890123}, True),
        ("a = 9007199254740993", {"a": 9007199254740992}, False),
        ('"f0" = 1', {"f0": 1}, True),
        ('"__names__" = 1', {"__names__": 1}, True),
        ('"" = 1', {"": 1}, True),
        ('"self.b" = 1', {"self.b": 1}, True),
        ('"with \\"quotes\\"" = 1', {'with "quotes"': 1}, True),
        ('"a\\\\b".c = 1', {"a\\b": {"c": 1}}, True),
        ('a."\\u0000" = 1', {"a": {"\0": 1}}, True),
        ('a."\\ud800" = 1 and a.b = 2', {"a": {"\ud800": 1, "b": 2}}, True),
        ('"\\t" = 1 and a.b = 2', {"\t": 1, "a": {"b": 3}}, False),
        ("a == 1", {"a": 1}, True),
        ("a = 'é'", {"a": "é"}, True),
        ("a = 'é'", {"a": "e\u0301"}, False),
    ],
)
def test_what_holds(where: str, record: Any, holds: bool) -> None:
    others = [{"other": 1}, {"a": None, "f0": None}]
    assert hits(where, *others, record, *others) == ([2] if holds else [])


@pytest.mark.parametrize(
    ("where", "number", "holds"),
    [
        ("a = 12345678901234567.89", b"12345678901234567.89", True),
        ("a = 12345678901234568", b"12345678901234567.89", False),
        ("a = 9007199254740992", b"9007199254740993.0", False),
        ("a = 1", b"1.00000000000000000001", False),
        ("a[*] = 1", b"[1.00000000000000000001]", False),
        ("a[*] = 0.12345678901234567891", b"[0.12345678901234567891]", True),
        ("a = 1e400", b"1e400", True),
        ("a = 0", b"-0.0e5", True),
        ("a = 1", b"1e1000000000000000000", False),
    ],
)
@pytest.mark.parametrize("beside", [b"", b',"n":NaN'], ids=["fast", "line by line"])
def test_numbers_are_compared_to_their_last_digit(where: str, number: bytes, holds: bool, beside: bytes) -> None:
    line = b'{"type":"RECORD","record":{"a":%s%s}}' % (number, beside)
    assert hits(where, {"a": 7}, line) == ([1] if holds else [])


@pytest.mark.parametrize("name", ['say "a"', "back\\slash", "a\nb", "\0", "\ud800"])
@pytest.mark.parametrize("path", ["{}", "a.{}.b", "{}.b", "a[*].{}"])
def test_any_name_can_be_asked_for(name: str, path: str) -> None:
    names = path.replace("[*]", "").format("name").split(".")
    record: Any = "x"
    for each in reversed(names):
        record = {name if each == "name" else each: record}
    if "[*]" in path:
        record["a"] = [record["a"]]
    assert hits(f"{path.format(json.dumps(name))} = 'x' and c = 1", {"a": "x"}, {**record, "c": 1}, record) == [1]


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"RECORD","record":{"n":NaN,"a":"x"}}',
        b'{"type":"RECORD","record":{"n":[NaN,1e1000000000000000000],"a":"x"}}',
        b'{"type":"RECORD","record":{"n":"\\ud800","a":"x"}}',
        b'{"type":"RECORD","record":{"n":1e400,"a":"x"}}',
        b'{"type":"RECORD","record":{"n":%s,"a":"x"}}' % (b"9" * 5000),
        b'{"type":"RECORD","record":{"n":%s,"a":"x"}}' % (b"[" * 2900 + b"]" * 2900),
        b' {"type":"RECORD","record":{"a":"x"}}\r',
        b'{"type":"RECORD","record":{"\\u0061":"\\u0078"}}',
        b'{"type":"RECORD","record":{"a":"y","a":"x"}}',
        b'{"record":{"a":"x"},"type":"RECORD"}',
        b'{"ty\\u0070e":"REC\\u004fRD","record":{"a":"x"}}',
        b'{"type":"RECORD","record":{"a":"y"},"record":{"a":"x"}}',
    ],
)
def test_a_line_that_few_programs_write_is_found_beside_others(line: bytes) -> None:
    assert hits("a = 'x'", {"a": "y"}, line, {"a": "x"}) == [1, 2]


@pytest.mark.parametrize(
    ("where", "number", "holds"),
    [
        ("a = 12345678901234567890.5", b"12345678901234567890.5", True),
        ("a = 12345678901234567890.5", b"1234567890123456789050e-2", True),
        ("a = 9007199254740993.0", b"9007199254740993.0", True),
        ("a = 9007199254740992", b"9007199254740993.0", False),
        ("a = 1", b"1.0000000000000000000001", False),
        ("a = 0.1", b"0.1000000000000000055511151231257827", False),
        ("a = 0", b"1e-400", False),
        ("a = 1e400", b"1E+400", True),
        ("a = 1e400", b"1e401", False),
        ("a = 0", b"-0.0", True),
        ("a = 0", b"0e99999999999999999999", True),
        ("a = 1", b"1e99999999999999999999", False),
        ("a = 0", b"1e-99999999999999999999", False),
        ("a = 1", b"Infinity", False),
    ],
)
def test_a_number_is_the_one_that_is_written_and_not_its_nearest_double(where: str, number: bytes, holds: bool) -> None:
    line = b'{"type":"RECORD","record":{"a":%s}}' % number
    nested = b'{"type":"RECORD","record":{"b":[{"a":%s}]}}' % number
    odd = b'{"type":"RECORD","record":{"n":NaN,"a":%s}}' % number
    assert hits(where, {"b": 1}, line, odd) == ([1, 2] if holds else [])
    assert hits(f"b[*].{where}", {"b": 1}, nested) == ([1] if holds else [])


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"ACTIVATE_VERSION","record":{"a":"x"}}',
        b'{"type":"SCHEMA","record":{"a":"x"}}',
        b'{"type":"ERASED"}',
        b'{"type":"RECORD","record":{"a":"x","a":"y"}}',
        b'{"type":"RECORD","record":"x"}',
        b'{"type":["RECORD"],"record":{"a":"x"}}',
    ],
)
def test_only_records_are_found(line: bytes) -> None:
    assert hits("a = 'x'", line, {"a": "x"}) == [1]


@pytest.mark.parametrize("line", [b"3", b"[]", b"{", b"\xff", b'"a"'])
def test_a_line_that_is_no_object_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON object|Expecting|codec"):
        hits("a = 'x'", {"a": "x"}, line)


def test_values_that_some_record_holds_are_told() -> None:
    matcher = RecordMatcher(parse_condition("a in ('x', 'y') and b in @ids", {"ids": "7\n8\nz"}.__getitem__))
    found = matcher(lines({"a": "x", "b": "7"}, {"a": "y", "b": "none"}, {"a": "x", "b": 8.0}))
    assert (list(found.lines), found.entries) == ([0, 2], {0, 2, 3})


def test_a_value_that_is_named_twice_is_held_twice() -> None:
    matcher = RecordMatcher(parse_condition("a in @keys", {"keys": "1\n1.0\nx\nx\n01\n"}.__getitem__))
    assert matcher(lines({"a": "x"})).entries == {2, 3}
    assert matcher(lines({"a": 1})).entries == {0, 1}
    assert matcher(lines({"a": "1"})).entries == {0}


def test_the_task_finds_the_same_in_another_process() -> None:
    task = FindMessages(Ready(parse_condition("a.b = 1", lambda name: name)))
    again = pickle.loads(pickle.dumps(task))
    assert again.ready.matcher()(lines({"a": {"b": 1}})).lines == [0]


def test_what_travels_often_is_unpacked_once() -> None:
    task = FindMessages(Ready(parse_condition("a = 'once'", lambda name: name)))
    first, second = (pickle.loads(pickle.dumps(task)) for _ in range(2))
    assert first.ready is second.ready
    others = [Ready(parse_condition(f"a = {number}", str)) for number in range(9)]
    assert [pickle.loads(pickle.dumps(each)).meant for each in others] == [each.meant for each in others]
    assert pickle.loads(pickle.dumps(Ready(OfRun("r")))).meant == OfRun("r")


scalars = st.sampled_from(["x", "y", "1", 1, 1.0, 0.1, True, False, None, 2**70, -1])
trees = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "f0", ""]), inner, max_size=3)
    ),
    max_leaves=8,
)
records = st.dictionaries(st.sampled_from(["a", "b", "f0", ""]), trees, max_size=3)
steps = st.sampled_from(["a", "b", "f0", "", None])
wanted = st.lists(st.sampled_from(["x", "1", Decimal(1), Decimal("0.1"), True, Decimal(2**70)]), min_size=1, max_size=3)


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    tests = []
    for _ in range(draw(st.integers(1, 3))):
        path = (draw(st.sampled_from(["a", "b", "f0", ""])), *draw(st.lists(steps, max_size=2)))
        tests.append(Test(path, tuple((value, at) for at, value in enumerate(draw(wanted)))))
    return Condition(tuple(tests))


def means(test: Test, value: Any, path: tuple[str | None, ...]) -> bool:
    """The condition in plain Python."""
    if path:
        step, rest = path[0], path[1:]
        if step is None:
            return isinstance(value, list) and any(means(test, each, rest) for each in value)
        return isinstance(value, dict) and step in value and means(test, value[step], rest)
    if isinstance(value, bool | str) or value is None:
        return any(type(each) is type(value) and each == value for each, _ in test.values)
    if not isinstance(value, int | float):
        return False
    return any(isinstance(each, Decimal) and each == Decimal(repr(value)) for each, _ in test.values)


@given(conditions(), st.lists(records, max_size=6), st.booleans())
def test_it_agrees_with_plain_python(condition: Condition, given: list[dict[str, Any]], odd: bool) -> None:
    text = lines(*given) + (lines(b'{"type":"RECORD","record":{"n":NaN}}') if odd else b"")
    expected = [
        at for at, record in enumerate(given) if all(means(test, record, test.path) for test in condition.tests)
    ]
    assert list(RecordMatcher(condition)(text).lines) == expected
