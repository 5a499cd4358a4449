"""The compiled scanner and the decoder are one to the lake: whatever the input, they give the same messages of each
stream, the same spans of time, and the same error at the same line."""

from __future__ import annotations

import io
import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from singerlake.format.lines import scanner
from singerlake.format.lines.times import span
from target_singerlake.input.messages import EarlyActivations, Message
from target_singerlake.input.passthrough import PassthroughDecoder
from target_singerlake.input.reader import Input, Waker
from target_singerlake.state import HeldStates
from tests.target.input.two_ways import KEYS, OTHER, RECORD, STATE, Found, agree, line, scanned


@pytest.mark.parametrize(
    "taken",
    [
        RECORD,
        OTHER,
        line(),
        line(record='{"x": {"id": 5}, "größe": null, "id": [1]}'),
        line(record='{"id": 1, "id": 2, "größe": 3, "größe": 4}'),
        b'{"record":{"gr\xc3\xb6\xc3\x9fe":1,"id":2},"stream":"s","type":"RECORD"}\n',
        b' {\t"version" : 1, "record" : { "id" : 1 , "gr\\u00f6\\u00dfe" : 2 } , "stream" : "s", "type":"RECORD" }\r\n',
        line('q"\\', '{"a\\"b": 1}'),
        line("é", '{"id": 1}'),
        b'{"type":"RECORD","stream":"\xc3\xa9","record":{"id":"\\ud83d\\ude00"}}\n',
        line(time_extracted='"2026-01-01 00:00"'),
        line(time_extracted='"no time"'),
        line(time_extracted='"2026-01-01T00:00:00.123456789+00:00"'),
        line(time_extracted="null"),
        line(time_extracted="5"),
        line(record='{"id": ' + "9" * 6000 + ', "größe": 1e999}'),
        line(record='{"id": 1, "größe": 2}') + line(record='{"id":   1 ,  "größe": \t2}'),
    ],
)
def test_what_taps_write_is_scanned(taken: bytes) -> None:
    assert scanned(taken * 3) == 3 * taken.count(b"\n")
    for block in (taken * 3, OTHER + taken + RECORD, STATE + taken):
        _, error = agree(block)
        assert error is None


BAD = [
    line(record='{"größe": 2}'),
    line(record='{"größe": 2, "x": {"id": 1}}'),
    line(record='{"größe": 2}', id="1"),
    line(record='{"größe": 2, "ID": 1}'),
    line(record='{"größe": 2, "id ": 1}'),
    line("u"),
    line(record="[]"),
    line(record="null"),
    line("t", "{}")[:-2] + b"\n",
    line("t", "{}").replace(b"}\n", b"}}\n"),
    line("t", "{}")[:-1] + line("t", "{}"),
    line("t", '{"a": 01}'),
    line("t", '{"a": "\t"}'),
    line("t", '{"a": \xff}'),
    line("t", "{}").replace(b"{}", b'{"a":"\xff"}'),
    line("t", "{}").replace(b"{}", b'{"a":"\xed\xa0\x80"}'),
    line("t", "{}").replace(b"RECORD", b"UPSERT"),
    b'{"type":"RECORD","stream":"t","record":{},\n',
    b'{"type":"RECORD","stream":"t","stream":"u","record":{}}\n',
    b'{"type":"RECORD","type":"RECORDS","stream":"t","record":{}}\n',
    b'{"type":"RECORD","stream":"t","record":{},"record":[]}\n',
    b'{"type":"RECORD","stream":["t"],"record":{}}\n',
    b'{"stream":"t","record":{}}\n',
    b'{"type":"RECORD","record":{}}\n',
    b'{"type":"RECORD","stream":"t"}\n',
    b"\xef\xbb\xbf" + OTHER,
    b"[]\n",
]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("before", [b"", RECORD * 20, OTHER + RECORD, STATE])
def test_what_is_refused_is_refused_alike(bad: bytes, before: bytes) -> None:
    assert scanned(bad) == 0
    found, error = agree(before + bad + OTHER)
    assert error is not None
    number = before.count(b"\n") + 1
    assert f"line={number}" in error
    kept = sum(count for one in found if isinstance(one, dict) for _, count, _ in one.values())
    assert kept == before.count(b"RECORD")


LEFT = [
    line(record='{"i\\u0064": 1, "größe": 2}'),
    b'{"type":"REC\\u004fRD","stream":"s","record":{"id":1,"gr\\u00F6\\u00DFe":2}}\n',
    b'{"type":"RECORD","str\\u0065am":"t","record":{}}\n',
    b'{"type":"RECORD","stream":"u","stream":"t","record":{}}\n',
    b'{"type":"RECORD","stream":"t","record":[],"record":{}}\n',
    b'{"type":"RECORD","type":"RECORD","stream":"t","record":{}}\n',
    line("t", '{"a": NaN}'),
    line("t", '{"a": "\\ud800"}'),
    line("t", '{"a": ' + "[" * 200 + "]" * 200 + "}"),
    line("\ud800", '{"id": 1}'),
    line("t", "{}", time_extracted='"2031-01-01T00:00:00Z", "time_extracted": "2026-01-01T00:00:00Z"'),
    line("t", "{}", time_extracted='"2026\\u002d01-01T00:00:00Z"'),
    line("t", "{}").replace(b"}\n", b',"time\\u005fextracted":"2025-01-01T00:00:00Z"}\n'),
    b'{"type":"ACTIVATE_VERSION","stream":"t","version":1}\n',
    b"\n",
    b" \r\n",
]


@pytest.mark.parametrize("odd", LEFT)
def test_what_the_scanner_leaves_is_kept_all_the_same(odd: bytes) -> None:
    assert scanned(odd) == 0
    for block in (odd, RECORD * 20 + odd + OTHER * 20, odd * 12 + RECORD):
        _, error = agree(block)
        assert error is None


SENT = RECORD + OTHER + STATE + line("é", '{"id":"\\u00e9é"}') + BAD[1] + OTHER


class Pipe(io.BytesIO):
    """Gives pieces as they were written."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__()
        self._pieces = [piece for piece in pieces if piece]

    def read1(self, _: int | None = -1, /) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


def test_lines_may_be_cut_anywhere() -> None:
    whole = agree(SENT)
    for cut in range(len(SENT)):
        with Waker() as waker:
            blocks = [block for block in Input(Pipe(SENT[:cut], SENT[cut:]), waker).blocks(lambda: 0.0) if block]
        assert b"".join(blocks) == SENT
        found, error = agree(*blocks)
        assert error == whole[1]
        assert _joined(found) == _joined(whole[0])


def _joined(found: Found) -> list[object]:
    return [one if isinstance(one, dict) else one.line for one in found]


def test_a_schema_may_change_in_the_middle_of_a_block() -> None:
    def schema(stream: str, *keys: str) -> bytes:
        content = {"type": "SCHEMA", "stream": stream, "schema": {"properties": {}}, "key_properties": keys}
        return json.dumps(content).encode() + b"\n"

    one, two = line("new", '{"a": 1}'), line("new", '{"b": 1}')
    _, error = agree(RECORD + schema("new", "a") + one * 9 + schema("new", "b") + one)
    assert "line=13" in (error or "")
    for first, second in ((one, two), (two, one)):
        found, error = agree(RECORD + schema("new", "a") + one * 9 + RECORD + schema("new", "b") + two * 9 + first)
        assert ("line=23" in (error or "")) == (first == one)
        assert [message.kind for message in found if isinstance(message, Message)] == ["SCHEMA"] * 2
        # Two more, of other names, so that the table of streams grows.
        more = b"".join(schema(f"more {number}", "id") + line(f"more {number}", '{"id": 1}') for number in range(40))
        _, error = agree(more + RECORD, more + second + schema("new") + second)
        assert "RecordBeforeSchemaError" in (error or "")


def test_runs_are_in_the_order_of_their_first_lines() -> None:
    made = scanner.Scanner()
    made.know("s", ("id",))
    made.know("t", ())
    first, last = line(record='{"id": 1}', time_extracted='"2026-01-01"'), line(record='{"id": 2}')
    assert made.scan(b"{}\n" + first + OTHER + OTHER + last + STATE + RECORD, 3) == (
        3 + len(first + OTHER * 2 + last),
        4,
        [
            ("s", first + last, 2, 0, ["2026-01-01"]),
            ("t", OTHER * 2, 2, 1, ["2026-01-01T00:00:01.5Z", "2026-01-01T00:00:01.5Z"]),
        ],
    )
    block = OTHER * 2
    assert made.scan(block, 0)[2][0][1] is block


def test_nothing_is_kept_of_a_block_that_the_next_one_is_read_into() -> None:
    made = scanner.Scanner()
    made.know("t", ())
    block = bytearray(OTHER * 2)
    found = made.scan(block, 0)
    # It may be resized again, too.
    block[:] = b"x"
    assert found == made.scan(OTHER * 2, 0)
    decoder = PassthroughDecoder({}, EarlyActivations(HeldStates()))
    block = bytearray(STATE)
    messages = list(decoder.messages(block, 1))
    block[:] = b"x" * len(STATE)
    assert messages == list(decoder.messages(STATE, 1))


def test_a_scanner_takes_whole_lines_only() -> None:
    made = scanner.Scanner()
    made.know("t", ())
    for block, start in ((OTHER[:-1], 0), (OTHER, len(OTHER) + 1), (OTHER, -1)):
        with pytest.raises(ValueError, match="whole lines"):
            made.scan(block, start)
    assert made.scan(b"", 0) == (0, 0, [])
    assert made.scan(OTHER, len(OTHER)) == (len(OTHER), 0, [])


MOMENTS = st.sampled_from(
    [
        *("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.0Z", "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.49+00:00"),
        *("2026-01-01T00:00:00.1234567Z", "2026-01-01T00:00:00.9999999Z", "2025-12-31T23:59:59.9999996+00:00"),
        *("2025-12-31T23:59:60Z", "2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00z", "2026-01-01 00:00:00Z"),
        *("2026-01-01T00:00:00", "2026-01-01", "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
        *("2100-02-29T00:00:00Z", "2000-02-29T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-00T00:00:00Z"),
        *("0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0001-01-01T25:00:00Z", "0010-01-01T00:00:00Z"),
        *("9999-12-31T23:59:59.9999999Z", "9999-99-99T99:99:99Z", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00.5"),
        *("2026-01-01T00:00:00." + "1" * 30 + "Z", "2026-01-01T00:00:00.123456789Z", "", "é", None, 5, 1e9, True, {}),
    ]
)


@given(st.lists(MOMENTS, min_size=1, max_size=6))
def test_the_span_of_time_is_the_same(times: list[object]) -> None:
    block = b"".join(line("t", "{}", time_extracted=json.dumps(time)) for time in times)
    found, error = agree(block)
    assert error is None
    assert found == [{"t": (block, len(times), span(times))}]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def spelt(draw: st.DrawFn) -> bytes:
    """A record of one of the streams in some spelling."""
    stream = draw(st.sampled_from([*KEYS, "s", "t", "u"]))
    record = {name: draw(VALUES) for name in KEYS.get(stream, ()) if draw(st.integers(0, 9))}
    record |= draw(st.dictionaries(st.text(max_size=3), VALUES, max_size=3))
    message = {"type": "RECORD", "stream": stream, "record": record, "time_extracted": draw(MOMENTS)}
    message |= draw(st.dictionaries(st.sampled_from(["version", "x"]), VALUES, max_size=1))
    names = draw(st.permutations(list(message)))
    escaped = draw(st.booleans())
    text = json.dumps(
        {name: message[name] for name in names},
        ensure_ascii=escaped,
        separators=draw(st.sampled_from([(", ", ": "), (",", ":"), (" ,\t", " : ")])),
    )
    return text.encode("utf-8", "surrogatepass") + b"\n"


PIECES = st.sampled_from(
    [
        *(STATE, RECORD, OTHER, RECORD[:-1], b"\n", b" ", b"{", b"}", b'"', b"\\", b",", b'"type":"RECORD",', b"\xc3"),
        *(b'{"type":"RECORD","stream":"s","record":{"x":', b"[1,", b"]", b"null", b"1e5", b"-", b"[" * 70, b"NaN"),
    ]
)


@given(st.lists(spelt() | PIECES, min_size=1, max_size=8), st.data())
@example([RECORD, OTHER, RECORD, STATE], None)
def test_any_input_is_taken_alike(pieces: list[bytes], data: st.DataObject | None) -> None:
    sent = b"".join(piece * (1 if data is None else data.draw(st.sampled_from((1, 1, 2, 12)))) for piece in pieces)
    if data is not None and sent and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(sent) - 1))
        sent = sent[:at] + data.draw(st.binary(max_size=2)) + sent[at + 1 :]
    lines = list(io.BytesIO(sent + b"\n"))
    cut = 0 if data is None else data.draw(st.integers(0, len(lines)))
    agree(*(b"".join(part) for part in (lines[:cut], lines[cut:]) if part))


def test_messages_are_comparable() -> None:
    """Else two ways that differ would seem to agree."""
    message = Message("STATE", "", STATE, 1)
    assert message == msgspec.structs.replace(message)
    assert message != msgspec.structs.replace(message, number=2)
