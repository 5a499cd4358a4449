"""Temporary files of a run in memory, where the system has room for them there: tests wait for a disk as often as a
lake makes sure of its files, and that a disk keeps them is not what they look at."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

MEMORY = Path("/dev/shm")
PREFIX = "sl-"
ROOM = 4 << 30
"""Bytes that a run may take at most. A container may have 64 MiB there."""


def take_memory() -> None:
    """Have ``tempfile`` and all processes of this run use memory, unless ``$TMPDIR`` names another place."""
    if "TMPDIR" in os.environ or not _has_room():
        return
    for left in MEMORY.glob(f"{PREFIX}*"):
        # A run that was killed has left it.
        if left.name.removeprefix(PREFIX).isdecimal() and not Path("/proc", left.name.removeprefix(PREFIX)).exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = MEMORY / f"{PREFIX}{os.getpid()}"
    folder.mkdir()
    # Tests that give up their privileges have files here, too.
    folder.chmod(0o1777)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    atexit.register(_remove, folder, os.getpid())


def _has_room() -> bool:
    with suppress(OSError, AttributeError):
        about = os.statvfs(MEMORY)
        # Some tests write programs and run them.
        return about.f_bavail * about.f_frsize >= ROOM and not about.f_flag & os.ST_NOEXEC
    return False


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
