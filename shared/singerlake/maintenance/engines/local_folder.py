"""A folder of this machine for a file that is uploaded when it is whole."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from singerlake.errors import AccessDeniedError, StorageFullError, StorageUnavailableError


@contextmanager
def local_folder(made: str) -> Iterator[Path]:
    """A new folder, which goes with the block; ``made``, in the plural, is what is made there. Raises
    ``StorageFullError``, ``AccessDeniedError`` or ``StorageUnavailableError`` for what its disk refuses."""
    where = "$TMPDIR"
    try:
        where = tempfile.gettempdir()
        with tempfile.TemporaryDirectory(prefix="singerlake-") as folder:
            yield Path(folder)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFullError(
                f"no space is left for {made}", hint="free some, or set $TMPDIR", folder=where
            ) from error
        if isinstance(error, PermissionError):
            raise AccessDeniedError(f"{made} cannot be written", hint="set $TMPDIR", folder=where) from error
        reason = (error.strerror or "the disk refused").lower()
        raise StorageUnavailableError(
            f"{made} cannot be written: {reason}", hint="check the disk, or set $TMPDIR", folder=where
        ) from error
