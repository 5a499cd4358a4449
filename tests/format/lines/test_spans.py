"""Where members stand in a line: what is cut out is what Python's own parser reads there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.lines.spans import members, span

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(max_size=3), VALUES, max_size=4),
    st.booleans(),
    st.sampled_from([None, 1]),
)
def test_each_member_is_found_in_its_bytes(record: dict[str, Any], ascii: bool, indent: int | None) -> None:
    message = {"type": "RECORD", "record": record, "stream": "s"}
    try:
        line = json.dumps(message, ensure_ascii=ascii, indent=indent).encode()
    except UnicodeEncodeError:
        return
    for name, value in record.items():
        found = span(line, "record", name)
        assert found is not None
        assert repr(json.loads(line[found[0] : found[1]])) == repr(value)
    assert span(line, "record", "nobody's") is None
    assert span(line, "stream", "s") is None
    assert span(line, "record") is not None


@pytest.mark.parametrize(
    ("line", "path", "text"),
    [
        (b'{"a":1,"a":2}', ("a",), b"2"),
        (b'{"a":{"b":1},"a":{"b":3}}', ("a", "b"), b"3"),
        (b' { "\\u0061" : "\xc3\xa9" , "b" : 1 } ', ("b",), b"1"),
        (b'{"a":"\\ud800","b":NaN}', ("b",), b"NaN"),
        (b'{"a":%s,"b":-0.0}' % (b"9" * 5000), ("b",), b"-0.0"),
        (b'{"a":%s1%s,"b":[ ]}' % (b"[" * 2900, b"]" * 2900), ("b",), b"[ ]"),
    ],
)
def test_odd_lines(line: bytes, path: tuple[str, ...], text: bytes) -> None:
    found = span(line, *path)
    assert found is not None
    assert line[found[0] : found[1]] == text


def test_an_empty_object_has_none() -> None:
    assert list(members(" { } ")) == []
    assert span(b"{}", "a") is None
