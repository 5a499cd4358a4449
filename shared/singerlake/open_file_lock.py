"""The lock of an open file, which the system gives back when its process ends. Windows has none."""

from __future__ import annotations

from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:
    fcntl = None

AVAILABLE = fcntl is not None


def wait_for(descriptor: int) -> None:
    """Lock an open file, once no other process holds it. Raises ``OSError``."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def take(descriptor: int) -> None:
    """Lock an open file. Raises ``BlockingIOError`` where another process holds it, and ``OSError``."""
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
