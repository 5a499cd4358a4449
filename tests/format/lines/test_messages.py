"""The envelope of a message, however its line is written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.lines.messages import Envelope, envelope, envelopes, is_record_line, is_schema_line

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["type", "stream", "time_extracted", "record", "x"]), JSON))
def test_an_envelope_is_what_json_says_it_is_whatever_stands_beside_it(message: dict[str, object]) -> None:
    line = json.dumps(message).encode("ascii")
    found = envelope(line)
    assert found is not None
    seen = json.dumps([found.type, found.stream, found.time_extracted])
    assert seen == json.dumps([message.get(name) for name in ("type", "stream", "time_extracted")])


@pytest.mark.parametrize("rest", ['"record":{"x":NaN,"n":%s}', '"time_extracted":%s', '"time_extracted":[NaN,%s]'])
def test_a_number_of_any_length_may_stand_in_a_line(rest: str) -> None:
    line = b'{"type":"RECORD","stream":"s",%b}\n' % (rest % ("9" * 5000)).encode()
    found = envelope(line)
    assert found is not None
    assert (found.type, found.stream) == ("RECORD", "s")
    assert is_record_line(line)
    assert envelopes(line) is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"null",
        b"1",
        b'"RECORD"',
        b"{",
        b'{"type":"RECORD"} {}',
        b"\xff",
        b'{"type":"\xff"}',
        b'\xef\xbb\xbf{"type":"SCHEMA"}',
        '{"type":"SCHEMA"}'.encode("utf-16"),
        b"[" * 100_000,
    ],
)
def test_what_is_no_json_object_has_none(line: bytes) -> None:
    assert envelope(line) is None
    assert not is_record_line(line)
    assert not is_schema_line(line)


def test_a_block_is_read_at_once_or_not_at_all() -> None:
    line = b'{"type":"RECORD","stream":"s"}\n'
    assert envelopes(line * 3) == [Envelope("RECORD", "s")] * 3
    for odd in (b'{"x":NaN}\n', b'{"type":"RECORD"} {"type":"RECORD"}\n', b'{"type":\n"RECORD"}\n', b"\n"):
        assert envelopes(line + odd) is None


@pytest.mark.parametrize("values", [1, 2, 3, 4])
def test_several_objects_on_a_line_are_never_made_up_for_by_others(values: int) -> None:
    one = '{"type":"RECORD","stream":"s"}'
    for rest in (
        "\n" * values,
        " \n" * values,
        '{"type":"RECORD",\n"stream":"s"}\n',
        '{"type":\n"RECORD"\n,"stream":"s"}\n',
    ):
        for block in (one * values + "\n" + rest, rest + one * values + "\n"):
            found = envelopes(block.encode())
            assert found is None or block == f"{one}\n" * len(found)


@pytest.mark.parametrize("rest", ['"record":{"a":1}', '"record":{"type":"SCHEMA"}', '"record":NaN', r'"x":"\ud800"'])
def test_kinds_are_told_apart(rest: str) -> None:
    assert is_record_line(f'{{"type":"RECORD",{rest}}}'.encode())
    assert not is_schema_line(f'{{"type":"RECORD",{rest}}}'.encode())
    assert is_schema_line(f'{{{rest},"type":"SCHEMA"}}'.encode())
    assert not is_record_line(f'{{{rest},"type":"SCHEMA"}}'.encode())
