"""Keeping tables up with their streams: the same run again and again, until the process is told to end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import NoReturn

from singerlake.clock import Clock
from singerlake.errors import SingerlakeError
from singerlake.tables.declaration.streams import Resolved, Unresolved
from singerlake.tables.run.results import TableResult

LONGEST_WAIT = 300.0
"""Seconds until a table that keeps failing is tried again, at most, if looks are not further apart."""

Found = tuple[list[Resolved], list[Unresolved]]


@dataclass
class Retries:
    """When what failed is tried again: after twice as long each time. ``every`` is in seconds."""

    every: float
    clock: Clock
    _failed: dict[str | None, tuple[float, float]] = field(default_factory=dict)

    def is_due(self, name: str | None) -> bool:
        """Whether it may be tried."""
        return name not in self._failed or self.clock.monotonic() >= self._failed[name][1]

    def add(self, name: str | None) -> float:
        """Note that it failed; the seconds until it is tried again."""
        before = self._failed[name][0] if name in self._failed else self.every
        wait = min(2 * before, max(LONGEST_WAIT, self.every))
        self._failed[name] = (wait, self.clock.monotonic() + wait)
        return wait

    def forget(self, name: str | None) -> None:
        """Note that it did not fail."""
        self._failed.pop(name, None)


@dataclass(frozen=True)
class Follower:
    """``look`` gives the tables that are meant, by the streams that there are now; ``run`` brings some up to them.
    ``told`` is told of each table that was made, and of each that failed with the seconds until it is tried again;
    ``told_look`` of a look that failed."""

    look: Callable[[], Found]
    run: Callable[[list[Resolved]], Iterable[TableResult]]
    told: Callable[[TableResult, float | None], None]
    told_look: Callable[[SingerlakeError, float], None]
    clock: Clock

    def follow(self, found: Found, every: float) -> NoReturn:
        """Run what a first look ``found``, then look every so many seconds, and run the tables whose streams have
        something new. An error of one table stops no other, and neither ends this. Raises what ``told`` does."""
        retries = Retries(every, self.clock)
        while True:
            self._run(found, retries)
            found = self._next(retries)

    def _run(self, found: Found, retries: Retries) -> None:
        tables, failed = found
        due = [each for each in tables if retries.is_due(each.declaration.name)]
        wrong = [each for each in failed if retries.is_due(each.declaration.name)]
        unresolved = (TableResult(each.declaration, None, error=each.error) for each in wrong)
        for result in chain(unresolved, self.run(due) if due else ()):
            name = result.declaration.name
            if result.error is not None:
                self.told(result, retries.add(name))
                continue
            retries.forget(name)
            if result.status == "made":
                self.told(result, None)

    def _next(self, retries: Retries) -> Found:
        while True:
            self.clock.sleep(retries.every)
            if not retries.is_due(None):
                continue
            try:
                found = self.look()
            except SingerlakeError as error:
                self.told_look(error, retries.add(None))
            else:
                retries.forget(None)
                return found
