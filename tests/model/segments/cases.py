"""What is explored of segments."""

from __future__ import annotations

from typing import Any

from tests.model.case import Case
from tests.model.segments.segments import Segments

_TRIMMED: dict[str, Any] = {"born": True, "keeps": False, "commits": (1,), "trims": (1,)}
_TRIMMED_TWICE: dict[str, Any] = {"born": True, "keeps": False, "commits": (1,), "trims": (2,), "readers": 1}
_BORN: dict[str, Any] = {"born": True, "commits": (1,), "readers": 1}
_GONE = r"names segment 1, which is not there"
_MISSED = r"a reader misses segment 1"

KEPT_SEGMENTS = (
    Case(
        "segments: a writer of 2 states and one of 1, 1 collector of 3 rounds, 1 reader",
        Segments(commits=(2, 1), readers=1),
    ),
    Case("segments: born, 1 writer, 2 collectors of 3 and 2 rounds, 1 reader", Segments(**_BORN, rounds=(3, 2))),
    Case("segments: 2 writers, 1 trim, 1 collector of 3 rounds", Segments(trims=(1,))),
    Case(
        "segments: born, 1 writer, 1 trim, 1 collector of 4 rounds, 1 reader",
        Segments(**_BORN, trims=(1,), rounds=(4,)),
    ),
    Case(
        "segments: born, 1 writer, 2 trimmers, 1 collector of 3 rounds, all segments replaced",
        Segments(born=True, keeps=False, commits=(1,), trims=(1, 1)),
    ),
    Case(
        "segments: born, 1 writer, 2 trims, 1 collector of 3 rounds, 1 reader, all segments replaced",
        Segments(**_TRIMMED_TWICE),
    ),
)
"""Explored to the last state."""

FAULTY_SEGMENTS = (
    Case("segments: a state stored before its segments", Segments(segments_first=False), _GONE),
    Case(
        "segments: a writer names a segment of an older state that it remembers",
        Segments(commits=(2, 1), only_replaced=False),
        _GONE,
    ),
    Case(
        "segments: noted as soon as it is written",
        Segments(**_TRIMMED_TWICE, rounds=(2,), old_only=False),
        _MISSED,
    ),
    Case(
        "segments: noted as soon as it is written, and deleted a grace time later",
        Segments(readers=1, old_only=False, twice=False),
        _MISSED,
    ),
    Case(
        "segments: the same, noted with the time from before it was listed",
        Segments(readers=1, old_only=False, twice=False, asked_last=False),
        _GONE,
    ),
    Case("segments: deleted a grace time after it was noted", Segments(**_TRIMMED_TWICE, twice=False), _MISSED),
    Case(
        "segments: noted with the time from before it was listed",
        Segments(**_TRIMMED_TWICE, asked_last=False),
        _MISSED,
    ),
    Case("segments: deleted without a grace time", Segments(**_BORN, grace=False), _MISSED),
    Case("segments: deleted without another look at the states", Segments(**_TRIMMED, looked_again=False), _GONE),
    Case(
        "segments: the states read before the segments are listed",
        Segments(**_TRIMMED_TWICE, listed_first=False),
        _MISSED,
    ),
    Case("segments: snapshots not looked at", Segments(**_TRIMMED, snapshots_read=False), _GONE),
    Case(
        "segments: a collector goes on where manifest.json cannot be read", Segments(commits=(1,), stops=False), _GONE
    ),
)
"""Each breaks a promise, in the fewest steps that can."""
