"""What a time means that is given as an option: ``90s``, ``30m``, ``12h``, ``7d``."""

from __future__ import annotations

from datetime import timedelta

import click

from singerlake.errors import SettingError
from singerlake.format.metadata.retention import age_of


def duration(text: str) -> timedelta:
    """``90s``, ``30m``, ``12h``, ``7d``."""
    try:
        return age_of(text, "duration")
    except SettingError as error:
        raise click.BadParameter(f"{error.message}; write 90s, 30m, 12h or 7d") from None
