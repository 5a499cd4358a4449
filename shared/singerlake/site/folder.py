"""The folder a site is written to: nothing in it is overwritten or removed but what this package wrote there.

``singerlake-site.json`` in the folder names every file of the site. Pages are first written into a folder of their own
inside it, so that a build that fails leaves the site as it was. Then the list is replaced by one of the old names and
the new ones, the pages are moved to their places, and what only the old site had is removed: whenever that is
interrupted, the next build knows which files are the site's.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from singerlake.errors import (
    AccessDeniedError,
    CorruptObjectError,
    SettingError,
    StorageFullError,
    StorageUnavailableError,
)

INDEX = "singerlake-site.json"
_FORMAT = 1
_PATH = re.compile(r"(?:[a-z0-9][a-z0-9_~-]*/)*[a-z0-9][a-z0-9_~-]*\.(?:html|css|js)\Z")
"""Of the files that a site has: no such path leads out of the folder."""
_STAGE = ".singerlake-site-new"


@dataclass(frozen=True, slots=True)
class SiteFolder:
    """An output folder that may be written to; ``known`` are the files that an earlier build wrote. Every method may
    raise ``AccessDeniedError``, ``StorageFullError``, ``StorageUnavailableError``, and ``SettingError`` where a folder
    of the site is a symbolic link."""

    root: Path
    known: frozenset[str]

    @contextmanager
    def building(self) -> Iterator[None]:
        """Around everything else that is done with the folder: it is the site's from now on, and what was staged is
        gone in the end."""
        new = not (self.root / INDEX).exists()
        with _translated(self.root):
            self._forget_staged()
            self._list(self.known)
        try:
            yield
        except BaseException:
            with suppress(OSError):
                self._forget_staged()
                if new and self._listed() == self.known:
                    (self.root / INDEX).unlink()
            raise
        with _translated(self.root):
            self._forget_staged()

    def stage(self, path: str, body: bytes) -> None:
        """Write one file of the new site, which is not visible yet."""
        target = self.root / _STAGE / path
        with _translated(target):
            try:
                target.write_bytes(body)
            except FileNotFoundError:
                target.parent.mkdir(parents=True)
                target.write_bytes(body)

    def publish(self, paths: Iterable[str]) -> list[str]:
        """Move what was staged to its place, and remove those files of an earlier build that are not among ``paths``,
        with folders that are empty then; the paths of those that were there. Raises ``SettingError``, and changes
        nothing, where a file is in the way that no earlier build wrote."""
        wanted = sorted(set(paths))
        folders = sorted({(self.root / path).parent for path in wanted})
        with _translated(self.root):
            for folder in folders:
                self._check_folder(folder)
            for path in wanted:
                self._check_free(path)
            self._list({*wanted, *self.known})
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
            for path in wanted:
                os.replace(self.root / _STAGE / path, self.root / path)
            removed = [path for path in sorted(self.known - set(wanted)) if self._removed(path)]
            self._list(wanted)
        return removed

    def _check_folder(self, folder: Path) -> None:
        if self._leads_elsewhere(folder):
            raise SettingError(
                "a folder of the site is a symbolic link",
                hint="nothing was changed; remove the link, or choose another folder",
                folder=str(folder),
            )
        for each in (folder, *folder.parents):
            if self.root in each.parents and os.path.lexists(each) and not each.is_dir():
                raise _in_the_way(each)

    def _check_free(self, path: str) -> None:
        target = self.root / path
        if target.is_dir() or (path not in self.known and os.path.lexists(target)):
            raise _in_the_way(target)

    def _removed(self, path: str) -> bool:
        target = self.root / path
        if self._leads_elsewhere(target.parent) or target.is_dir():
            return False
        try:
            target.unlink()
        except FileNotFoundError:
            return False
        for folder in target.parents:
            if folder == self.root:
                break
            with suppress(OSError):
                folder.rmdir()
        return True

    def _leads_elsewhere(self, folder: Path) -> bool:
        """Whether a folder below the root is reached by a symbolic link; the root itself may be one."""
        return any(each.is_symlink() for each in (folder, *folder.parents) if self.root in each.parents)

    def _forget_staged(self) -> None:
        shutil.rmtree(self.root / _STAGE, ignore_errors=True)

    def _listed(self) -> frozenset[str]:
        return _files_in(self.root / INDEX)

    def _list(self, paths: Iterable[str]) -> None:
        temporary = self.root / _STAGE / INDEX
        temporary.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(json.dumps({"format": _FORMAT, "files": sorted(paths)}, indent=1).encode() + b"\n")
        os.replace(temporary, self.root / INDEX)


def _in_the_way(path: Path) -> SettingError:
    return SettingError(
        "a page's path holds a file that is not of this site",
        hint="nothing was changed; move it away, or choose another folder",
        file=str(path),
    )


def open_folder(root: Path, *, beside: bool = False) -> SiteFolder:
    """The folder for a site, which need not be there yet. ``beside``: it may hold files of another making, which stay.

    Raises ``SettingError`` where it is not a folder, or holds other files and not ``beside``; ``CorruptObjectError``
    where its list of files cannot be read; ``AccessDeniedError``.
    """
    with _translated(root):
        if not root.exists():
            return SiteFolder(root, frozenset())
        if not root.is_dir():
            raise SettingError("the output is not a folder", hint="choose another with --output", output=str(root))
        own = (root / INDEX).is_file()
        if (root / _STAGE).is_symlink() or ((root / _STAGE).exists() and not own):
            raise SettingError(
                f"{_STAGE} is where new pages are written first, and another program made it",
                hint="move it away, or choose another folder",
                output=str(root),
            )
        if own:
            return SiteFolder(root, _files_in(root / INDEX))
        if not beside and any(root.iterdir()):
            raise SettingError(
                "the output folder holds other files, but no site of this program",
                hint="choose an empty folder, or write beside them with --beside; none of them is ever overwritten",
                output=str(root),
            )
        return SiteFolder(root, frozenset())


def _files_in(index: Path) -> frozenset[str]:
    try:
        content = json.loads(index.read_bytes())
        files = content["files"]
        if content["format"] != _FORMAT or not isinstance(files, list):
            raise ValueError("of another format")
        for path in files:
            if not isinstance(path, str) or not _PATH.match(path):
                raise ValueError(f"{path!r} is not a page of a site")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptObjectError(
            f"the list of the site's files cannot be read: {error}",
            hint="nothing was written; choose another folder, or empty this one yourself",
            file=str(index),
        ) from error
    return frozenset(files)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = str(error.filename or path)
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise AccessDeniedError("the output folder cannot be written", hint="choose another", path=where) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFullError(
                "no space is left for the site", hint="make room, then run again", path=where
            ) from error
        if error.errno in (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG):
            raise SettingError(
                f"the site cannot be written here: {error.strerror}", hint="choose another folder", path=where
            ) from error
        raise StorageUnavailableError(
            f"the output folder cannot be read: {error.strerror}", hint="run again", path=where
        ) from error
