"""Where objects lie below one folder of a POSIX file system, and how they are opened: no symbolic link below it is
followed, and what is no regular file is no object."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

from singerlake.errors import AccessDeniedError, CorruptObjectError
from singerlake.storage.keys import check_key, is_key

try:
    from singerlake.storage.local import _bodies as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

_NO_NAME = b""
"""Of no file."""


class Places:
    """Of the keys of a lake whose root is ``root``. Methods raise ``CorruptObjectError`` for what is no key, and
    ``AccessDeniedError`` where a link lies on the way."""

    def __init__(self, root: Path) -> None:
        self.top = str(root).rstrip("/")
        self._url = str(root)
        self._plain: dict[str, tuple[str, tuple[int, int]]] = {}

    def path(self, key: str) -> Path:
        """Where the object is kept; refuses symbolic links on the way below the root."""
        path = f"{self.top}/{check_key(key)}"
        self._refuse_links(key, key)
        return Path(path)

    def place(self, key: str) -> str:
        """As ``path``, for reading, which is done a million times."""
        folder, _, name = check_key(key).rpartition("/")
        path = f"{self._folder(key, folder)[0]}/{name}"
        if os.path.islink(path):
            raise self._link(key)
        return path

    def _folder(self, key: str, folder: str) -> tuple[str, tuple[int, int] | None]:
        """Where the folder of an object is kept, and its identity where it is there. One that is the one it was when no
        link led to it needs one look, however deep it lies."""
        with suppress(KeyError, OSError):
            place, identity = self._plain[folder]
            if identity == _identity(place):
                return place, identity
        place = f"{self.top}/{folder}".rstrip("/")
        self._refuse_links(key, folder)
        try:
            identity = _identity(place)
        except OSError:
            return place, None
        self._plain[folder] = place, identity
        return place, identity

    def _refuse_links(self, key: str, below: str) -> None:
        path = self.top
        for part in below.split("/") if below else ():
            path = f"{path}/{part}"
            if os.path.islink(path):
                raise self._link(key)

    def _link(self, key: str) -> AccessDeniedError:
        return AccessDeniedError(
            "a symbolic link lies inside the lake, and links are not followed there",
            hint="move what it points at into the lake, or make that place the lake_root",
            key=key,
            lake_root=self._url,
        )

    def bodies(self, keys: Sequence[str], most: int) -> Sequence[bytes | None]:
        """As ``Storage.bodies``."""
        if compiled is None:
            return [None] * len(keys)
        found: list[bytes | None] = []
        for folder, names in _by_folder(keys):
            found += self._bodies_in(folder, names, most)
        return found

    def _bodies_in(self, folder: str, names: Sequence[str], most: int) -> Sequence[bytes | None]:
        assert compiled is not None
        try:
            place, identity = self._folder(check_key(f"{folder}/x" if folder else "x"), folder)
        except (CorruptObjectError, AccessDeniedError):
            identity = None
        if identity is None:
            return [None] * len(names)
        # All in one, as there are millions; a text that is in order is so between each two of its slashes.
        joined = "/".join(names)
        if is_key(joined):
            encoded = os.fsencode(joined).split(b"/")
        else:
            encoded = [os.fsencode(name) if is_key(name) else _NO_NAME for name in names]
        return compiled.read(os.fsencode(place), *identity, tuple(encoded), most)


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


def opened(path: str | Path) -> BinaryIO:
    """A regular file, to read. Raises ``IsADirectoryError`` for anything else, and ``OSError``."""
    return open(path, "rb", opener=_regular)


def _regular(path: str, flags: int) -> int:
    """The descriptor of a regular file: of what is none, a pipe for one, an open would wait for somebody to write."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise IsADirectoryError(errno.EISDIR, "not a regular file", path)


def _identity(folder: str) -> tuple[int, int]:
    status = os.stat(folder)
    return status.st_dev, status.st_ino
