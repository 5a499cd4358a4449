"""Runs a command and writes what it took to a file descriptor: ``python -S launcher.py DESCRIPTOR COMMAND...``.

The kernel counts the memory of the process that starts another one into the peak of that other one. This process is
small, so that the peak is the command's own; it imports next to nothing for that reason.
"""

from __future__ import annotations

import os
import sys
import time


def main() -> None:
    """Write the seconds of wall clock, those of processor, the peak in KiB and the exit code, between spaces."""
    descriptor, argv = int(sys.argv[1]), sys.argv[2:]
    os.set_inheritable(descriptor, False)
    started = time.perf_counter()
    process = os.posix_spawnp(argv[0], argv, os.environ)
    _, status, usage = os.wait4(process, 0)
    wall, cpu = time.perf_counter() - started, usage.ru_utime + usage.ru_stime
    os.write(descriptor, f"{wall} {cpu} {usage.ru_maxrss} {os.waitstatus_to_exitcode(status)}".encode())


if __name__ == "__main__":
    main()
