"""STATE: which one may be emitted, the newest before which every message is committed; and on standard output the bytes
that came, one line each, flushed, since they promise that data is safe."""

from __future__ import annotations

import os
import sys
from typing import Any


class HeldStates:
    """STATE messages between their coming and the commit of all that came before them.

    Time is counted in STATE messages: an *epoch* is the stretch before the n-th one. A file that was opened in epoch
    n holds back every STATE from the n-th on. Of two STATEs between which no file that is still open was opened, only
    the newer one can ever matter, so no more are held than files are open, and one.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._open: dict[int, int] = {}
        self._held: dict[int, bytes] = {}

    def opened(self) -> int:
        """A file gets its first message now; give what comes back to ``committed``."""
        self._open[self.epoch] = self._open.get(self.epoch, 0) + 1
        return self.epoch

    def opened_with(self, epoch: int) -> int:
        """A file gets a message that held back STATE since ``epoch``, and still does; gives what ``committed``
        takes."""
        self._open[epoch] += 1
        return epoch

    def committed(self, epoch: int) -> None:
        """All of a file that was opened in ``epoch`` is committed."""
        self._open[epoch] -= 1
        if not self._open[epoch]:
            del self._open[epoch]
            if epoch < self.epoch:
                self._held.pop(epoch - 1, None)

    def arrived(self, value: bytes) -> None:
        """A STATE came; ``value`` are the bytes of its value."""
        if self.epoch not in self._open:
            self._held.pop(self.epoch - 1, None)
        self._held[self.epoch] = value
        self.epoch += 1

    def safe(self) -> bytes | None:
        """The newest STATE that may be emitted and has not been given before; None where there is none."""
        # Files are opened in the order of their epochs, so the first open one is the oldest.
        limit = next(iter(self._open), self.epoch)
        value = None
        for epoch in list(self._held):
            if epoch >= limit:
                break
            value = self._held.pop(epoch)
        return value


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
