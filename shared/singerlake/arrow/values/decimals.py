"""From the texts of numbers to Arrow's decimals, exactly or not at all.

Arrow's own cast (pyarrow 26) multiplies to the scale wanted without a look at what 128 bits hold: of 733333.25 in a
decimal(38, 33) it makes another number, of 1e-77 in a decimal(10, 2) a zero, and of 1e-999999999 the end of the
process. It gets what it cannot get wrong: no exponent, and so few digits that 38 hold them before and after.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_DIGITS = 38
"""Digits that 128 bits hold, whichever they are."""
_NUMBER = re.compile(r"(?P<sign>[+-]?)(?P<whole>[0-9]*)\.?(?P<part>[0-9]*)([eE](?P<direction>[+-]?)(?P<power>[0-9]+))?")
_POWER = 18
"""Digits of an exponent that a text could be long enough to make up for, and that ``int`` takes."""


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

    match = _NUMBER.fullmatch(text)
    if match is None or not (match["whole"] or match["part"]):
        raise pa.ArrowInvalid("no number")
    written = match["whole"] + match["part"]
    digits = written.strip("0")
    if not digits:
        return "0"
    power = (match["power"] or "").lstrip("0")
    if len(power) > _POWER:
        raise pa.ArrowInvalid("more zeros than are declared")
    exponent = int((match["direction"] or "") + (power or "0"))
    exponent += len(written) - len(written.rstrip("0")) - len(match["part"])
    if exponent < -arrow.scale or len(digits) + exponent > arrow.precision - arrow.scale:
        raise pa.ArrowInvalid("more digits before or after the point than are declared")
    after = max(0, -exponent)
    padded = (digits + "0" * max(0, exponent)).rjust(after + 1, "0")
    return match["sign"] + (f"{padded[:-after]}.{padded[-after:]}" if after else padded)
