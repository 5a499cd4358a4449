"""Files of this machine below allowed folders. What leads out of them, and what is not a file, is not opened."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

from singerlake.attached.sources.locations import CORRECT, FOR_BYTES, LocalFile, may_be_base64, not_allowed
from singerlake.attached.sources.source import OpenedFile, changed
from singerlake.errors import SettingError, UnreadableSourceError
from singerlake.spools import file_system

_OF_THE_KERNEL = frozenset(
    ("proc", "sysfs", "cgroup", "cgroup2", "devpts", "devtmpfs", "debugfs", "tracefs", "securityfs", "configfs", "bpf")
)
"""File systems whose files are views of the kernel or of processes, such as their environment."""
_MADE_BY_THE_KERNEL = ("/proc/", "/sys/")
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", 0) if hasattr(os, "O_NOFOLLOW") else 0
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC if _FOLDER else 0


class LocalFiles:
    """The files below ``folders``, whose own links are followed. Raises ``SettingError`` where the system cannot."""

    def __init__(self, folders: Sequence[str]) -> None:
        if folders and os.open not in os.supports_dir_fd:
            raise SettingError(
                "file_sources has a folder, which this system cannot read safely",
                hint="leave it out, or use WSL",
                entry=folders[0],
            )
        self._folders = [(folder, os.path.realpath(folder)) for folder in folders]

    def trouble(self) -> list[tuple[str, str]]:
        """Those of the folders that cannot be folders of files now, each with what is wrong with it."""
        return [(entry, why) for entry, folder in self._folders if (why := _trouble(folder))]

    def open(self, location: LocalFile) -> OpenedFile:
        """Open a file. Raises ``UnreadableSourceError``."""
        entry = folder = ""
        try:
            real = os.path.realpath(location.path)
            within = (each for each in self._folders if real.startswith(os.path.join(each[1], "")))
            entry, folder = next(within, ("", ""))
            if not folder:
                # Before anything is said about the file: what is not allowed is not looked for either.
                raise _bytes() if may_be_base64(location.path) else not_allowed()
            if real.startswith(_MADE_BY_THE_KERNEL):
                raise _no_file()
            descriptor = _opened_below(folder, real[len(os.path.join(folder, "")) :].split("/"))
        except (OSError, ValueError) as error:
            if folder and (why := _trouble(folder)):
                raise _no_folder(entry, why) from error
            raise _unreadable(error) from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or _kind(status.st_dev) in _OF_THE_KERNEL:
                raise _no_file()
        except BaseException:
            os.close(descriptor)
            raise
        return OpenedFile(FileStream(descriptor, status.st_mtime_ns), status.st_size, location.name)


class FileStream(io.FileIO):
    """Raises ``UnreadableSourceError`` in the place of ``OSError``, and at the end of a file that was ``modified`` at
    another time than that: what was written into it may be there in part, whatever its size."""

    def __init__(self, descriptor: int, modified: int) -> None:
        super().__init__(descriptor)
        self.modified = modified

    def read(self, size: int | None = -1, /) -> bytes:
        try:
            data = super().read(size) or b""
            if not data and os.fstat(self.fileno()).st_mtime_ns != self.modified:
                raise changed()
            return data
        except OSError as error:
            raise _unreadable(error) from error


def _opened_below(folder: str, names: Sequence[str]) -> int:
    """A descriptor of the file to which ``names`` lead from ``folder``, one after the other. None of them may be a
    symbolic link: the path had none when it was looked at. Raises ``OSError``, and ``UnreadableSourceError``."""
    at = os.open(folder, _FOLDER)
    try:
        for name in names[:-1]:
            below = os.open(name, _FOLDER, dir_fd=at)
            os.close(at)
            at = below
        # A device may act on being opened.
        if not stat.S_ISREG(os.stat(names[-1], dir_fd=at, follow_symlinks=False).st_mode):
            raise _no_file()
        return os.open(names[-1], _FILE, dir_fd=at)
    finally:
        os.close(at)


@lru_cache(maxsize=64)
def _kind(device: int) -> str | None:
    with suppress(OSError):
        return file_system(device)
    return None


def _trouble(folder: str) -> str:
    """Why it cannot be a folder of files; empty where it can."""
    try:
        is_folder = stat.S_ISDIR(os.stat(folder).st_mode)
    except FileNotFoundError:
        return "there is no such folder"
    except OSError as error:
        return f"it cannot be looked at: {_reason(error)}"
    return "" if is_folder else "it is not a folder"


def _no_folder(entry: str, why: str) -> UnreadableSourceError:
    return UnreadableSourceError(
        f"file_sources allows {entry!r}, but {why}",
        hint="correct the entry or make the folder, or set on_missing_file to record",
    )


def _bytes() -> UnreadableSourceError:
    return UnreadableSourceError("its place is not allowed, or the text is bytes as base64", hint=FOR_BYTES)


def _no_file() -> UnreadableSourceError:
    return UnreadableSourceError("it is a folder, a link, a device or a pipe, and no file", hint=CORRECT)


def _unreadable(error: OSError | ValueError) -> UnreadableSourceError:
    return UnreadableSourceError(f"it cannot be read: {_reason(error)}", hint=CORRECT)


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or type(error).__name__).lower()
