"""Folders in which data files grow, and the end of those that killed processes left behind.

A folder holds a file under whose ``flock`` its process lives; the kernel gives the lock back however the process ends.
So neither process ids, which come again and which containers all begin with 1, nor ages tell who lives. The lock is
taken before the file gets its name: if the file is not locked, its process is gone.

A ``flock`` of another host may not be seen on a shared file system. The file says in which boot of which kernel its
process ran. On a file system of local disks, no process of another boot is alive; on any other, the folder stays.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import stat
import tempfile
from pathlib import Path

from singerlake import open_file_lock

logger = logging.getLogger(__name__)

_PREFIX = "singerlake-spool-"
_MARK = "singerlake-spool.lock"
_UNNAMED = "singerlake-spool.new"
_FORMAT = 1
_FILE = re.compile(r"[0-9a-w][0-9a-v]{15}\Z")
"""Spooled files have their id as name, as Spark's have."""
_LOCAL = frozenset(("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"))
"""File systems of disks that one kernel alone has mounted."""
_LONGEST = 4096


class SpoolFolder:
    """A folder of this process's own, and the descriptor under whose lock it is, where the file system knows locks. As
    a context it ends with the block."""

    def __init__(self, path: Path, mark: int | None) -> None:
        self.path = path
        self._mark = mark

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder with all that is in it. What cannot be removed stays for a later process."""
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(self.path), key=lambda name: name == _MARK):
                os.unlink(self.path / name)
            os.rmdir(self.path)
        mark, self._mark = self._mark, None
        if mark is not None:
            os.close(mark)


class Spools:
    """The spool folders below ``parent``, or the system's temporary directory. ``boot`` is the kernel's by default."""

    def __init__(self, parent: str | None, *, boot: str | None = None) -> None:
        self._parent = parent or tempfile.gettempdir()
        self._boot = boot or _boot()

    def make(self) -> SpoolFolder:
        """A new folder, after the dead ones were removed. Raises ``OSError``."""
        self.sweep()
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._parent))
        return SpoolFolder(path, self._marked(path))

    def sweep(self) -> list[str]:
        """Remove the folders of processes that are gone; their names. What is not surely one of them stays."""
        gone: list[str] = []
        if not open_file_lock.AVAILABLE:
            return gone
        try:
            with os.scandir(self._parent) as entries:
                names = [entry.name for entry in entries if entry.name.startswith(_PREFIX)]
        except OSError:
            return []
        for name in sorted(names):
            try:
                if self._removed(name):
                    gone.append(name)
            except OSError as error:
                logger.debug("left the spool folder %s: %s", name, error)
        if gone:
            logger.info("removed %d spool folders in %s that killed runs had left", len(gone), self._parent)
        return gone

    def _marked(self, folder: Path) -> int | None:
        """The descriptor of the folder's mark, locked; None if that is not possible; the folder is then not removed."""
        if self._boot is None or not open_file_lock.AVAILABLE:
            return None
        mark = None
        try:
            mark = os.open(folder / _UNNAMED, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            open_file_lock.take(mark)
            os.write(mark, json.dumps({"format": _FORMAT, "boot": self._boot}).encode())
            os.rename(folder / _UNNAMED, folder / _MARK)
        except OSError as error:
            logger.debug("the spool folder %s has no mark: %s", folder, error)
            if mark is not None:
                os.close(mark)
            return None
        return mark

    def _removed(self, name: str) -> bool:
        folder = os.open(os.path.join(self._parent, name), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not _is_own(os.fstat(folder)):
                return False
            mark = os.open(_MARK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            try:
                if not self._is_dead(folder, mark):
                    return False
                for each in sorted(os.listdir(folder), key=lambda each: each == _MARK):
                    os.unlink(each, dir_fd=folder)
                os.rmdir(os.path.join(self._parent, name))
                return True
            finally:
                os.close(mark)
        finally:
            os.close(folder)

    def _is_dead(self, folder: int, mark: int) -> bool:
        """Whether the folder is a spool's, holds nothing but what a spool holds, and its process is gone; then its mark
        is locked by this one. Raises ``OSError`` where the lock is held."""
        status = os.fstat(mark)
        if not (stat.S_ISREG(status.st_mode) and _is_own(status)):
            return False
        open_file_lock.take(mark)
        if os.fstat(mark).st_nlink != 1:  # another sweep came to its end between the two
            return False
        try:
            told = json.loads(os.pread(mark, _LONGEST, 0))
            known, boot = told["format"] == _FORMAT, told["boot"]
        except (ValueError, TypeError, LookupError):
            return False
        if not known or (boot != self._boot and file_system(os.fstat(folder).st_dev) not in _LOCAL):
            return False
        return all(_is_spooled(each, folder) for each in os.listdir(folder))


def _is_own(status: os.stat_result) -> bool:
    """Whether it is this user's, and no other can have put anything into it."""
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _is_spooled(name: str, folder: int) -> bool:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return (name == _MARK or _FILE.match(name) is not None) and stat.S_ISREG(status.st_mode)


def _boot() -> str | None:
    """The id of this kernel's run, the same in all its containers."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() or None
    except OSError:
        return None


def file_system(device: int) -> str | None:
    """The kind of file system a device number belongs to, where Linux tells."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        fields = line.split(" ")
        if len(fields) > 4 and fields[2] == wanted and "-" in fields:
            return fields[fields.index("-") + 1]
    return None
