"""A folder of this machine for a file that is uploaded when it is whole."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from singerlake.errors import AccessDeniedError, SingerlakeError, StorageFullError, StorageUnavailableError

UNKNOWN = "$TMPDIR"
"""Where a file would be, as long as no folder for it was found."""


@contextmanager
def local_folder(made: str) -> Iterator[Path]:
    """A new folder, which goes with the block; ``made``, in the plural, is what is made there. Raises
    ``StorageFullError``, ``AccessDeniedError`` or ``StorageUnavailableError`` for what its disk refuses."""
    where = UNKNOWN
    try:
        where = tempfile.gettempdir()
        with tempfile.TemporaryDirectory(prefix="singerlake-") as folder:
            yield Path(folder)
    except OSError as error:
        raise refusal(error, made, where) from error


def refusal(error: OSError, made: str, where: str) -> SingerlakeError:
    """What the disk of ``where`` refused while ``made`` were written, as ``local_folder`` raises it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFullError(f"no space is left for {made}", hint="free some, or set $TMPDIR", folder=where)
    if isinstance(error, PermissionError):
        return AccessDeniedError(f"{made} cannot be written", hint="set $TMPDIR", folder=where)
    reason = (error.strerror or "the disk refused").lower()
    return StorageUnavailableError(
        f"{made} cannot be written: {reason}", hint="check the disk, or set $TMPDIR", folder=where
    )
