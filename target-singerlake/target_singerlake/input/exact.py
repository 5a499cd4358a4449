"""JSON that is written anew without losing a digit; its counterpart is ``singer_sdk.singerlib.json``."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any

import simplejson


def encode(value: Any) -> bytes:
    """JSON of a value whose floats are ``Decimal``: every digit as it came. A lone surrogate, which UTF-8 cannot hold,
    is escaped."""
    text: str = simplejson.dumps(value, ensure_ascii=False, **_STYLE)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        escaped: str = simplejson.dumps(value, ensure_ascii=True, **_STYLE)
        return escaped.encode("ascii")


def _other(value: Any) -> str:
    """What map expressions make that JSON has no type for, as singer-sdk writes it."""
    return value.isoformat() if isinstance(value, (datetime, date, time)) else str(value)


_STYLE: dict[str, Any] = {"use_decimal": True, "separators": (",", ":"), "default": _other, "allow_nan": True}
