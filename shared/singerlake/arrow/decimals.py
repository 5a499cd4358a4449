"""From the texts of numbers to Arrow's decimals, exactly or not at all.

Arrow's own cast (pyarrow 26) multiplies to the scale wanted without a look at what 128 bits hold: of 733333.25 in a
decimal(38, 33) it makes another number, of 1e-77 in a decimal(10, 2) a zero, and of 1e-999999999 the end of the
process. It gets what it cannot get wrong: no exponent, and so few digits that 38 hold them before and after.
"""

from __future__ import annotations

import decimal
import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_DIGITS = 38
"""Digits that 128 bits hold, whichever they are."""
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


def decimals(texts: pa.Array, arrow: pa.Decimal128Type) -> pa.Array:
    """The numbers written in ``texts`` as ``arrow``. Raises ``pyarrow.ArrowInvalid`` where one is no number, or has
    more digits before or after the point than the type."""
    import pyarrow.compute as pc

    whole = arrow.precision - arrow.scale
    longest = pc.max(pc.binary_length(texts)).as_py()
    if longest is None or (longest <= whole and not pc.any(pc.match_substring_regex(texts, "[eE]")).as_py()):
        return texts.cast(arrow)
    plain = pc.match_substring_regex(texts, _plain(whole))
    if not pc.all(plain).as_py():
        others = [_written_out(text, arrow) for text in texts.filter(pc.invert(plain)).to_pylist()]
        texts = pc.replace_with_mask(texts, pc.invert(pc.fill_null(plain, True)), others)
    return texts.cast(arrow)


@lru_cache(maxsize=64)
def _plain(whole: int) -> str:
    """What Arrow reads right where ``whole`` digits may stand before the point: those and the ones after it are no more
    than it holds, and so are those that it adds."""
    return rf"^[+-]?0*[0-9]{{0,{whole}}}(\.[0-9]{{0,{_DIGITS - whole}}})?$"


def _written_out(text: str, arrow: pa.Decimal128Type) -> str:
    """The same number without an exponent and without needless zeros. Raises ``pyarrow.ArrowInvalid``."""
    import pyarrow as pa

    if not _NUMBER.fullmatch(text):
        raise pa.ArrowInvalid("no number")
    try:
        sign, digits, exponent = decimal.Decimal(text).as_tuple()
    except decimal.InvalidOperation:
        raise pa.ArrowInvalid("an exponent that no number has") from None
    assert isinstance(exponent, int)
    unscaled = "".join(map(str, digits)).strip("0")
    if not unscaled:
        return "0"
    exponent += len(digits) - len("".join(map(str, digits)).rstrip("0"))
    if exponent < -arrow.scale or len(unscaled) + exponent > arrow.precision - arrow.scale:
        raise pa.ArrowInvalid("more digits before or after the point than are declared")
    point = max(0, -exponent)
    padded = (unscaled + "0" * max(0, exponent)).rjust(point + 1, "0")
    return ("-" if sign else "") + (f"{padded[:-point]}.{padded[-point:]}" if point else padded)
