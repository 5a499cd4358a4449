"""Who is told how far a long work is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _ignore(_: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Progress:
    """``sized`` gets the total before the work begins, ``advance`` what was done since its last call: stored bytes of
    files, or whatever the work says that it counts. Both are called on the caller's thread. ``seen``: somebody looks,
    so that the total is worth a listing."""

    seen: bool = False
    sized: Callable[[int], None] = _ignore
    advance: Callable[[int], None] = _ignore


UNSEEN = Progress()
"""Nobody looks."""
