"""How far a long work is."""

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

Report = Callable[[str, int, int | None], object]
"""What users give as ``progress``. It is called with the name of what is worked on, how much of it is done, and how
much there is, None where that is not known yet; both in stored bytes, unless a docstring names another unit. It is
called on the caller's thread. What it raises ends the work."""


def reporting(report: Report | None, name: str) -> Progress:
    """The progress of one work that begins now and is called ``name``."""
    if report is None:
        return UNSEEN
    done: int = 0
    total: int | None = None

    def sized(count: int) -> None:
        nonlocal done, total
        done, total = 0, count
        report(name, done, total)

    def advance(count: int) -> None:
        nonlocal done
        done += count
        report(name, done, total)

    report(name, done, total)
    return Progress(True, sized, advance)
