"""What ``partition_by`` says: a column, or a part of its time. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from singerlake.errors import SettingError

PARTS = ("year", "month", "day", "hour")
_WRITTEN = re.compile(r"\s*(?:(year|month|day|hour)\s*\(\s*(.+?)\s*\)|(.+?))\s*\Z")
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The value of a row without one."""


@dataclass(frozen=True, slots=True)
class Partition:
    """``part`` None: the column's value itself."""

    column: str
    part: str | None = None

    def __str__(self) -> str:
        return f"{self.part}({self.column})" if self.part else self.column

    def name(self, column: str) -> str:
        """What the folder calls it, where the table calls the column ``column``."""
        return f"{column}_{self.part}" if self.part else column


def partition_of(text: str) -> Partition:
    """What ``month(created)`` or ``country`` means. Raises ``SettingError``."""
    found = _WRITTEN.match(text)
    if found is None or (found[3] is not None and found[3].endswith(")") and "(" in found[3]):
        known = ", ".join(f"{part}(column)" for part in PARTS)
        raise SettingError(f"partition_by knows no {text!r}", hint=f"name a column, or one of {known}")
    return Partition(found[3]) if found[3] is not None else Partition(found[2], found[1])
