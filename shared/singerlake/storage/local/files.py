"""What POSIX needs for a file to be whole, durable and changed by one process at a time."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from singerlake import open_file_lock

_locks: dict[Path, threading.Lock] = {}
_locks_guard = threading.Lock()


def _forget_locks() -> None:
    """A forked child has none of the threads that held these."""
    global _locks_guard
    _locks_guard = threading.Lock()
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
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


def write_durably(path: Path, body: bytes) -> None:
    """Fill a file and flush it to disk."""
    with path.open("wb", buffering=0) as file:
        rest = memoryview(body)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())


def fill_durably(path: Path, data: Iterable[bytes]) -> None:
    """Fill a file with what comes and flush it to disk."""
    with path.open("wb") as file:
        file.writelines(data)
        file.flush()
        os.fsync(file.fileno())


def copy_durably(source: Path, target: Path) -> None:
    """Copy a file's bytes and flush them to disk."""
    with source.open("rb") as reader, target.open("wb") as writer:
        shutil.copyfileobj(reader, writer, 1 << 20)
        writer.flush()
        os.fsync(writer.fileno())


def adopt(source: Path, target: Path) -> bool:
    """Move a file over ``target`` without copying, flushed, with the owner's group and the mode that ``target`` has.

    False, with the bytes of both files as they were, where that cannot be done: another file system, or a group
    that this process may not give.
    """
    model = target.stat()
    status = source.stat()
    if status.st_dev != model.st_dev or status.st_uid != model.st_uid:
        return False
    try:
        if status.st_gid != model.st_gid:
            os.chown(source, -1, model.st_gid)
        os.chmod(source, model.st_mode & 0o7777)
        os.utime(source)  # under a temporary name, an old file would count as abandoned
        descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(source, target)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.EPERM, errno.EACCES):
            return False
        raise
    return True


def sync_folder(folder: Path) -> None:
    """Flush a folder's names to disk, where the file system knows how to."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
