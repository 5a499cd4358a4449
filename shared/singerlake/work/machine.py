"""What this process may use of its machine. A container sees all cores and all memory of the host, and is killed where
it takes them: its control groups say how much it has (cgroups(7), version 1 and 2)."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

CGROUPS, MINE = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def processors() -> int:
    """The cores that this process may run on, at least 1; a part of one counts as one."""
    cores = [len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1]
    for group in _groups("cpu"):
        version_1 = _numbers(group / "cpu.cfs_quota_us") + _numbers(group / "cpu.cfs_period_us")
        for limit in (_numbers(group / "cpu.max"), version_1):
            if len(limit) == 2:
                quota, period = limit
                cores.append(math.ceil(quota / period))
    return min(cores)


def memory() -> int | None:
    """Bytes of memory that this process may take; None where the system does not say."""
    limits: list[int] = []
    for group in _groups("memory"):
        limits += _numbers(group / "memory.max") + _numbers(group / "memory.limit_in_bytes")
    if hasattr(os, "sysconf") and {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= os.sysconf_names.keys():
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits, default=None)


def _numbers(file: Path) -> list[int]:
    """What a file of a group says; nothing where it sets no limit: it is missing, or says ``max`` or -1."""
    try:
        numbers = list(map(int, file.read_text().split()))
    except (OSError, ValueError):
        return []
    return numbers if min(numbers, default=0) > 0 else []


def _groups(controller: str) -> Iterator[Path]:
    """The group of this process and those around it."""
    try:
        lines = MINE.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = CGROUPS / controller if controllers else CGROUPS
        # In a container the path may be the host's, and its own group is mounted as the root.
        group = root / path.strip("/")
        yield from (folder for folder in (group, *group.parents) if folder == root or root in folder.parents)
