"""The times of the ``merge`` store, computed and checked in one place."""

from __future__ import annotations

import math
from dataclasses import dataclass

from singerlake.errors import SettingError

RESOLUTION = 1.0
"""Seconds that ``LastModified`` may be cut by."""
_WINDOW = 2


@dataclass(frozen=True, kw_only=True)
class MergeSettings:
    """Seconds, all of them. Raises ``SettingError``.

    ``stale``: an entry counts if its name is less than this away from storage's own time. ``longest``: what may pass
    between a look at storage and the write that depends on it. ``lag``: how old an entry is before it gets its place;
    at least ``2 * stale + 1 + longest``, which None means. ``touch``: how often ``last_change`` is touched for entries
    at most. ``look``: how often a poll reads the log all the same. ``entries``: how many a settle record holds.
    ``parallel``: how many entries are read at once.
    """

    stale: float = 2.0
    longest: float = 5.0
    lag: float | None = None
    touch: float = 1.0
    look: float = 10.0
    entries: int = 1000
    parallel: int = 16

    def __post_init__(self) -> None:
        lag = self.least_lag if self.lag is None else self.lag
        if not all(math.isfinite(value) for value in (self.stale, self.longest, lag, self.touch, self.look)):
            raise SettingError("the times of the merge store must be numbers", hint="check merge_stale_seconds")
        if self.stale <= RESOLUTION:
            raise SettingError(
                "merge_stale_seconds must be more than 1, since storage may tell its time in whole seconds",
                hint="raise merge_stale_seconds, or leave it unset",
                merge_stale_seconds=self.stale,
            )
        if self.longest <= 0 or self.touch < 0 or self.look < 0 or self.entries < 1 or self.parallel < 1:
            raise SettingError("the times and sizes of the merge store must be positive", hint="leave them unset")
        if lag < self.least_lag:
            raise SettingError(
                f"a lag of {lag:g} s loses the order of writes, at least {self.least_lag:g} s are needed",
                hint="leave the lag unset, or lower merge_stale_seconds",
                merge_stale_seconds=self.stale,
            )

    @property
    def least_lag(self) -> float:
        """Two clocks may be wrong by ``stale`` in opposite ways, storage tells whole seconds, and writes take time."""
        return 2 * self.stale + RESOLUTION + self.longest

    @property
    def stale_ms(self) -> int:
        return int(self.stale * 1000)

    @property
    def lag_ms(self) -> int:
        return math.ceil((self.least_lag if self.lag is None else self.lag) * 1000)

    @property
    def window_ms(self) -> int:
        """How far behind what is settled entries are still looked for as a rule."""
        return _WINDOW * self.lag_ms
