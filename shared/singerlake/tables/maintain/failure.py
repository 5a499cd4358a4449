"""A table that could not be looked after, and why."""

from __future__ import annotations

from dataclasses import dataclass

from singerlake.errors import SingerlakeError


@dataclass(frozen=True, slots=True)
class TableFailure:
    """A table that could not be worked on, and why. The others were."""

    table: str
    error: SingerlakeError
