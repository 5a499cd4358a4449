"""Which files a person means who names files and folders, checked before anything is read."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from singerlake.errors import AccessDeniedError, SettingError

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_Place = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file. ``name`` is what its record calls it; ``size`` is its bytes when it was found."""

    path: str
    name: str
    size: int


def find_files(given: Sequence[str], *, recursive: bool, lake: str | None) -> list[FoundFile]:
    """The files that ``given`` names, in that order. A file is called by its own name; those in a folder, which
    ``recursive`` allows, by their path below it, in the byte order of names, and links are followed. ``lake`` is the
    folder of the lake that they are for, where it is one: neither it nor a folder in it must be among them.

    Raises ``SettingError`` for what is not there, is no regular file, has a name that is not UTF-8 or the name of
    another one; ``AccessDeniedError`` for a folder that cannot be read.
    """
    home = os.path.realpath(lake) if lake is not None and os.path.isdir(lake) else None
    found: list[FoundFile] = []
    for path in given:
        status = _status(path)
        if not stat.S_ISDIR(status.st_mode):
            found.append(_file(path, os.path.basename(path), status))
            continue
        if not recursive:
            raise SettingError("this is a folder", hint="add --recursive, or name the files in it", file=path)
        found += _below(path, status, home)
    named: dict[str, str] = {}
    for file in found:
        if file.name in named:
            raise SettingError(
                f"two files would be called {file.name!r}",
                hint="put a folder that holds both, with --recursive, or put one after the other",
                file=file.path,
                other=named[file.name],
            )
        named[file.name] = file.path
    return found


def _below(top: str, status: os.stat_result, home: str | None) -> Iterator[FoundFile]:
    """Without recursion: folders may be deeper than the calls that the interpreter allows."""
    above = [_entered(top, status, [], home)]
    pending = [iter(_names(top))]
    folders = [""]
    while pending:
        name = next(pending[-1], None)
        if name is None:
            pending.pop()
            above.pop()
            folders.pop()
            continue
        inside = folders[-1] + name
        path = os.path.join(top, inside)
        status = _status(path)
        if stat.S_ISDIR(status.st_mode):
            above.append(_entered(path, status, above, home))
            pending.append(iter(_names(path)))
            folders.append(inside + "/")
        else:
            yield _file(path, inside, status)


def _entered(path: str, status: os.stat_result, above: Sequence[_Place], home: str | None) -> _Place:
    place = _place(status)
    if place in above:
        raise SettingError("this folder is a link to a folder above it", hint="remove the link", file=path)
    if home is not None and os.path.join(os.path.realpath(path), "").startswith(os.path.join(home, "")):
        raise SettingError("the lake itself is among the files", hint="name another folder", file=path)
    return place


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder), key=os.fsencode)
    except OSError as error:
        raise _unreadable(folder, error) from error


def _place(status: os.stat_result) -> _Place:
    return status.st_dev, status.st_ino


def _status(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        if not isinstance(error, FileNotFoundError | NotADirectoryError) and error.errno != errno.ELOOP:
            raise _unreadable(path, error) from error
        message = "this link leads to no file" if os.path.islink(path) else "no such file"
        raise SettingError(message, hint="check its name", file=path) from error


def _file(path: str, name: str, status: os.stat_result) -> FoundFile:
    require_regular(path, status)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise SettingError(
            "the name of this file is not UTF-8, which records are", hint="rename it", file=path
        ) from None
    return FoundFile(path, name, status.st_size)


def require_regular(path: str, status: os.stat_result) -> None:
    """Raise ``SettingError`` for what is no regular file."""
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "not a regular file")
        raise SettingError(f"this is {kind}", hint="name a regular file, with its content on a disk", file=path)


def _unreadable(path: str, error: OSError) -> AccessDeniedError | SettingError:
    if isinstance(error, PermissionError):
        return AccessDeniedError("this cannot be read", hint="check the permissions of it and its folder", file=path)
    return SettingError(f"this cannot be read: {(error.strerror or '').lower()}", hint="check it", file=path)
