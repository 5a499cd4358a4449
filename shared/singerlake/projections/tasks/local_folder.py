"""A folder of this machine for a file that is uploaded when it is whole."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from singerlake.errors import AccessDeniedError, StorageFullError, StorageUnavailableError


@contextmanager
def local_folder() -> Iterator[Path]:
    """A new folder, which goes with the block. Raises ``StorageFullError``, ``AccessDeniedError`` or
    ``StorageUnavailableError`` for what its disk refuses."""
    where = "$TMPDIR"
    try:
        where = tempfile.gettempdir()
        with tempfile.TemporaryDirectory(prefix="singerlake-") as folder:
            yield Path(folder)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFullError(
                "no space is left for files of a table", hint="free some, or set $TMPDIR", folder=where
            ) from error
        if isinstance(error, PermissionError):
            raise AccessDeniedError("files of a table cannot be written", hint="set $TMPDIR", folder=where) from error
        reason = (error.strerror or "the disk refused").lower()
        raise StorageUnavailableError(
            f"files of a table cannot be written: {reason}", hint="check the disk, or set $TMPDIR", folder=where
        ) from error
