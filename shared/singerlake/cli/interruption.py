"""How a command ends on a signal: in order, so that it releases its locks and removes what it began."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes: 128 and the number of the signal, as shells have them."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came, as from a scheduler that stops a job."""


@contextmanager
def terminable() -> Iterator[None]:
    """Have SIGTERM end the block as Ctrl-C does, with ``Terminated``. Python takes signals on the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    # A second signal must not stop the cleanup that the first one began.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated
