"""FarmHash's ``fingerprint64`` (google/farmhash, ``farmhashna``): "good, portable, forever-fixed". pyfarmhash computes
the same where it is installed; it has wheels for few platforms."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from struct import unpack_from

_ALL = (1 << 64) - 1
_K0 = 0xC3A5C85C97CB3127
_K1 = 0xB492B66FBE98F273
_K2 = 0x9AE16A3B2F90404F


def in_python(text: bytes) -> int:
    length = len(text)
    if length <= 16:
        return _of_16(text, length)
    if length <= 32:
        return _of_32(text, length)
    return _of_64(text, length) if length <= 64 else _of_many(text, length)


def _of_16(text: bytes, length: int) -> int:
    multiplier = _K2 + length * 2
    if length >= 8:
        first, last = (_word(text, 0) + _K2) & _ALL, _word(text, length - 8)
        mixed = (_rotated(last, 37) * multiplier + first) & _ALL
        return _folded(mixed, (_rotated(first, 25) + last) * multiplier & _ALL, multiplier)
    if length >= 4:
        first, last = (unpack_from("<I", text, at)[0] for at in (0, length - 4))
        return _folded((length + (first << 3)) & _ALL, last, multiplier)
    if length:
        ends = text[0] + (text[length >> 1] << 8), length + (text[-1] << 2)
        return _shifted(ends[0] * _K2 & _ALL ^ ends[1] * _K0 & _ALL) * _K2 & _ALL
    return _K2


def _of_32(text: bytes, length: int) -> int:
    multiplier = _K2 + length * 2
    a, b = _word(text, 0) * _K1 & _ALL, _word(text, 8)
    c, d = _word(text, length - 8) * multiplier & _ALL, _word(text, length - 16) * _K2 & _ALL
    mixed = (_rotated(a + b, 43) + _rotated(c, 30) + d) & _ALL
    return _folded(mixed, (a + _rotated(b + _K2, 18) + c) & _ALL, multiplier)


def _of_64(text: bytes, length: int) -> int:
    multiplier = _K2 + length * 2
    a, b = _word(text, 0) * _K2 & _ALL, _word(text, 8)
    c, d = _word(text, length - 8) * multiplier & _ALL, _word(text, length - 16) * _K2 & _ALL
    y = (_rotated(a + b, 43) + _rotated(c, 30) + d) & _ALL
    z = _folded(y, (a + _rotated(b + _K2, 18) + c) & _ALL, multiplier)
    e, f = _word(text, 16) * multiplier & _ALL, _word(text, 24)
    g, h = (y + _word(text, length - 32)) * multiplier & _ALL, (z + _word(text, length - 24)) * multiplier & _ALL
    mixed = (_rotated(e + f, 43) + _rotated(g, 30) + h) & _ALL
    return _folded(mixed, (e + _rotated(f + a, 18) + g) & _ALL, multiplier)


def _of_many(text: bytes, length: int) -> int:
    seed = 81
    x, y = seed * _K2 + _word(text, 0) & _ALL, seed * _K1 + 113 & _ALL
    z = _shifted(y * _K2 + 113 & _ALL) * _K2 & _ALL
    v = w = (0, 0)
    rest = (length - 1) & 63
    for at in range(0, length - 1 - rest, 64):
        x = _rotated(x + y + v[0] + _word(text, at + 8), 37) * _K1 & _ALL
        y = _rotated(y + v[1] + _word(text, at + 48), 42) * _K1 & _ALL
        x ^= w[1]
        y = (y + v[0] + _word(text, at + 40)) & _ALL
        z = _rotated(z + w[0], 33) * _K1 & _ALL
        v = _weak(text, at, v[1] * _K1 & _ALL, (x + w[0]) & _ALL)
        w = _weak(text, at + 32, (z + w[1]) & _ALL, (y + _word(text, at + 16)) & _ALL)
        z, x = x, z
    multiplier, at = _K1 + ((z & 0xFF) << 1), length - 64
    w = (w[0] + rest & _ALL, w[1])
    v = (v[0] + w[0] & _ALL, v[1])
    w = (w[0] + v[0] & _ALL, w[1])
    x = _rotated(x + y + v[0] + _word(text, at + 8), 37) * multiplier & _ALL
    y = _rotated(y + v[1] + _word(text, at + 48), 42) * multiplier & _ALL
    x ^= w[1] * 9 & _ALL
    y = (y + v[0] * 9 + _word(text, at + 40)) & _ALL
    z = _rotated(z + w[0], 33) * multiplier & _ALL
    v = _weak(text, at, v[1] * multiplier & _ALL, (x + w[0]) & _ALL)
    w = _weak(text, at + 32, (z + w[1]) & _ALL, (y + _word(text, at + 16)) & _ALL)
    z, x = x, z
    first = (_folded(v[0], w[0], multiplier) + _shifted(y) * _K0 + z) & _ALL
    return _folded(first, (_folded(v[1], w[1], multiplier) + x) & _ALL, multiplier)


def _word(text: bytes, at: int) -> int:
    word: int = unpack_from("<Q", text, at)[0]
    return word


def _rotated(value: int, by: int) -> int:
    value &= _ALL
    return (value >> by | value << 64 - by) & _ALL


def _shifted(value: int) -> int:
    return value ^ value >> 47


def _folded(u: int, v: int, multiplier: int) -> int:
    """128 bits folded into 64."""
    a = _shifted((u ^ v) * multiplier & _ALL)
    return _shifted((v ^ a) * multiplier & _ALL) * multiplier & _ALL


def _weak(text: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """32 bytes of ``text`` and two seeds mixed into two words."""
    first, second, third, fourth = unpack_from("<4Q", text, at)
    a = (a + first) & _ALL
    b = _rotated(b + a + fourth, 21)
    sum_of_three = a + second + third
    b = (b + _rotated(sum_of_three, 44)) & _ALL
    return (sum_of_three + fourth) & _ALL, (b + a) & _ALL


@cache
def best() -> Callable[[bytes], int]:
    """The fastest ``fingerprint64``. It is looked for when it is needed: pyfarmhash takes half a megabyte."""
    try:
        import farmhash
    except ImportError:
        return in_python
    of_farmhash: Callable[[bytes], int] = farmhash.fingerprint64
    return of_farmhash


def fingerprint64(text: bytes) -> int:
    """The fingerprint of ``text``, an unsigned integer of 64 bits."""
    return best()(text)
