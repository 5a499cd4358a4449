"""Room for libraries that walk schemas by recursion: what is the project's own does without."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

CALLS = 8_000
"""Calls within one another. singer-sdk's libraries take some 4,000 to hold a record against the deepest schema that
there may be (``hashing.DEEPEST``), and Python allows 1,000 by itself."""


READING = 10_000
"""Calls within one another that reading a line may take: more than a writer has, so that what it took is read again by
a process that did not make room, and by one that is many calls deep already."""


def make_room(calls: int = CALLS) -> None:
    """Let this process make as many calls within one another; a limit that is higher stays."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), calls))


def with_room(read: Callable[[], T]) -> T:
    """What ``read`` gives; it is called again, with room, where it met the interpreter's limit. Raises
    ``RecursionError`` where that is not enough, and what ``read`` raises."""
    try:
        return read()
    except RecursionError:
        make_room(READING)
        return read()
