"""Counting a block of whole lines, with the compiled counter and without: what either takes is what is there."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from singerlake.format.lines import counted
from singerlake.format.lines.counted import Counted, count
from singerlake.format.lines.messages import envelope
from singerlake.format.lines.times import span

RECORD = b'{"type":"RECORD","stream":"s","record":{"id":1},"time_extracted":"2026-01-01T00:00:00Z"}\n'
ACTIVATE = b'{"type":"ACTIVATE_VERSION","stream":"s","version":1}\n'


@pytest.fixture(params=["compiled", "pure"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The installation with a C compiler, then the one without."""
    if request.param == "compiled":
        assert counted.compiled is not None, "installed without a C compiler: install one, and the package again"
    else:
        monkeypatch.setattr(counted, "compiled", None)


def line_by_line(block: bytes, stream: str, *, times: bool) -> Counted | None:
    """What each line says by itself; None where one of them is no message of the stream."""
    found = [envelope(line) for line in block.split(b"\n")[:-1]]
    if any(one is None or one.stream != stream or one.type not in ("RECORD", "ACTIVATE_VERSION") for one in found):
        return None
    kept = [one for one in found if one is not None]
    recorded = [one for one in kept if one.type == "RECORD"]
    extracted = span([one.time_extracted for one in recorded]) if times else None
    return Counted(len(kept), len(recorded), extracted)


def agrees(block: bytes, stream: str = "s") -> None:
    """With the compiled counter and without."""
    with pytest.MonkeyPatch.context() as patch:
        for compiled in (counted.compiled, None):
            patch.setattr(counted, "compiled", compiled)
            for times in (False, True):
                found = count(block, stream, times=times)
                assert found is None or found == line_by_line(block, stream, times=times)


@pytest.mark.parametrize(
    "line",
    [
        RECORD,
        b'{"type":"RECORD","stream":"s","record":{"id":1}}\n',
        '{"type":"RECORD","stream":"s","record":{"é":"ü"},"more":{"type":"x","stream":"y"}}\n'.encode(),
        b'{"type":"RECORD","stream":"s","record":{},"time_extracted":null}\n',
        b'{"type":"RECORD","stream":"s","record":{},"time_extracted":"2026-01-01T00:00:00.123456+00:00"}\n',
    ],
)
@pytest.mark.parametrize("times", [False, True])
def test_records_are_counted(either: None, line: bytes, times: bool) -> None:
    found = count(line * 3, "s", times=times)
    assert found is not None
    assert found == line_by_line(line * 3, "s", times=times)
    assert (found.messages, found.records) == (3, 3)


def test_white_space_around_a_message_is_nothing() -> None:
    line = (
        b' {\t"record" : {"a" : [-2.5e3, true, null, {"b":"\\u00e9\\ud83d\\ude00"}]}, "stream":"s","type":"RECORD"} \n'
    )
    assert count(line * 3, "s", times=False) == Counted(3, 3, None)
    agrees(line * 3)


def test_a_new_version_is_a_message_and_no_record() -> None:
    assert count(RECORD + ACTIVATE + RECORD, "s", times=False) == Counted(3, 2, None)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"  \n",
        b"{}\n",
        b"1\n",
        RECORD[:-1] + RECORD,
        RECORD[:-2] + b"\n",
        RECORD.replace(b"}\n", b"}}\n"),
        RECORD.replace(b"\n", b",\n"),
        RECORD.replace(b"\n", b"\n\n"),
        b'{"type":"STATE","stream":"s"}\n',
        b'{"type":"SCHEMA","stream":"s","schema":{}}\n',
        b'{"type":"RECORD","stream":"t"}\n',
        b'{"type":"RECORD","stream":"S"}\n',
        b'{"type":"RECORD","stream":["s"]}\n',
        b'{"type":"RECORD"}\n',
        b'{"stream":"s"}\n',
        b'{"type":"RECORD","stream":"s","type":"SCHEMA"}\n',
        b'{"type":"RECORD","stream":"s","stream":"t"}\n',
        b'{"type":"RECORD","stream":"s","record":\xff}\n',
        b'{"type":"RECORD","stream":"s","x":"\xc3"}\n',
        b'{"type":"RECORD","stream":"s","x":"\xed\xa0\x80"}\n',
    ],
)
def test_what_is_no_message_of_the_stream_is_never_taken(either: None, line: bytes) -> None:
    for block in (line, RECORD + line, line + RECORD, RECORD + line + RECORD[:-1] + RECORD):
        assert count(block, "s", times=True) is None
        assert count(block, "s", times=False) is None


def test_two_on_a_line_beside_an_empty_line_are_not_taken(either: None) -> None:
    for empty in (b"\n", b" \t\r\n"):
        for block in (RECORD[:-1] + RECORD + empty, empty + RECORD[:-1] + RECORD):
            assert count(block, "s", times=False) is None


def test_an_object_over_two_lines_beside_two_on_one_is_not_taken(either: None) -> None:
    cut = b'{"type":"RECORD",\n"stream":"s"}\n'
    for block in (RECORD[:-1] + RECORD + cut, cut + RECORD[:-1] + RECORD):
        assert count(block, "s", times=False) is None


def test_an_unfinished_line_is_not_taken() -> None:
    assert counted.compiled.count(RECORD[:-1], b"s", False) is None
    assert counted.compiled.count(b"", b"s", False) is None


@pytest.mark.parametrize("name", ["a\\b", 'a"b', "a\nb", "ü", "\udc80", "", "x" * 300])
def test_a_name_is_held_to_what_the_text_means(name: str) -> None:
    escaped = json.dumps({"type": "RECORD", "stream": name}).encode() + b"\n"
    agrees(escaped, name)
    # Its bytes between quotes are another name, or none.
    raw = b'{"type":"RECORD","stream":"' + name.encode(errors="replace") + b'"}\n'
    agrees(raw, name)


MOMENTS = st.sampled_from(
    [
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00.0Z",
        "2026-01-01T00:00:00.5Z",
        "2026-01-01T00:00:00.49+00:00",
        "2026-01-01T00:00:00.500000+00:00",
        "2026-01-01T00:00:00.1234567Z",
        "2026-01-01T00:00:01+00:00",
        "2025-12-31T23:59:59.999999Z",
        "2025-12-31T23:59:60Z",
        "2026-01-01T01:00:00+01:00",
        "2026-01-01T00:00:00z",
        "2026-01-01 00:00:00Z",
        "2026-01-01T00:00:00",
        "2026-01-01",
        "2026-13-01T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "0001-01-01T05:00:00Z",
        "0001-01-01T25:00:00Z",
        "9999-12-31T23:59:59.9999999Z",
        "9999-99-99T99:99:99Z",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00+00:00x",
        "",
        None,
        5,
    ]
)


@given(st.lists(MOMENTS, min_size=1, max_size=6))
@example(["2026-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-12-01T00:00:00Z"])
@example(["2026-01-01T00:00:00.49+00:00", "2026-01-01T00:00:00.5Z"])
def test_times_span_what_they_name(times: list[object]) -> None:
    lines = [{"type": "RECORD", "stream": "s", "time_extracted": time} for time in times]
    agrees("".join(json.dumps(line) + "\n" for line in lines).encode())


def test_the_times_of_new_versions_do_not_count() -> None:
    late = b'{"type":"ACTIVATE_VERSION","stream":"s","version":1,"time_extracted":"2027-01-01T00:00:00Z"}\n'
    agrees(RECORD + late)


PIECES = st.sampled_from(
    [
        *(RECORD, ACTIVATE, RECORD[:-1], b"\n", b" ", b"{", b"}", b'"', b"\\", b",", b'"type":"RECORD",', b"\xc3"),
        *(b'{"type":"RECORD","stream":"s","record":{"x":', b"[1,", b"]", b"null", b"1e5", b"-", b"9" * 30, b"[" * 70),
    ]
)


@given(st.lists(PIECES | st.binary(max_size=3), max_size=8), st.data())
def test_damaged_blocks_are_left_or_counted_right(pieces: list[bytes], data: st.DataObject) -> None:
    block = b"".join(pieces)
    if block and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(block) - 1))
        block = block[:at] + data.draw(st.binary(max_size=2)) + block[at + 1 :]
    agrees(block + b"\n")


@pytest.mark.parametrize(
    "block",
    [
        b'{"type":"RECORD","stream":"s","record":{"x":' + b"[" * 63 + b"]" * 63 + b"}}\n",
        b'{"type":"RECORD","stream":"s","record":{"x":' + b"[" * 600 + b"]" * 600 + b"}}\n",
        b'{"type":"RECORD","stream":"s","record":' + b'{"x":' * 100_000 + b"1" + b"}" * 100_001 + b"\n",
    ],
)
def test_deep_values_are_counted_or_left(block: bytes) -> None:
    agrees(block)
