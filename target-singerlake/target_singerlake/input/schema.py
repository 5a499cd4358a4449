"""SCHEMA messages: what they must hold, and whether two of them say the same. STATE messages: the value that is passed
on when all before it is safe."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec

from singerlake.errors import InvalidSchemaError
from singerlake.format.decoders import prepare_decoders
from singerlake.format.schema_hash import DEEPEST, canonical_schema, is_too_deep
from singerlake.format.state.model import StreamSchema
from target_singerlake.errors import unreadable
from target_singerlake.input.messages import encode
from target_singerlake.input.passthrough import envelope, parse

_MARK = b'"SCHEMA"'
_SETS = ("key_properties", "bookmark_properties")


@dataclass(frozen=True)
class Schema:
    """A SCHEMA message: ``line`` as it goes into files, ``identity`` equal for messages that differ only in order."""

    stream: str
    line: bytes
    content: StreamSchema
    identity: bytes


def schema_of(line: bytes, number: int) -> Schema:
    """The SCHEMA message on a line. Raises ``UnreadableLineError``, ``InvalidSchemaError``."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise unreadable("a SCHEMA message is not JSON", line, number) from error
    _, stream = envelope(message, line, number)
    return schema_from(message, line, stream, number)


def schema_from(message: dict[str, Any], line: bytes, stream: str, number: int) -> Schema:
    """The same for a message that is parsed. Raises ``InvalidSchemaError``."""
    where = {"line": number, "stream": stream}
    schema = message.get("schema")
    if not isinstance(schema, dict):
        raise InvalidSchemaError("a SCHEMA message has no object as its schema", hint="correct the tap", **where)
    if not isinstance(schema.get("properties"), dict):
        raise InvalidSchemaError(
            "a schema has no properties", hint="Singer streams are objects; correct the tap", **where
        )
    if is_too_deep(schema):
        raise InvalidSchemaError(f"a schema is nested more than {DEEPEST} levels", hint="correct the tap", **where)
    names = {field: _names(message.get(field), field, where) for field in _SETS}
    rest = {name: value for name, value in message.items() if name not in ("schema", *_SETS)}
    rest |= {field: sorted(set(values)) for field, values in names.items()}
    identity = canonical_schema(schema) + b"\n" + json.dumps(rest, sort_keys=True).encode()
    if _MARK not in line:
        # Readers find a file's SCHEMA line by this word; a tap may have spelt it with escapes.
        line = encode(message) + b"\n"
    return Schema(stream, line, StreamSchema(schema=schema, **names), identity)


def _names(value: Any, field: str, where: dict[str, Any]) -> tuple[str, ...]:
    """A list of property names; a single one may stand alone, as singer-sdk has it too."""
    if value is None:
        return ()
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidSchemaError(f"{field} of a SCHEMA message is not a list of names", hint="correct the tap", **where)
    return tuple(names)


class _StateMessage(msgspec.Struct, gc=False):
    value: msgspec.Raw


_decode_state = msgspec.json.Decoder(_StateMessage).decode
_NOTHING = (b"null", b"{}")


def state_value(line: bytes, number: int) -> bytes | None:
    """The bytes of a STATE message's value; None for a value that holds nothing, which would erase bookmarks."""
    try:
        value = bytes(_decode_state(line).value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        content = parse(line, number)
        if not isinstance(content, dict) or "value" not in content:
            raise unreadable("a STATE message has no value", line, number) from None
        value = encode(content["value"])
    return None if b"".join(value.split()) in _NOTHING else value


prepare_decoders(_StateMessage)
