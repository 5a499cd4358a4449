"""JSON as a variant: the binary encoding that Spark and Parquet share, so that an engine need not parse the text again.

The layout is the specification "Variant Binary Encoding" of Apache Parquet (``VariantEncoding.md``, version 1). Numbers
keep what was written: integers of up to 64 bits, decimals of up to 38 digits; one that is written with an exponent is a
double.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from singerlake.arrow.values.values import Number

_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_NULL, _TRUE, _FALSE, _INT8 = range(4)
_DOUBLE, _DECIMAL4, _LONG_STRING = 7, 8, 16
_SHORTEST = 64
"""Bytes from which on a string is not a short one."""
_DIGITS = (9, 18, 38)
"""The most digits, and the most of them after the point, of a decimal of 4, 8 and 16 bytes."""
_LONGEST_INTEGER = 19
"""Digits of the largest integer of 64 bits."""
_VERSION_SORTED = 0b0001_0001
_CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class TooManyDigitsError(ValueError):
    """No type of a variant holds this number exactly."""


def encode(value: Any) -> tuple[bytes, bytes]:
    """``value`` (as ``values.parse`` gives it) and the metadata that belongs to it. Raises ``TooManyDigitsError`` for a
    number that no type of a variant holds exactly, ``UnicodeEncodeError`` for a string that is not Unicode."""
    keys = sorted({key.encode() for key in _keys(value)})
    numbered = {key: number for number, key in enumerate(keys)}
    return _value(value, numbered), _metadata(keys)


def _keys(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from _keys(item)


def _metadata(keys: list[bytes]) -> bytes:
    body = b"".join(keys)
    width = _width(max(len(body), len(keys)))
    head = bytes([_VERSION_SORTED | (width - 1) << 6]) + len(keys).to_bytes(width, "little")
    return head + _numbers(_offsets(keys), width) + body


def _value(value: Any, keys: dict[bytes, int]) -> bytes:
    if isinstance(value, Number):
        return _number(value)
    if isinstance(value, str):
        text = value.encode()
        if len(text) < _SHORTEST:
            return bytes([len(text) << 2 | _SHORT_STRING]) + text
        return _primitive(_LONG_STRING) + len(text).to_bytes(4, "little") + text
    if isinstance(value, dict):
        return _object(value, keys)
    if isinstance(value, list):
        return _array(value, keys)
    return _primitive({None: _NULL, True: _TRUE, False: _FALSE}[value])


def _primitive(kind: int) -> bytes:
    return bytes([kind << 2 | _PRIMITIVE])


def _object(value: dict[str, Any], keys: dict[bytes, int]) -> bytes:
    ordered = sorted((key.encode(), item) for key, item in value.items())
    items = [_value(item, keys) for _, item in ordered]
    ids = [keys[key] for key, _ in ordered]
    id_width, offset_width = _width(max(ids, default=0)), _width(sum(map(len, items)))
    large = len(items) > 255
    kind = large << 4 | (id_width - 1) << 2 | (offset_width - 1)
    head = bytes([kind << 2 | _OBJECT]) + len(items).to_bytes(4 if large else 1, "little")
    return head + _numbers(ids, id_width) + _numbers(_offsets(items), offset_width) + b"".join(items)


def _array(value: list[Any], keys: dict[bytes, int]) -> bytes:
    items = [_value(item, keys) for item in value]
    width = _width(sum(map(len, items)))
    large = len(items) > 255
    kind = large << 2 | (width - 1)
    head = bytes([kind << 2 | _ARRAY]) + len(items).to_bytes(4 if large else 1, "little")
    return head + _numbers(_offsets(items), width) + b"".join(items)


def _number(text: Number) -> bytes:
    if text in _CONSTANTS:
        return _primitive(_DOUBLE) + struct.pack("<d", _CONSTANTS[text])
    if "e" in text or "E" in text:
        double = float(text)
        if double in (float("inf"), float("-inf")):
            raise TooManyDigitsError("no double holds it")
        return _primitive(_DOUBLE) + struct.pack("<d", double)
    whole, _, fraction = text.partition(".")
    digits = (whole + fraction).lstrip("-0")
    if not fraction and len(digits) <= _LONGEST_INTEGER:
        number = int(whole)
        for power in range(4):
            if -(1 << (8 << power) - 1) <= number < 1 << (8 << power) - 1:
                return _primitive(_INT8 + power) + number.to_bytes(1 << power, "little", signed=True)
    for size, most in enumerate(_DIGITS):
        # Readers refuse a decimal with more digits after the point than its size has, whatever its unscaled integer is.
        if len(digits) <= most and len(fraction) <= most:
            unscaled = int(whole + fraction).to_bytes(4 << size, "little", signed=True)
            return _primitive(_DECIMAL4 + size) + bytes([len(fraction)]) + unscaled
    raise TooManyDigitsError("more digits than a decimal has")


def _offsets(items: list[bytes]) -> list[int]:
    total, offsets = 0, [0]
    for item in items:
        total += len(item)
        offsets.append(total)
    return offsets


def _width(largest: int) -> int:
    """Bytes that hold numbers up to ``largest``."""
    return max(1, (largest.bit_length() + 7) // 8)


def _numbers(values: list[int], width: int) -> bytes:
    return b"".join(value.to_bytes(width, "little") for value in values)
