"""What POSIX needs for a file to be whole, durable and changed by one process at a time."""

from __future__ import annotations

import errno
import os
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from singerlake import open_file_lock
from singerlake.errors import UnknownOutcomeError
from singerlake.interpreter.threads import waiting
from singerlake.storage.keys import TEMPORARY_PREFIX

_TIME_STEPS = (1, 100, 1_000, 1_000_000, 1_000_000_000, 2_000_000_000)
"""Nanoseconds: the resolutions that file systems keep modification times in."""

_locks: dict[str, threading.Lock] = {}
_locks_guard = threading.Lock()


def _forget_locks() -> None:
    """A forked child has none of the threads that held these."""
    global _locks_guard
    _locks_guard = threading.Lock()
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


@contextmanager
def exclusive(path: str) -> Iterator[None]:
    """Hold the ``flock`` of a file, which is made if need be and never removed, against all processes and threads.

    Network file systems turn ``flock`` into a lock of the whole process, so threads take turns before they ask for it.
    """
    with _locks_guard:
        turn = _locks.setdefault(path, threading.Lock())
    with turn:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            open_file_lock.wait_for(descriptor)
            yield
        finally:
            os.close(descriptor)


class Temporary:
    """A file at ``path``, under a random name, until it gets an object's; as a context it is removed at the end, else.
    ``descriptor`` writes to it until ``close``; not ``made``, it is made by other means. Raises ``OSError``."""

    def __init__(self, path: str, *, made: bool = True) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666) if made else -1
        self._named = False

    def __enter__(self) -> Temporary:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if not self._named:
            with suppress(FileNotFoundError):
                os.unlink(self.path)

    def write_durably(self, body: bytes) -> None:
        rest = memoryview(body)
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]
        _flush(self.descriptor)

    def close(self) -> None:
        """Write no more: some file systems of other machines do not rename a file that is open."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def stamp(self, taken: int = -1) -> os.stat_result:
        """Set a modification time that makes the ETag new, and return the file's status. Inode numbers and sizes
        repeat, and kernels step file times by milliseconds. So the time gets digits of its own below the millisecond,
        from the random name, and is pushed past ``taken``, that of the file it replaces, for any resolution."""
        file = self.descriptor if self.descriptor >= 0 else self.path
        status = os.stat(file)
        wanted = status.st_mtime_ns // 1_000_000 * 1_000_000 + zlib.crc32(os.fsencode(self.path)) % 1_000_000
        for nanoseconds in (wanted, *(taken + step for step in _TIME_STEPS)):
            os.utime(file, ns=(status.st_atime_ns, nanoseconds))
            status = os.stat(file)
            if status.st_mtime_ns > taken:
                break
        return status

    def rename(self, path: str) -> None:
        """Give it the name of an object, in the place of the one that has it."""
        os.replace(self.path, path)
        self._named = True


def fill_durably(path: str, data: Iterable[bytes]) -> None:
    """Fill a file with what comes and flush it to disk."""
    with open(path, "wb") as file:
        file.writelines(data)
        file.flush()
        _flush(file.fileno())


def adopt(source: Path, target: str, model: os.stat_result) -> bool:
    """Move a file to ``target`` without copying, flushed, with the owner's group and the mode of ``model``, a file that
    was made in the same folder. False, with the bytes as they were, where that cannot be done: another file system, or
    a group that this process may not give."""
    status = os.stat(source)
    if status.st_dev != model.st_dev or status.st_uid != model.st_uid:
        return False
    try:
        if status.st_gid != model.st_gid:
            os.chown(source, -1, model.st_gid)
        if status.st_mode != model.st_mode:
            os.chmod(source, model.st_mode & 0o7777)
        descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.utime(descriptor)  # under a temporary name, an old file would count as abandoned
            _flush(descriptor)
        finally:
            os.close(descriptor)
        os.replace(source, target)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.EPERM, errno.EACCES):
            return False
        raise
    return True


def _flush(descriptor: int) -> None:
    with waiting():
        os.fsync(descriptor)


def sync_folder(folder: str) -> None:
    """Flush a folder's names to disk, where the file system knows how to."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _flush(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def make_folder(folder: str) -> bool:
    """Make a folder, with those above it. Whether this call surely made it, so that it is empty. Raises ``OSError``."""
    try:
        os.mkdir(folder)
    except FileNotFoundError:
        os.makedirs(folder, exist_ok=True)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise
    else:
        return True
    return False


def files_not_whole(top: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    """The files below ``top`` that are not whole, by name, as far as their names begin with ``prefix``; no links."""
    for path in sorted((top / prefix.rpartition("/")[0]).rglob(TEMPORARY_PREFIX + "*")):
        name = path.relative_to(top).as_posix()
        if name.startswith(prefix) and path.is_file() and not path.is_symlink():
            yield name, path


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
