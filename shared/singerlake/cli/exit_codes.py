"""What a command ends with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from singerlake.errors import ConfigurationError, SingerlakeError

if TYPE_CHECKING:
    from singerlake.upkeep.result import Finding

USAGE, FAILED = 2, 1
ENDS_BY_SIGNAL, CHANGES_NOTHING = f"{__name__}.ends_by_signal", f"{__name__}.changes_nothing"


def ends_by_signal() -> None:
    """Have an interruption say nothing: it is how the command that runs ends."""
    click.get_current_context().meta[ENDS_BY_SIGNAL] = True


def changes_nothing() -> None:
    """Have an interruption of the command that runs say so."""
    click.get_current_context().meta[CHANGES_NOTHING] = True


def exit_code(errors: Iterable[SingerlakeError], findings: Iterable[Finding] = ()) -> int:
    """0 without errors; 2 where settings or permissions have to be mended; otherwise 1, as where findings are
    problems."""
    failed = max((USAGE if isinstance(error, ConfigurationError) else FAILED for error in errors), default=0)
    return failed or (FAILED if any(finding.problem for finding in findings) else 0)
