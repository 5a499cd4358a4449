"""The handlers of signals that a test process has: the SDK sets its own for good."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def signals_kept() -> Iterator[None]:
    """Give SIGINT and SIGTERM their handlers of before back at the end."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
