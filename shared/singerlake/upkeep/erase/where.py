"""A condition as users write it, with the files of values that it names."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from singerlake.errors import SettingError
from singerlake.upkeep.erase.condition import Condition, parse_condition


def parse_where(text: str, option: str = "where") -> Condition:
    """What the value of ``option`` means; files that it names are read. Raises ``SettingError``."""
    return parse_condition(text, partial(_content, option))


def _content(option: str, name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise SettingError(
            f"{option}: cannot read {name!r}: {reason}", hint="name a file with a value a line"
        ) from None
