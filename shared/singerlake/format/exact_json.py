"""JSON both ways for metadata: fast, and for what msgspec refuses, lone surrogates, once more in Python.

Taps may send any name that a JSON text can carry. A lone surrogate has no UTF-8, so it stays an escape on storage.
A float that JSON has no number for (NaN, the infinities) is written as null, so that every reader can take the rest.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, TypeVar

import msgspec

from singerlake.errors import CorruptObjectError
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.files.file_list import FileList

T = TypeVar("T")


def _plain(value: Any) -> Any:
    if isinstance(value, (AppendOnlyList, FileList)):
        return list(value)
    raise NotImplementedError(f"no JSON for {type(value).__name__}")


_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_ENCODER = msgspec.json.Encoder(enc_hook=_plain)


def encode(value: Any) -> bytes:
    """``value`` (JSON values and structs) as compact JSON."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return json.dumps(finite(msgspec.to_builtins(value, enc_hook=_plain)), separators=(",", ":")).encode("ascii")


def ascii_json(value: Any) -> str:
    """JSON text in ASCII, for a place of any encoding; every character beyond is an escape."""
    text = encode(value).decode()
    return text if text.isascii() else _BEYOND_ASCII.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def indented(value: Any) -> bytes:
    """The same for people to read: two spaces a level, a newline at the end."""
    try:
        return msgspec.json.format(_ENCODER.encode(value), indent=2) + b"\n"
    except UnicodeEncodeError:
        return json.dumps(finite(msgspec.to_builtins(value, enc_hook=_plain)), indent=2).encode("ascii") + b"\n"


def finite(value: Any) -> Any:
    """JSON values with None for NaN and infinities. Without recursion: a schema may be deeper than calls may be."""
    root = [value]
    pending: list[tuple[Any, Any]] = [(root, 0)]
    while pending:
        holder, at = pending.pop()
        node = holder[at]
        if isinstance(node, float) and not math.isfinite(node):
            holder[at] = None
        elif isinstance(node, dict):
            holder[at] = made = dict(node)
            pending += [(made, name) for name in made]
        elif isinstance(node, list | tuple):
            holder[at] = items = list(node)
            pending += [(items, place) for place in range(len(items))]
    return root[0]


def decode(body: bytes, kind: type[T]) -> T:
    """``body`` as a ``kind``. Raises ``msgspec.DecodeError`` where it is not one."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if b"\\u" not in body:
            raise msgspec.DecodeError(str(error)) from error
        try:
            return msgspec.convert(json.loads(body), kind)
        except (ValueError, RecursionError) as again:
            raise msgspec.DecodeError(str(again)) from again


def decode_stored(body: bytes, kind: type[T], what: str, *, hint: str, **where: object) -> T:
    """As ``decode``, of what is stored. Raises ``CorruptObjectError``, which says that it is ``what``, and why."""
    try:
        return decode(body, kind)
    except msgspec.DecodeError as error:
        raise CorruptObjectError(f"{what}: {error}", hint=hint, **where) from error
