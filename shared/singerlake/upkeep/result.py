"""What all upkeep says: results, findings, numbers of files, and how far the work is. A result is frozen; its
fields, in their order, are what ``--json`` writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

from singerlake.errors import SettingError, SingerlakeError

FOR_PYTHON: Mapping[str, Any] = {"json": False}
"""The metadata of a field that ``--json`` does not write."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A stream that could not be worked on, and why. The others were."""

    tap: str
    stream: str
    error: SingerlakeError


def check_now(now: bool, dry_run: bool) -> None:
    """Raise ``SettingError`` where both are given."""
    if now and dry_run:
        raise SettingError("now is given with dry_run", hint="give one of them")


Kind = Literal[
    "broken",
    "case",
    "catalogue",
    "clash",
    "commit",
    "differs",
    "duplicate",
    "empty",
    "erased",
    "foreign",
    "identity",
    "manifest",
    "misplaced",
    "missing",
    "offsets",
    "repeated",
    "root",
    "times",
    "torn",
    "uncommitted",
    "unlisted",
    "vanished",
    "version",
]
"""``docs/reference/commands.md`` says of each what it means and what to do."""
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a person may want to know. ``key`` is the object it is about, relative to the lake root. A finding
    that is not a ``problem`` is a note: nothing has to be done about it."""

    kind: Kind
    key: str
    message: str
    problem: bool = True


@dataclass(frozen=True, slots=True)
class Tally:
    """A number of files, and their stored bytes."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.files + other.files, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class RecordTally(Tally):
    """A number of files, their stored bytes, and the RECORD messages in them."""

    records: int = 0


NONE = Tally()


def tally(sizes: Iterable[int]) -> Tally:
    """The files that have these sizes."""
    files = total = 0
    for size in sizes:
        files += 1
        total += size
    return Tally(files, total)


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


def check_least(what: str, value: float | timedelta, least: int = 0) -> None:
    """Raise ``SettingError`` where a time or a count is less than ``least``, or is not a number."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if number >= least:
        return
    # What is not a number is neither less nor more.
    must = "must be a number" if number != number else f"must be {least} or more" if least else "must not be negative"
    shown = f"{number:g} s" if isinstance(value, timedelta) else str(value)
    raise SettingError(f"{what} {must}: {shown}", hint=f"give {least} or more")
