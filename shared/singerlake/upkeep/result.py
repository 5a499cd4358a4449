"""What results of upkeep have in common. A result is frozen; its fields, in their order, are what ``--json`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from singerlake.errors import SettingError, SingerlakeError

FOR_PYTHON: Mapping[str, Any] = {"json": False}
"""The metadata of a field that ``--json`` does not write."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A stream that could not be worked on, and why. The others were."""

    tap: str
    stream: str
    error: SingerlakeError


def check_now(now: bool, dry_run: bool) -> None:
    """Raise ``SettingError`` where both are given."""
    if now and dry_run:
        raise SettingError("now is given with dry_run", hint="give one of them")


def check_least(what: str, value: float | timedelta, least: int = 0) -> None:
    """Raise ``SettingError`` where a time or a count is less than ``least``, or is not a number."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if number >= least:
        return
    # What is not a number is neither less nor more.
    must = "must be a number" if number != number else f"must be {least} or more" if least else "must not be negative"
    shown = f"{number:g} s" if isinstance(value, timedelta) else str(value)
    raise SettingError(f"{what} {must}: {shown}", hint=f"give {least} or more")
