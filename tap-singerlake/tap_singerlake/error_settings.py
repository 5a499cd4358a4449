"""Errors of the places that the tap writes to, in the words of the setting that names each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from singerlake import singer_file
from singerlake.errors import SingerlakeError


@contextmanager
def place_of(setting: str) -> Iterator[None]:
    """Errors within are those of the place that ``setting`` names, not of the lake."""
    try:
        yield
    except SingerlakeError as error:
        error.rename("lake_root", setting)
        error.rename("the lake's folder", f"the folder of {setting}")
        error.rename("the lake", setting)
        raise


@contextmanager
def on_spool(path: Path | None = None) -> Iterator[None]:
    """Errors of the operating system within are those of the disk of a spool at ``path``. The tap has no setting for
    it: it is where $TMPDIR says."""
    try:
        yield
    except OSError as error:
        failed = singer_file.spool_error(error, path or Path(error.filename or ""))
        failed.rename("spool_dir", "TMPDIR")
        raise failed from error
