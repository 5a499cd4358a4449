"""What results of upkeep have in common. A result is frozen; its fields, in their order, are what ``--json`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
