"""What of a lake needs a look: what failed, and what has been silent for longer than it ever was. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from singerlake.humanize import counted, cut, lasting, minute
from singerlake.site.facts import LakeFacts, StreamFacts, TableFacts, TapFacts
from singerlake.tables.state.model import DROPPED
from singerlake.upkeep.reports.status import silence_of

_SAID = 400
"""Characters of an error that are shown."""
_CHECKS = 3
"""Failed checks that are named."""


class Level(IntEnum):
    """How bad something is; the worst is the lowest."""

    UNREADABLE = 0
    FAILED = 1
    CHECK = 2
    STALE = 3
    INTERRUPTED = 4
    BEHIND = 5
    FINE = 6


ATTENTION = Level.INTERRUPTED
"""Up to which level the first page names it: a table that is behind waits for its next run, as it should."""


@dataclass(frozen=True, slots=True)
class Finding:
    """How something stands, in a ``word``; ``says`` is why, empty where all is well."""

    level: Level
    word: str
    says: str = ""

    @property
    def tone(self) -> str:
        """The class of its badge, of a few."""
        if self.level is Level.FINE:
            return "good" if self.word in ("completed", "up to date") else "plain"
        if self.level is Level.BEHIND:
            return "plain"
        return "bad" if self.level <= Level.CHECK else "warm"

    @property
    def needs_a_look(self) -> bool:
        """Whether the first page names it."""
        return self.level <= ATTENTION


def of_tap(tap: TapFacts) -> Finding | None:
    """What is wrong with a tap itself, None where nothing is."""
    return Finding(Level.UNREADABLE, "unreadable", cut(tap.trouble, _SAID)) if tap.trouble else None


def of_stream(lake: LakeFacts, stream: StreamFacts) -> Finding:
    """The worst that can be said of a stream."""
    if stream.trouble:
        word = "trouble" if stream.state else "unreadable"
        return Finding(Level.UNREADABLE, word, cut(stream.trouble, _SAID))
    newest = next(iter(lake.runs(stream, 1)), None)
    if newest is None or stream.state is None:
        return Finding(Level.FINE, "no run")
    began = f"the run of {minute(newest.started)}" if newest.started else "the newest run"
    if newest.outcome == "failed":
        return Finding(Level.FAILED, "failed", f"{began} failed; what it committed before is there")
    if newest.outcome == "lost":
        return Finding(Level.FAILED, "lost", f"{began} never said how it ended; look whether it was killed")
    silence = silence_of(stream.state.runs, lake.now)
    if silence is not None and newest.outcome != "running":
        return Finding(Level.STALE, "stale", f"silent for {lasting(lake.now - silence.since)}; {silence.rhythm}")
    if newest.outcome == "interrupted":
        return Finding(Level.INTERRUPTED, "interrupted", f"a signal ended {began}")
    return Finding(Level.FINE, newest.outcome)


def of_table(table: TableFacts, older: Sequence[str] = ()) -> Finding:
    """The worst that can be said of a table; ``older`` are the tables of which its statement read other rows than they
    have now."""
    standing = table.standing
    if standing is None:
        word = "not made" if table.is_begun else "unreadable"
        return Finding(Level.UNREADABLE, word, cut(table.trouble or "", _SAID))
    failing = [f"{cut(check, _SAID // 4)}: {counted(rows, 'row')}" for check, rows in standing.failing.items() if rows]
    if failing:
        more = f"; {len(failing) - _CHECKS:,} more" if len(failing) > _CHECKS else ""
        return Finding(Level.CHECK, "check failed", "; ".join(failing[:_CHECKS]) + more)
    if standing.outdated:
        then = "drop the table, too" if standing.outdated == DROPPED else "the next run makes it anew"
        says = f"{standing.outdated} since it was made; {then}"
        return Finding(Level.STALE, "outdated", says)
    if standing.behind:
        return Finding(Level.BEHIND, "behind", f"behind its stream by {counted(standing.behind, 'message')}")
    if older:
        return Finding(Level.BEHIND, "behind", f"made from older rows of {cut(', '.join(older), _SAID)}")
    return Finding(Level.FINE, "up to date" if standing.behind == 0 or standing.made_from else "made")
