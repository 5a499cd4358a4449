"""Cutting records out of lines, with the compiled cutter and without: the same bytes, whatever a lake holds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from singerlake.format.lines import records
from singerlake.format.lines.records import Cut, cut, line_at

RECORD = b'{"type":"RECORD","stream":"s","record":{"id":1},"time_extracted":"2026-01-01T00:00:00Z"}\n'
ACTIVATE = b'{"type":"ACTIVATE_VERSION","stream":"s","version":1}\n'
DEEP = b'{"a":' * 2900 + b"1" + b"}" * 2900


@pytest.fixture(params=["compiled", "pure"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The installation with a C compiler, then the one without."""
    if request.param == "compiled":
        assert records.compiled is not None, "installed without a C compiler: install one, and the package again"
    else:
        monkeypatch.setattr(records, "compiled", None)


def all_of(lines: bytes | memoryview) -> list[Cut | bytes]:
    """The whole block: cuts that belong together joined, and the lines between them."""
    found: list[Cut | bytes] = []
    at = 0
    while at < len(lines):
        part = cut(lines, at)
        if not part.count:
            found.append(line_at(lines, at))
            at += len(found[-1])
            continue
        last = found[-1] if found else None
        if isinstance(last, Cut) and _key(last) == _key(part):
            time = part.time_extracted if part.time_extracted is not None else last.time_extracted
            found[-1] = Cut(
                last.records + part.records, last.count + part.count, part.end, part.stream, part.version, time
            )
        else:
            found.append(part)
        at = part.end
    return found


def _key(one: Cut) -> str:
    return json.dumps([one.stream, one.version])


@pytest.mark.parametrize(
    "record",
    [
        b"{}",
        b'{"id":1}',
        b'{ "id" : 1.10 , "b":[1, {"c":null}] }',
        b'{"record":{"type":"SCHEMA"},"s":"}\\"{\\n"}',
        b'{"d":12345678901234567890123456789,"e":0.10000000000000000000001}',
        '{"ü":"日😀"}'.encode(),
        b'{"n":NaN,"i":-Infinity,"s":"\\ud800"}',
        b'{"a":1,"a":2}',
        DEEP,
    ],
)
@pytest.mark.parametrize(
    "envelope",
    [
        b'{"type":"RECORD","stream":"s","record":%s}',
        b'{"record": %s,  "stream":"s", "x":[1], "type" : "RECORD" } \r',
        b'{"type":"RECORD","stream":"s","\\u0072ecord":%s}',
        b'{"type":"RECORD","record":{"first":1},"stream":"s","record":%s}',
        b'{"type":"SCHEMA","record":%s,"stream":"s","type":"RECORD"}',
        b'{"type":"RECORD","record":%s,"stream":"\\u0073"}',
    ],
)
def test_a_record_is_cut_as_it_stands(either: None, record: bytes, envelope: bytes) -> None:
    line = envelope.replace(b"%s", record) + b"\n"
    assert cut(line) == Cut(record + b"\n", 1, len(line), "s", None, None)
    assert all_of(RECORD + line * 2 + RECORD) == [
        Cut(
            b'{"id":1}\n' + (record + b"\n") * 2 + b'{"id":1}\n',
            4,
            2 * (len(RECORD) + len(line)),
            "s",
            None,
            "2026-01-01T00:00:00Z",
        )
    ]


@pytest.mark.parametrize(
    "line",
    [
        ACTIVATE,
        b'{"type":"SCHEMA","stream":"s","record":{}}\n',
        b'{"type":"RECORD","stream":"s"}\n',
        b'{"type":"RECORD","stream":"s","record":[1]}\n',
        b'{"type":"RECORD","stream":"s","record":null}\n',
        b'{"type":"RECORD","record":{},"stream":"s","type":"STATE"}\n',
    ],
)
def test_what_is_no_record_is_left(either: None, line: bytes) -> None:
    assert cut(line).count == 0
    assert [isinstance(each, Cut) for each in all_of(RECORD + line + RECORD)] == [True, False, True]
    assert all_of(RECORD + line)[1] == line


def test_a_cut_ends_where_stream_or_version_change(either: None) -> None:
    def line(stream: str, version: Any) -> bytes:
        head = {"type": "RECORD", "stream": stream, "record": {"v": version}}
        return json.dumps({**head, "version": version} if version != "none" else head).encode() + b"\n"

    given = [("s", 1), ("s", 1), ("s", 1.0), ("s", True), ("s", None), ("s", "none"), ("t", "none"), ("t", 2), ("ü", 2)]
    parts = all_of(b"".join(line(*each) for each in given))
    assert all(isinstance(part, Cut) for part in parts)
    assert [(part.stream, part.count, part.version) for part in parts if isinstance(part, Cut)] == [
        ("s", 2, 1),
        ("s", 1, 1.0),
        ("s", 1, True),
        ("s", 2, None),
        ("t", 1, None),
        ("t", 1, 2),
        ("ü", 1, 2),
    ]


def test_the_last_time_of_a_cut_is_its_time(either: None) -> None:
    def line(time: Any) -> bytes:
        return json.dumps({"type": "RECORD", "stream": "s", "record": {}, "time_extracted": time}).encode() + b"\n"

    bare = b'{"type":"RECORD","stream":"s","record":{}}\n'
    (found,) = all_of(line("2026-01-02T00:00:00Z") + line("2026-01-01T00:00:00Z") + line(None) + bare)
    assert isinstance(found, Cut)
    assert found.time_extracted == "2026-01-01T00:00:00Z"
    (found,) = all_of(line("odd é") + bare)
    assert isinstance(found, Cut)
    assert found.time_extracted == "odd é"


def test_it_begins_anywhere_and_takes_a_view(either: None) -> None:
    block = RECORD + ACTIVATE + RECORD
    start = len(RECORD + ACTIVATE)
    assert cut(memoryview(block), start) == cut(block, start)
    assert cut(block, start).end == len(block)
    assert line_at(memoryview(b"x" * 100_000 + b"\n" + RECORD), 0) == b"x" * 100_000 + b"\n"


def test_a_place_that_is_none_is_refused() -> None:
    for lines, start in ((RECORD, -1), (RECORD, len(RECORD) + 1), (RECORD[:-1], 0)):
        with pytest.raises(ValueError, match="not a place"):
            records.compiled.cut(lines, start)


MEMBERS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["RECORD", "RECORD", "RECORD", "ACTIVATE_VERSION"]),
        "stream": st.sampled_from(["s", "ü"]),
    },
    optional={
        "record": st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=5) | st.floats(), max_size=3),
        "version": st.sampled_from([1, 2, None]),
        "time_extracted": st.sampled_from(["2026-01-01T00:00:00Z", None, "no time"]),
        "more": st.lists(st.none() | st.booleans(), max_size=2),
    },
)


@given(
    messages=st.lists(st.tuples(MEMBERS, st.booleans(), st.sampled_from([(",", ":"), (", ", ": ")])), max_size=8),
)
@example(messages=[])
def test_both_ways_cut_alike(messages: list[tuple[dict[str, Any], bool, tuple[str, str]]]) -> None:
    lines = [
        json.dumps(message, ensure_ascii=ascii, separators=separators).encode(errors="replace") + b"\n"
        for message, ascii, separators in messages
    ]
    block = b"".join(lines)
    ways = []
    with pytest.MonkeyPatch.context() as patch:
        for way in (records.compiled, None):
            patch.setattr(records, "compiled", way)
            ways.append(all_of(block))
    assert [_key(one) if isinstance(one, Cut) else one for one in ways[0]] == [
        _key(one) if isinstance(one, Cut) else one for one in ways[1]
    ]
    assert ways[0] == ways[1]
    cut_out = b"".join(one.records for one in ways[0] if isinstance(one, Cut)).splitlines(keepends=True)
    wanted = [line for line in lines if (one := json.loads(line))["type"] == "RECORD" and "record" in one]
    assert len(cut_out) == len(wanted)
    for record, line in zip(cut_out, wanted, strict=True):
        assert record[:-1] in line
        assert json.dumps(json.loads(record)) == json.dumps(json.loads(line)["record"])
