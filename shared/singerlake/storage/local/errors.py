"""What the operating system's errors mean for a lake in a folder."""

from __future__ import annotations

import errno
import os

from singerlake.errors import (
    AccessDeniedError,
    CorruptObjectError,
    NameTooLongError,
    SingerlakeError,
    StorageFullError,
    StorageUnavailableError,
    UnknownOutcomeError,
)
from singerlake.storage.local.files import sync_folder


def translate(error: OSError, key: str, root: str) -> SingerlakeError:
    """The error that says what a person can do about one of the operating system's, of the object at ``key`` of the
    lake in the folder ``root``."""
    kind: type[SingerlakeError] = StorageUnavailableError
    message, hint = "the file system failed", "check the disk, then run again"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        kind, message, hint = StorageFullError, "no space is left for the lake", "free space or raise the quota"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        kind, message = AccessDeniedError, "permission denied in the lake's folder"
        hint = "check its owner and mode, or change lake_root"
    elif error.errno == errno.ELOOP:
        kind, message = AccessDeniedError, "the lake contains a symbolic link, and links in a lake are not followed"
        hint = "move what it points at into the lake, or remove it"
    elif error.errno == errno.ENAMETOOLONG:
        kind, message = NameTooLongError, "a name is too long for the lake's file system"
        hint = "shorten the tap id or the stream name"
    elif isinstance(error, (NotADirectoryError, IsADirectoryError, FileExistsError)):
        kind, message = CorruptObjectError, "a file has the name of a folder, or a folder the name of a file"
        hint = "move it out of the lake"
    return kind(message, hint=hint, key=key, lake_root=root, reason=error.strerror or str(error))


def settle(path: str) -> None:
    """Make a rename or an unlink durable; where that fails, a crash may still undo what readers have seen."""
    try:
        sync_folder(os.path.dirname(path))
    except OSError as error:
        raise UnknownOutcomeError(
            "a file was changed, but its folder could not be flushed to disk",
            hint="check the disk, then read the object back",
            path=path,
            reason=error.strerror or str(error),
        ) from error
