"""The stream beside another one that has those of its records which do not match their schema. Pure."""

from __future__ import annotations

import json

from singerlake.format.lines.spans import members
from singerlake.interpreter.process import with_room

_SUFFIX = "__quarantine"
PROPERTY, RULE, SCHEMA = COLUMNS = ("_quarantine_property", "_quarantine_rule", "_quarantine_schema")
"""What a record there has behind its own: where the value is that does not match, the keyword of JSON Schema that it
does not match, and the hash of the schema."""


def quarantine_of(stream: str) -> str:
    """The name of a stream's quarantine."""
    return stream + _SUFFIX


def is_quarantine(stream: str) -> bool:
    """Whether a stream is called as those beside others are."""
    return stream.endswith(_SUFFIX)


def released(line: bytes, stream: str) -> bytes:
    """A RECORD message of a quarantine as one of the stream again, with every digit of it. Raises ``ValueError``."""
    return with_room(lambda: _released(line.decode(), stream)).encode()


def _released(text: str, stream: str) -> str:
    message = _members(text)
    record = {name: value for name, value in _members(message["record"]).items() if name not in COLUMNS}
    return _object({**message, "stream": json.dumps(stream), "record": _object(record)})


def _members(text: str) -> dict[str, str]:
    return {each.name: text[each.begin : each.end] for each in members(text)}


def _object(values: dict[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in values.items()) + "}"
