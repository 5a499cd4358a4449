"""What becomes of memory that the process has freed."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h."""
_LARGEST = 32 << 20
"""The largest M_MMAP_THRESHOLD that glibc takes."""


def keep_freed_memory(most: int) -> None:
    """Have the C library keep up to ``most`` bytes for what is allocated next, where it is glibc. Lines wait in many
    small pieces and are freed a member at a time: given back each time, and paged in again, they would cost a process
    that captures many streams a fifth of its time."""
    with suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, most)
        mallopt(_MMAP_THRESHOLD, _LARGEST)
