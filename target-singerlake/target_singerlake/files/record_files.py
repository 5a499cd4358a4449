"""The rows of one record's files, while the files are on their way into the lake."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from singerlake.format.state.attached import Attached, shifted


class RecordFiles:
    """Rows that other threads put in, each in its place; ``message`` is the number of the record in its data file. All
    records share what ``changed`` tells, and ``check``, which raises what keeps files from coming."""

    __slots__ = ("_changed", "_check", "_left", "_rows", "message")

    def __init__(self, count: int, changed: threading.Condition, check: Callable[[], None]) -> None:
        self.message = 0
        self._rows: list[Attached | None] = [None] * count
        self._left = count
        self._changed = changed
        self._check = check

    @property
    def done(self) -> bool:
        """Whether all rows are there."""
        return not self._left

    def put(self, place: int, row: Attached) -> None:
        """Put in a row, whose ``message`` is 0. Under the lock of ``changed``, which the caller notifies."""
        self._rows[place] = row
        self._left -= 1

    def rows(self) -> Sequence[Attached]:
        """All rows, when they are there. Raises what ``check`` raises."""
        if self._left:
            with self._changed:
                while self._left:
                    self._check()
                    self._changed.wait()
        return shifted([row for row in self._rows if row is not None], self.message)
