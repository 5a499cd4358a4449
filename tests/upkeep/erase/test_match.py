"""Which lines hold a record that is meant: the fast way and plain Python agree on all that a lake holds."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest

from singerlake.conditions import Condition, Reading, parse_condition
from singerlake.upkeep.erase.find import FindMessages
from singerlake.upkeep.erase.match import OfRun, Ready, RecordMatcher


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
        ("a < 'x'", {"a": "w"}, True),
        ("a < 'x'", {"a": 1}, False),
        ("a < 10", {"a": "9"}, False),
        ("a < 10", {"a": True}, False),
        ("a[*] < 10", {"a": [11, 9]}, True),
        ("a >= 1 and a < 2", {"a": 1.5}, True),
        ("a != 'x'", {"a": "y"}, True),
        ("a != 'x'", {"a": 1}, False),
        ("a != 'x'", {"a": ["y"]}, False),
        ("a != 'x'", {}, False),
        ("a not in ('x', 1)", {"a": 2}, True),
        ("a not in ('x', 1)", {"a": 1.0}, False),
        ("a not in ('x', 1)", {"a": True}, False),
        ("a not null", {"a": []}, True),
        ("a.b null and m = 1", {"a": {}, "m": 1}, True),
        ("a.b null and m = 1", {"a": {"b": None}, "m": 1}, True),
        ("a.b null and m = 1", {"a": "text", "m": 1}, False),
        ("a.b null and m = 1", {"a": {"b": False}, "m": 1}, False),
        ("a.b null and m = 1", {"m": 1}, True),
        ("a[*].b null", {"a": [{}]}, True),
        ("a[*].b null", {"a": []}, False),
        ("a[*] null", {}, False),
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
        ("a null", b"1e1000000000000000000", False),
        ("a > 7", b"1e1000000000000000000", False),
        ("a != 7", b"7.00000000000000000001", True),
        ("a > 7", b"7.00000000000000000001", True),
        ("a < 7", b"7.00000000000000000001", False),
        ("a not in (7, 8)", b"1e400", True),
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
        b'{"type":"RECORD","record":null}',
        b'{"type":"RECORD"}',
        b'{"type":["RECORD"],"record":{"a":"x"}}',
    ],
)
def test_only_records_are_found(line: bytes) -> None:
    assert hits("a = 'x'", line, {"a": "x"}) == [1]
    assert hits("b null", line, {"a": "x"})[-1:] == [1]


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


@pytest.mark.parametrize(
    ("reading", "where", "value", "holds"),
    [
        ("time", "a < '2020-01-01T00:00:00Z'", "2019-12-31T23:30:00-02:00", False),
        ("time", "a < '2020-01-01T00:00:00Z'", "2020-01-01T00:30:00+01:00", True),
        ("time", "a = '2020-01-01T00:00:00Z'", "2020-01-01 01:00:00.000+01", True),
        ("time", "a != '2020-01-01T00:00:00Z'", "2020-01-01t00:00z", False),
        ("time", "a = '2020-01-01T00:00:00.0000001Z'", "2020-01-01T00:00:00Z", False),
        ("time", "a = '2020-01-01T00:00:00.0000001Z'", "2020-01-01T00:00:00.0000001Z", True),
        ("time", "a = '2020-01-01T00:00:00Z'", "2020-01-01T00:00:00.0000001Z", False),
        ("time", "a <= '2020-01-01T00:00:00Z'", "1999", False),
        ("time", "a != '2020-01-01T00:00:00Z'", "n/a", False),
        ("time", "a in ('n/a', '2020-01-01T00:00:00Z')", "n/a", True),
        ("time", "a < 'now'", "2020-01-01T00:00:00Z", False),
        ("date", "a < '2020-01-01'", "1/2/2019", False),
        ("date", "a < '2020-01-01'", "2019-02-30", False),
        ("date", "a < '2020-01-01'", "2019-02-28", True),
        ("number", "a < 10", "9.50", True),
        ("number", "a < 10", "n/a", False),
        ("number", "a = 9.5", "+09.50", True),
        ("number", "a = '9.5'", "9.50", False),
        ("number", "a > '10'", "9.50", False),
        ("number", "a >= 9.5", 9.5, True),
        ("text", "a > '10'", "9.50", True),
    ],
)
def test_a_text_is_compared_as_what_it_is_declared_to_be(reading: Reading, where: str, value: Any, holds: bool) -> None:
    (test,) = parse_condition(where, str).tests
    matcher = RecordMatcher(Condition((replace(test, reading=reading),)))
    assert list(matcher(lines({"b": value}, {"a": value}, {"a": None})).lines) == [1] * holds
