"""JSON both ways for metadata: fast, and for what msgspec refuses, lone surrogates, once more in Python.

Taps may send any name that a JSON text can carry. A lone surrogate has no UTF-8, so it stays an escape on storage.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()


def encode(value: Any) -> bytes:
    """``value`` (JSON values and structs) as compact JSON."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode("ascii")


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
