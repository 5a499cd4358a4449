"""The envelope of a Singer message: what stands beside the record, read without taking the record apart."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from singerlake.format.ready import ready

REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a line that it does not take; Python-made taps write some that ``json`` does take: NaN, lone
surrogates."""


class Envelope(msgspec.Struct, gc=False):
    """Whatever JSON value a message has in each place; None where it has none."""

    type: Any = None
    stream: Any = None
    time_extracted: Any = None


_DECODER = msgspec.json.Decoder(Envelope)


def envelope(line: bytes) -> Envelope | None:
    """The envelope of one line; None where the line is not a JSON object, whichever of the two readers is asked."""
    try:
        return _DECODER.decode(line)
    except REFUSALS:
        pass
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    return Envelope(message.get("type"), message.get("stream"), message.get("time_extracted"))


def envelopes(block: bytes) -> list[Envelope] | None:
    """The envelopes of a block of whole lines, at full speed; None where it has to be looked at line by line."""
    try:
        found = _DECODER.decode_lines(block)
    except REFUSALS:
        return None
    return found if len(found) == block.count(b"\n") else None


def is_schema_line(line: bytes) -> bool:
    """Whether a line is a SCHEMA message, and not a record that merely holds the word."""
    if b'"SCHEMA"' not in line:
        return False
    found = envelope(line)
    return found is not None and found.type == "SCHEMA"


def is_record_line(line: bytes) -> bool:
    """Whether a line is a RECORD message."""
    found = envelope(line)
    return found is not None and found.type == "RECORD"


ready(Envelope)
