"""What a time means that is given as an option: ``90s``, ``30m``, ``12h``, ``7d``."""

from __future__ import annotations

import re
from datetime import timedelta

import click

_LONGEST = timedelta(days=36_500)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def duration(text: str) -> timedelta:
    """``90s``, ``30m``, ``12h``, ``7d``."""
    found = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a duration; write 90s, 30m, 12h or 7d")
    found_time = timedelta(**{_UNITS[found.group(2)]: int(found.group(1))})
    if found_time > _LONGEST:
        raise click.BadParameter(f"{text!r} is longer than {_LONGEST.days}d")
    return found_time
