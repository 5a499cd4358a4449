"""Lines to messages: whatever the mix and the cuts, each line is one message, and its bytes are its own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import InvalidMessageError
from target_singerlake.errors import EXCERPT, MissingKeyPropertyError, RecordBeforeSchemaError, UnreadableLineError
from target_singerlake.input.messages import EarlyActivations, Message, Records
from target_singerlake.input.passthrough import BLOCK_BYTES, PassthroughDecoder, RecordCheck
from target_singerlake.state import HeldStates

STREAMS = ("a", "b", 'odd "name"', "é\ud800")


def decoder(in_order: bool = False, **keys: tuple[str, ...]) -> PassthroughDecoder:
    checks = {name: RecordCheck(name, keys.get(name, ())) for name in STREAMS}
    return PassthroughDecoder(checks, EarlyActivations(HeldStates()), in_order=in_order)


def flat(found: list[Records | Message]) -> list[tuple[str, str, bytes, int]]:
    """One entry a line, whether it came alone or in a run."""
    lines = []
    for message in found:
        if isinstance(message, Records):
            parts = message.data.split(b"\n")[:-1]
            assert len(parts) == message.count
            lines += [("RECORD", message.stream, part, message.number + at) for at, part in enumerate(parts)]
        else:
            lines.append((message.kind, message.stream, message.line[:-1], message.number))
    return lines


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
messages = st.one_of(
    st.builds(
        lambda stream, record: {"type": "RECORD", "stream": stream, "record": record},
        st.sampled_from(STREAMS),
        st.dictionaries(st.text(max_size=4), values, max_size=3),
    ),
    st.builds(lambda value: {"type": "STATE", "value": value}, values),
    st.builds(lambda stream: {"type": "ACTIVATE_VERSION", "stream": stream, "version": 1}, st.sampled_from(STREAMS)),
)


@st.composite
def lines(draw: st.DrawFn) -> list[tuple[dict[str, Any], bytes]]:
    """Messages in runs, each spelt in one of the ways that JSON allows."""
    found = []
    for message in draw(st.lists(messages, max_size=6)):
        repeat = draw(st.sampled_from((1, 1, 3, 20)))
        escaped = draw(st.booleans())
        line = json.dumps(message, ensure_ascii=escaped).encode("utf-8", "replace" if escaped else "surrogatepass")
        try:
            line.decode()
        except UnicodeDecodeError:
            line = json.dumps(message).encode()
        line = draw(st.sampled_from((b"", b" "))) + line + draw(st.sampled_from((b"", b"\r", b" ")))
        found += [(message, line)] * repeat
    return found


def in_blocks(decode: PassthroughDecoder, lines: list[bytes], data: st.DataObject) -> list[Records | Message]:
    """What comes of lines that are cut into blocks anywhere."""
    found: list[Records | Message] = []
    position = 0
    while position < len(lines):
        size = data.draw(st.integers(1, 30))
        block = b"".join(line + b"\n" for line in lines[position : position + size])
        found += decode.messages(block, decode.next_number)
        position += size
    return found


@given(lines(), st.data())
def test_every_line_is_one_message_with_its_own_bytes_and_number(
    given_lines: list[tuple[dict[str, Any], bytes]], data: st.DataObject
) -> None:
    found = in_blocks(decoder(in_order=True), [line for _, line in given_lines], data)
    assert flat(found) == [
        (message["type"], message.get("stream", ""), line, number)
        for number, (message, line) in enumerate(given_lines, 1)
    ]


@given(lines(), st.data())
def test_between_other_messages_the_lines_of_each_stream_keep_their_order(
    given_lines: list[tuple[dict[str, Any], bytes]], data: st.DataObject
) -> None:
    all_lines = [line for _, line in given_lines]
    found = in_blocks(decoder(), all_lines, data)
    for message in found:
        first = message.data if isinstance(message, Records) else message.line
        assert first.startswith(all_lines[message.number - 1] + b"\n")
    assert by_stream([entry[:3] for entry in flat(found)]) == by_stream(
        [(message["type"], message.get("stream", ""), line) for message, line in given_lines]
    )


def by_stream(entries: list[tuple[str, str, bytes]]) -> list[tuple[str, str, bytes] | dict[str, list[bytes]]]:
    """Messages of other kinds, and between them the lines of each stream."""
    found: list[Any] = [{}]
    for kind, stream, line in entries:
        if kind == "RECORD":
            found[-1].setdefault(stream, []).append(line)
        else:
            found += [(kind, stream, line), {}]
    return found


def record(stream: str = "a", record: str = '{"id": 1}') -> bytes:
    return b'{"type": "RECORD", "stream": %s, "record": %s}' % (json.dumps(stream).encode(), record.encode())


@pytest.mark.parametrize("before", [0, 1, 50], ids=["first", "second", "after a run"])
@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b"Traceback (most recent call last):", "not JSON"),
        (b"[1, 2]", "not an object"),
        (b'"text"', "not an object"),
        (b"{}", "no type"),
        (b'{"type": null}', "no type"),
        (b'{"type": "UPSERT", "stream": "a"}', "unknown type 'UPSERT'"),
        (b'{"type": 7, "stream": "a"}', "unknown type"),
        (b'{"type": "RECORD", "stream": "a"}', "no object as its record"),
        (b'{"type": "RECORD", "stream": "a", "record": null}', "no object as its record"),
        (b'{"type": "RECORD", "stream": "a", "record": [1]}', "no object as its record"),
        (b'{"type": "RECORD", "record": {}}', "names no stream"),
        (b'{"type": "RECORD", "stream": "", "record": {}}', "names no stream"),
        (b'{"type": "RECORD", "stream": 3, "record": {}}', "names no stream"),
        (b'{"type": "SCHEMA", "stream": "", "schema": {}}', "names no stream"),
        (b'{"type": "ACTIVATE_VERSION", "version": 1}', "names no stream"),
        (record() + record(), "not JSON"),
        (record() + b" " + record(), "not JSON"),
        (b'{"type": "RECORD", "stream": "a",', "not JSON"),
        (record(record='{"a": "\\x"}'), "not JSON"),
        (record(record='{"a": 01}'), "not JSON"),
        (record(record='{"a": "\t"}'), "not JSON"),
        (b'{"type": "RECORD", "stream": "a", "record": {"a": "\xff"}}', "not UTF-8"),
        (b'{"type": "RECORD", "stream": "a", "record": {"a": "\xed\xa0\x80"}}', "not UTF-8"),
        (b"\xef\xbb\xbf" + record(), "not JSON"),
        ('{"type": "STATE", "value": 1}'.encode("utf-16-le"), "not JSON"),
        (b'{"type": "RECORD", "stream": "a", "record": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}", "nested"),
    ],
)
def test_a_line_that_is_no_message_is_named_and_what_came_before_it_is_given(
    bad: bytes, says: str, before: int
) -> None:
    decode = decoder()
    block = (record() + b"\n") * before + bad + b"\n" + record() + b"\n"
    found: list[Records | Message] = []
    with pytest.raises(UnreadableLineError, match=says) as raised:
        found.extend(decode.messages(block, 1))
    assert [entry[2] for entry in flat(found)] == [record()] * before
    assert raised.value.context["line"] == before + 1


def test_two_objects_on_a_line_and_one_over_two_do_not_pass_as_three() -> None:
    split = b'{"type": "RECORD", "stream": "a",\n"record": {}}\n'
    with pytest.raises(UnreadableLineError) as raised:
        list(decoder().messages(record() + record() + b"\n" + split, 1))
    assert raised.value.context["line"] == 1
    with pytest.raises(UnreadableLineError) as raised:
        list(decoder().messages(split + record() + record() + b"\n", 1))
    assert raised.value.context["line"] == 1


@pytest.mark.parametrize(
    "line",
    [
        record(record='{"a": NaN, "b": -Infinity}'),
        record(record='{"a": "\\ud800"}'),
        record(record='{"a": 1e999}'),
        record(record='{"a": ' + "9" * 6000 + "}"),
        record(record='{"a": 1, "a": 2}'),
        b'{"stream": "a", "record": {"a": "\\u00e9\xc3\xa9"}, "extra": [1], "type": "RECORD"}',
        record(record='{"\\ud83d\\ude00": "\\ud83d"}'),
    ],
)
@pytest.mark.parametrize("before", [0, 50])
def test_what_json_takes_is_kept_as_it_came(line: bytes, before: int) -> None:
    block = (record() + b"\n") * before + line + b"\n"
    assert flat(list(decoder().messages(block, 1)))[-1] == ("RECORD", "a", line, before + 1)


def test_empty_lines_are_no_messages_but_count_as_lines() -> None:
    found = flat(list(decoder().messages(b"\n  \r\n" + record() + b"\n\n" + record() + b"\n", 1)))
    assert [entry[3] for entry in found] == [3, 5]


@pytest.mark.parametrize("keys", [("id",), ("id", "no such"), ('a "quoted" key',), ("type", "record")])
@pytest.mark.parametrize("before", [0, 50])
def test_a_record_without_a_key_property_is_refused(keys: tuple[str, ...], before: int) -> None:
    decode = PassthroughDecoder({"a": RecordCheck("a", keys)}, EarlyActivations(HeldStates()))
    good = record(record=json.dumps(dict.fromkeys(keys)))
    assert len(flat(list(decode.messages((good + b"\n") * 20, 1)))) == 20
    bad = record(record=json.dumps(dict.fromkeys(keys[1:])))
    with pytest.raises(MissingKeyPropertyError) as raised:
        list(decode.messages((good + b"\n") * before + bad + b"\n", 1))
    assert raised.value.context == {"line": before + 1, "stream": "a", "missing": [keys[0]]}


def test_a_record_before_its_schema_is_refused() -> None:
    with pytest.raises(RecordBeforeSchemaError) as raised:
        list(decoder().messages(record() + b"\n" + record("c") + b"\n", 1))
    assert raised.value.context == {"line": 2, "stream": "c"}


@pytest.mark.parametrize(
    "bad",
    [
        b'{"type": "RECORD", "stream": "a", "record": {"password": "hunter2"',
        b'{"record": {"password": "hunter2"}, "type": "WRONG"}',
        b'{"type": "STATE", "value": {"token": "hunter2"}',
        b" " * (EXCERPT - 1) + b"hunter2",
    ],
)
def test_an_error_shows_how_a_line_begins_but_nothing_of_its_record_or_state(bad: bytes) -> None:
    with pytest.raises(InvalidMessageError) as raised:
        list(decoder().messages(bad + b"\n", 1))
    assert "hunter2" not in str(raised.value)
    assert raised.value.context["length"] in (len(bad), len(bad) + 1)


def test_blocks_are_larger_while_many_streams_take_turns() -> None:
    names = [f"s{number}" for number in range(100)]
    checks = {name: RecordCheck(name, ()) for name in names}
    decoding = PassthroughDecoder(checks, EarlyActivations(HeldStates()))
    turns = b"".join(b'{"type":"RECORD","stream":"%s","record":{}}\n' % name.encode() for name in names)
    alone = b'{"type":"RECORD","stream":"s1","record":{}}\n' * 100
    for block, size in ((turns, 4 * BLOCK_BYTES), (turns, 4 * BLOCK_BYTES), (alone, BLOCK_BYTES)):
        assert sum(message.count for message in decoding.messages(block, 1) if isinstance(message, Records)) == 100
        assert decoding.block_bytes == size
