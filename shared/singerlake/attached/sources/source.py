"""A file that is being read, wherever it is."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from singerlake.attached.sources.locations import CORRECT
from singerlake.clock import Clock
from singerlake.errors import UnreadableSourceError


class Readable(Protocol):
    """What gives a file's bytes in order."""

    def read(self, size: int, /) -> bytes:
        """Between one byte and ``size``; none at the end. Raises ``UnreadableSourceError``."""

    def close(self) -> None:
        """Give back what it holds."""


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """An opened file: ``size`` in bytes and ``media_type``, as far as known before reading, and its ``name`` there."""

    stream: Readable | BinaryIO
    size: int | None
    name: str
    media_type: str | None = None


def changed() -> UnreadableSourceError:
    """The error for a file that was not read as it was at one moment. Read anew, it may be."""
    return UnreadableSourceError("it ends early, or changed while it was read", hint=CORRECT, passing=True)


class Deadline:
    """The end of the time for one file. ``stopped``: the run ends, and nobody waits for the file any more."""

    def __init__(self, clock: Clock, seconds: float, stopped: threading.Event | None = None) -> None:
        self._clock = clock
        self._end = clock.monotonic() + seconds
        self._stopped = stopped or threading.Event()

    def left(self) -> float:
        """Seconds, more than 0. Raises ``UnreadableSourceError``, and ``CancelledError`` where the run ends."""
        if self._stopped.is_set():
            raise CancelledError
        left = self._end - self._clock.monotonic()
        if left <= 0:
            raise UnreadableSourceError(
                "reading it takes too long", hint="raise file_timeout_seconds, or set on_missing_file to record"
            )
        return left

    def wait(self, seconds: float) -> None:
        """Wait, if so much is left. Raises as ``left``."""
        self._clock.sleep(min(seconds, self.left()))
        self.left()


class Opener(Protocol):
    """Opens what texts in records name. Safe to share between threads."""

    def open(self, text: str, deadline: Deadline) -> OpenedFile:
        """Raises ``UnreadableSourceError``, and ``CancelledError`` as ``deadline`` does."""

    def close(self) -> None:
        """Give back what is kept for the next file."""
