"""STATE on standard output: the bytes that came, one line each, flushed, since they promise that data is safe."""

from __future__ import annotations

import os
import sys
from typing import Any


class StateOutput:
    """Where STATE goes. Once it cannot be written, ``broken`` says why, and nothing is tried any more."""

    def __init__(self) -> None:
        self.broken = ""
        self._last = b""

    def write(self, value: bytes) -> None:
        """One STATE's value; the same one again is left out."""
        if self.broken or value == self._last:
            return
        try:
            self._emit(value + b"\n")
        except (OSError, ValueError, AttributeError) as error:
            # Closed, full, or not there at all: commits continue.
            self.broken = (getattr(error, "strerror", None) or str(error)).lower()
            _silence()
        else:
            self._last = value

    def _emit(self, line: bytes) -> None:
        out: Any = sys.stdout
        below = getattr(out, "buffer", None)
        if below is None:
            out.write(line.decode("utf-8", "surrogateescape"))
            out.flush()
            return
        out.flush()
        below.write(line)
        below.flush()


def _silence() -> None:
    """Let the interpreter's own flush at the end find an open file."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
