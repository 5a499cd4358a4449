"""Room for libraries that walk schemas by recursion: what is the project's own does without."""

from __future__ import annotations

import sys

CALLS = 8_000
"""Calls within one another. singer-sdk's libraries take some 4,000 to hold a record against the deepest schema that
there may be (``hashing.DEEPEST``), and Python allows 1,000 by itself."""


def make_room() -> None:
    """Let this process make as many calls within one another; a limit that is higher stays."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), CALLS))
