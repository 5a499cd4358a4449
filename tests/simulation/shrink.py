"""A shorter run that violates the same invariant: fewer decisions, and duller ones."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.simulation.run import Verdict, simulate
from tests.simulation.stores.kinds import Kind

ATTEMPTS = 4000


def shrunk(kind: Kind, verdict: Verdict, *, attempts: int = ATTEMPTS) -> list[int]:
    """A schedule that fails as ``verdict`` did. Greedy: cut off, cut out, make dull, until nothing helps."""
    wanted = _alike(verdict.violation or "")
    best = list(verdict.schedule)
    left = attempts
    helped = True
    while helped and left > 0:
        helped = False
        for candidate in _candidates(best):
            left -= 1
            if left <= 0:
                break
            found = simulate(kind, verdict.seed, schedule=candidate)
            if found.violation and _alike(found.violation) == wanted:
                # What was asked for beyond the schedule's end was dull, and stays so when it is left out.
                best = _without_dull_end(candidate)
                helped = True
                break
    return best


def _candidates(schedule: list[int]) -> Iterator[list[int]]:
    size = len(schedule)
    while size:
        for start in range(0, len(schedule), size):
            yield schedule[:start] + schedule[start + size :]
        for start in range(0, len(schedule), size):
            if any(schedule[start : start + size]):
                yield schedule[:start] + [0] * len(schedule[start : start + size]) + schedule[start + size :]
        size //= 2


def _without_dull_end(schedule: list[int]) -> list[int]:
    end = len(schedule)
    while end and schedule[end - 1] == 0:
        end -= 1
    return schedule[:end]


def _alike(violation: str) -> str:
    """What was violated, whatever the numbers and ids were."""
    return re.sub(r"\b[0-9a-v]{16}\b|\d+", "#", violation.strip().splitlines()[-1])
