"""One input read in both ways, by the compiled scanner and by the decoder; tests give the input."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from singerlake.errors import InvalidMessageError
from singerlake.format.lines import scanner
from singerlake.format.lines.times import Span, joined, span
from target_singerlake.input.messages import EarlyActivations, Message, Records
from target_singerlake.input.passthrough import PassthroughDecoder, RecordCheck
from target_singerlake.input.schema import schema_of
from target_singerlake.state import HeldStates

KEYS = {"s": ("id", "größe"), "t": (), 'q"\\': ('a"b',), "é": ("id",), "\ud800": ("id",)}
RECORD = (
    b'{"type":"RECORD","stream":"s","record":{"id":1,"gr\\u00f6\\u00dfe":2},"time_extracted":"2026-01-01T00:00:00Z"}\n'
)
OTHER = b'{"type": "RECORD", "stream": "t", "record": {}, "time_extracted": "2026-01-01T00:00:01.5Z"}\n'
STATE = b'{"type": "STATE", "value": {"at": 1}}\n'

Found = list[Message | dict[str, tuple[bytes, int, Span | None]]]
"""Messages that are no records, and what came of each stream between them: lines, how many, and the span of time."""


def read(blocks: Iterable[bytes], keys: Mapping[str, Sequence[str]], *, in_order: bool) -> tuple[Found, str | None]:
    """What one of the two ways gives, and the error that it ends with."""
    checks = {name: RecordCheck(name, of_stream) for name, of_stream in keys.items()}
    decoder = PassthroughDecoder(checks, EarlyActivations(HeldStates()), in_order=in_order)
    assert in_order or scanner.available(), "installed without a C compiler: install one, and the package again"
    found: Found = [{}]
    lines: list[bytes] = []
    try:
        for place, block in enumerate(blocks):
            lines += io.BytesIO(block)
            lent = bytearray(block)
            for message in decoder.messages(lent if place % 2 else block, decoder.next_number):
                _take(message, found, lines, checks)
            # The next block is read into it, and what was found must not change by that.
            lent[:] = b"x" * len(lent)
    except InvalidMessageError as error:
        return found, f"{type(error).__name__} {error}"
    assert decoder.next_number == len(lines) + 1
    return found, None


def _take(message: Records | Message, found: Found, lines: list[bytes], checks: dict[str, RecordCheck]) -> None:
    if isinstance(message, Message):
        assert lines[message.number - 1] == message.line
        found += [message, {}]
        if message.kind == "SCHEMA":
            schema = schema_of(message.line, message.number)
            checks[schema.stream] = RecordCheck(schema.stream, schema.content.key_properties)
        return
    assert message.data.startswith(lines[message.number - 1])
    streams = found[-1]
    assert isinstance(streams, dict)
    data, count, extracted = streams.get(message.stream, (b"", 0, None))
    times = joined(extracted, span(message.times))
    streams[message.stream] = data + message.data, count + message.count, times


def agree(*blocks: bytes, keys: Mapping[str, Sequence[str]] = KEYS) -> tuple[Found, str | None]:
    scanned, decoded = read(blocks, keys, in_order=False), read(blocks, keys, in_order=True)
    assert scanned == decoded
    return scanned


def scanned(block: bytes, keys: Mapping[str, Sequence[str]] = KEYS) -> int:
    """Lines that the scanner takes at the start of a block."""
    made = scanner.Scanner()
    for name, of_stream in keys.items():
        made.know(name, of_stream)
    return made.scan(block, 0)[1]


def line(stream: str = "s", record: str = '{"id": 1, "größe": 2}', **more: Any) -> bytes:
    after = "".join(f", {json.dumps(name)}: {value}" for name, value in more.items())
    return f'{{"type": "RECORD", "stream": {json.dumps(stream)}, "record": {record}{after}}}\n'.encode()
