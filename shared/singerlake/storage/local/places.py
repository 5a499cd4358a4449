"""Where objects lie below one folder of a POSIX file system, and how they are opened: no link is followed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

from singerlake.errors import AccessDeniedError, CorruptObjectError
from singerlake.storage.keys import check_key, is_key


class Places:
    """Of a lake's keys. Raises ``CorruptObjectError`` for what is not a key, and ``AccessDeniedError`` for links."""

    def __init__(self, root: Path) -> None:
        self.top = str(root).rstrip("/")
        self._url = str(root)
        self._plain: dict[str, tuple[str, tuple[int, int]]] = {}

    def path(self, key: str) -> str:
        """Where the object is kept; refuses symbolic links on the way below the root, the object itself among them."""
        path = f"{self.top}/{check_key(key)}"
        self._refuse_links(key, key)
        return path

    def path_to_write(self, key: str) -> str:
        """As ``path``, but whether the object itself is a link is for its writer to see, as ``present`` does."""
        path = f"{self.top}/{check_key(key)}"
        self._refuse_links(key, key.rpartition("/")[0])
        return path

    def place(self, key: str) -> str:
        """As ``path``, for reading, a million times. Its reader sees whether the object itself is a link."""
        path, is_there = self._found(key)
        if not is_there:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return path

    def status(self, key: str) -> os.stat_result | None:
        """Of the object, None where no regular file is at its place."""
        path, is_there = self._found(key)
        return self.present(key, path) if is_there else None

    def present(self, key: str, path: str) -> os.stat_result | None:
        """As ``status``, of an object whose ``path`` was told before."""
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(status.st_mode):
            raise self.link(key)
        return status if stat.S_ISREG(status.st_mode) else None

    def _found(self, key: str) -> tuple[str, bool]:
        """Where the object is kept, and whether its folder is there."""
        folder, _, name = check_key(key).rpartition("/")
        place, identity = self._folder(key, folder)
        return f"{place}/{name}", identity is not None

    def _folder(self, key: str, folder: str) -> tuple[str, tuple[int, int] | None]:
        """Where an object's folder is kept, and its identity if it is there; one look if that is as before."""
        with suppress(KeyError, OSError):
            place, identity = self._plain[folder]
            if identity == _identity(place or "/"):
                return place, identity
        place = f"{self.top}/{folder}".rstrip("/")
        holder, _, _ = folder.rpartition("/")
        if folder and self._folder(key, holder)[1] is None:
            return place, None
        try:
            # The root itself may be a link.
            status = os.lstat(place) if folder else os.stat(place or "/")
        except (FileNotFoundError, NotADirectoryError):
            return place, None
        if stat.S_ISLNK(status.st_mode):
            raise self.link(key)
        self._plain[folder] = place, (status.st_dev, status.st_ino)
        return self._plain[folder]

    def _refuse_links(self, key: str, below: str) -> None:
        """What cannot be looked at is for others to refuse."""
        path = self.top
        for part in below.split("/") if below else ():
            path = f"{path}/{part}"
            try:
                mode = os.lstat(path).st_mode
            except (OSError, ValueError):
                return
            if stat.S_ISLNK(mode):
                raise self.link(key)

    def link(self, key: str) -> AccessDeniedError:
        """The error for an object on whose way a link lies, or that is one."""
        return AccessDeniedError(
            "the lake contains a symbolic link, and links in a lake are not followed",
            hint="move what it points at into the lake, or make that place the lake_root",
            key=key,
            lake_root=self._url,
        )

    def bodies(self, keys: Sequence[str], most: int) -> Sequence[bytes | None]:
        bodies: list[bytes | None] = []
        for folder, names in _by_folder(keys):
            bodies += self._bodies_in(folder, names, most)
        return bodies

    def _bodies_in(self, folder: str, names: Sequence[str], most: int) -> Iterable[bytes | None]:
        """Of files in one folder, which is opened once, and has to be the one that no link led to."""
        left: list[bytes | None] = [None] * len(names)
        try:
            place, identity = self._folder(check_key(f"{folder}/x" if folder else "x"), folder)
            opened = os.open(place or "/", os.O_RDONLY | os.O_DIRECTORY)
        except (CorruptObjectError, AccessDeniedError, OSError):
            return left
        try:
            if _identity(opened) != identity:
                return left
            return [_body(name, opened, most) if is_key(name) else None for name in names]
        finally:
            os.close(opened)


def _by_folder(keys: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Names of keys, for each run of those that lie directly in one folder."""
    if not keys:
        return
    folder = keys[0].rpartition("/")[0] + "/"
    names = [key[len(folder) :] for key in keys]
    # What lies between two texts in their order begins as both of them do.
    alike = min(keys).startswith(folder) and max(keys).startswith(folder)
    if alike and "/" not in "".join(names):
        yield folder[:-1], names
        return
    for folder, group in groupby(keys, lambda key: key.rpartition("/")[0]):
        yield folder, [key.rpartition("/")[2] for key in group]


def opened(path: str) -> BinaryIO:
    """A regular file, to read. Raises ``IsADirectoryError`` for anything else, and ``OSError``."""
    return open(path, "rb", opener=lambda path, _: _regular(path)[0])


def read_whole(path: str) -> tuple[bytes, os.stat_result]:
    """A regular file's bytes, and its status. Raises as ``opened``."""
    descriptor, status = _regular(path)
    try:
        return _read(descriptor, 0, status.st_size), status
    finally:
        os.close(descriptor)


def read_part(path: str, start: int, length: int) -> tuple[bytes, int]:
    """At most ``length`` bytes of a regular file from ``start`` on, and how many it has. Raises as ``opened``."""
    descriptor, status = _regular(path)
    try:
        return _read(descriptor, start, min(length, status.st_size - start)), status.st_size
    finally:
        os.close(descriptor)


def _read(descriptor: int, start: int, length: int) -> bytes:
    """So many bytes, or fewer where there are no more. A file object would ask the system for four things beside."""
    body = os.pread(descriptor, length, start) if length > 0 else b""
    while 0 < len(body) < length and (more := os.pread(descriptor, length - len(body), start + len(body))):
        body += more
    return body


def _regular(path: str) -> tuple[int, os.stat_result]:
    """A descriptor of a regular file, and its status. To open another kind, as a pipe, might wait for a writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return descriptor, status
    os.close(descriptor)
    raise IsADirectoryError(errno.EISDIR, "not a regular file", path)


def _body(name: str, folder: int, most: int) -> bytes | None:
    """The whole of a regular file of at most that many bytes in an open folder; None of any other."""
    try:
        # What is not a file must not be waited for.
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return None
        # A byte more is asked for, and must not come.
        body = os.read(descriptor, status.st_size + 1)
        return body if len(body) == status.st_size else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _identity(folder: str | int) -> tuple[int, int]:
    status = os.stat(folder)
    return status.st_dev, status.st_ino
