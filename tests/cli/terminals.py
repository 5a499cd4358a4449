"""Terminals of any width, with the command line run in this process."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from singerlake.cli.main import main


@contextmanager
def terminal(columns: int) -> Iterator[tuple[int, bytearray]]:
    """The end of a terminal that programs write to, and what they wrote, which is whole after the block."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    written = bytearray()

    def read() -> None:
        try:
            while piece := os.read(ours, 4096):
                written.extend(piece)
        except OSError:
            # The other end of a terminal is closed by an error.
            pass

    reading = threading.Thread(target=read)
    reading.start()
    try:
        yield theirs, written
    finally:
        os.close(theirs)
        reading.join()
        os.close(ours)


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int, *arguments: object) -> str:
    """What a command writes, to standard output and standard error, which are a terminal of that width."""
    return shown_by(monkeypatch, columns, lambda: main([str(argument) for argument in arguments]))


def shown_by(monkeypatch: pytest.MonkeyPatch, columns: int, work: Callable[[], object]) -> str:
    """What ``work`` writes to such a terminal, until it returns or exits."""
    with (
        terminal(columns) as (theirs, written),
        os.fdopen(os.dup(theirs), "w") as stream,
        monkeypatch.context() as patched,
        suppress(SystemExit),
    ):
        patched.setenv("TERM", "xterm-256color")
        for name in ("COLUMNS", "NO_COLOR", "SINGERLAKE_LAKE_ROOT"):
            patched.delenv(name, raising=False)
        patched.setattr(sys, "stdout", stream)
        patched.setattr(sys, "stderr", stream)
        work()
    return written.decode().replace("\r\n", "\n")


def screen(written: str) -> list[str]:
    """The lines that are to be seen on a terminal in the end, which is wide enough for all of them."""
    lines: list[str] = []
    for written_line in re.sub(r"\x1b\[\d*m", "", written).split("\n"):
        line = ""
        for piece in written_line.split("\r"):
            line = piece + line[len(piece) :]
        lines.append(line.rstrip())
    while lines and not lines[-1]:
        lines.pop()
    return lines
