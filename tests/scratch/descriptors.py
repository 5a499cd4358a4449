"""The files of a folder that this process has open."""

from __future__ import annotations

import os
from pathlib import Path

DESCRIPTORS = Path("/proc/self/fd")


def open_below(folder: Path) -> list[str]:
    """What descriptors name below a folder, files without a name too. Descriptors of other tests come and go with
    their threads and with the collector of garbage, so that a count of all is no evidence. Empty without ``/proc``."""
    found: list[str] = []
    for descriptor in DESCRIPTORS.iterdir() if DESCRIPTORS.is_dir() else ():
        try:
            name = os.readlink(descriptor)
        except FileNotFoundError:
            continue
        if Path(name).is_relative_to(folder):
            found.append(name)
    return found
