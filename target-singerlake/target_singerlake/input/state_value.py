"""STATE messages: the value that is passed on when all before it is safe."""

from __future__ import annotations

import msgspec

from singerlake.format.decoders import prepare_decoders
from target_singerlake.errors import unreadable
from target_singerlake.input.exact import encode
from target_singerlake.input.passthrough import parse


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
