"""What ``--journal`` means: which files of a lake need not be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from singerlake.cli.output import counted, shown, size
from singerlake.upkeep.result import Tally


def journal_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take ``--journal``."""
    return click.option(
        "--journal",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Note each file that was read in FILE; skip files that it notes as sound and that have not changed.",
    )(command)


def left_out(journal: Path, noted: Tally, read: Tally) -> str:
    """What was not read, since a journal says that it was before."""
    return f"  in {shown(str(journal))} as sound, and unchanged since: {part(noted, read + noted)}"


def part(some: Tally, whole: Tally) -> str:
    """How much of a whole, in files and in bytes."""
    return f"{some.files:,} of {counted(whole.files, 'file')}, {size(some.bytes)} of {size(whole.bytes)}"
