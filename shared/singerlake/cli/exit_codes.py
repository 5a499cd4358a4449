"""What a command ends with."""

from __future__ import annotations

from collections.abc import Iterable

from singerlake.errors import ConfigurationError, SingerlakeError

USAGE, FAILED = 2, 1


def exit_code(errors: Iterable[SingerlakeError]) -> int:
    """0 without errors; 2 where settings or permissions have to be mended; otherwise 1."""
    return max((USAGE if isinstance(error, ConfigurationError) else FAILED for error in errors), default=0)
