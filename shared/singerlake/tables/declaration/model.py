"""A table as it is declared. Pure; every name of a column is the stream's property, before it is renamed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from singerlake.conditions import Condition
from singerlake.errors import SettingError

UNITS = ("year", "month", "day", "hour")
_WRITTEN = re.compile(r"\s*(?:(year|month|day|hour)\s*\(\s*(.+?)\s*\)|(.+?))\s*\Z")
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The value of a row without one."""


@dataclass(frozen=True, slots=True)
class Partition:
    """``unit`` None: the column's value itself."""

    column: str
    unit: str | None = None

    def __str__(self) -> str:
        return f"{self.unit}({self.column})" if self.unit else self.column

    def name(self, column: str) -> str:
        """What the folder calls it, where the table calls the column ``column``."""
        return f"{column}_{self.unit}" if self.unit else column


def partition_of(text: str) -> Partition:
    """What ``month(created)`` or ``country`` means. Raises ``SettingError``."""
    found = _WRITTEN.match(text)
    if found is None or (found[3] is not None and found[3].endswith(")") and "(" in found[3]):
        known = ", ".join(f"{unit}(column)" for unit in UNITS)
        raise SettingError(f"partition_by knows no {text!r}", hint=f"name a column, or one of {known}")
    return Partition(found[3]) if found[3] is not None else Partition(found[2], found[1])


class Keep(StrEnum):
    """Which records become rows."""

    APPEND = "append"
    """All of them."""
    LATEST = "latest"
    """Of each key the last one."""
    HISTORY = "history"
    """All of each key that change it, with the time in which each was valid."""


class Format(StrEnum):
    """What a table's files are."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"
    AVRO = "avro"
    DELTA = "delta"


ALSO, ICEBERG = "also", "iceberg"
"""The key of a declaration for other formats that describe the same files, and the one that is not a ``Format``."""


class Formulas(StrEnum):
    """What becomes of text in csv that a spreadsheet would take for a formula."""

    KEEP = "keep"
    """It stands as it is."""
    ESCAPE = "escape"
    """It gets a ``'`` in front."""


class Action(StrEnum):
    """What becomes of a row that a check does not hold for."""

    FAIL = "fail"
    """Nothing is published."""
    DROP = "drop"
    """The row is left out."""
    WARN = "warn"
    """It is counted."""


class Deletions(StrEnum):
    """What becomes of the rows of a key that is deleted."""

    HARD = "hard"
    """They go."""
    SOFT = "soft"
    """They stay, and ``_deleted`` says so."""


class NullKeys(StrEnum):
    """What becomes of a record whose key has a null in it."""

    FAIL = "fail"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """What becomes of one column. ``cast`` is a type's words (``double``, ``decimal(10,2)``)."""

    rename: str | None = None
    drop: bool = False
    cast: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that each row of the table is to hold. ``unique`` is one of all rows together: ``condition`` is None
    then."""

    column: str
    text: str
    condition: Condition | None
    action: Action = Action.FAIL

    @property
    def name(self) -> str:
        """How reports call it."""
        return f"{self.column} {self.text}"

    @property
    def stored(self) -> str:
        """The condition as a state has it, which knows no file, no ``==`` and no text in double quotes."""
        is_known = self.condition is None or not re.search('["@]|==', re.sub("'[^']*'", "", self.text))
        return self.text if is_known else str(self.condition)


@dataclass(frozen=True, kw_only=True)
class TableDeclaration:
    """One table of one stream. ``key`` None: the stream's ``key_properties``. ``sort_by`` empty: the key, or capture
    order. ``deleted_when`` None: where ``_sdc_deleted_at`` is not null, if the stream has it.

    ``iceberg``: metadata of that format describe the files, too.

    With ``sql`` it is a table of the rows that this statement gives, and of no stream: ``sort_by``, ``partition_by``,
    ``checks`` and the format alone mean something, and names are those of the statement's columns."""

    name: str
    tap: str
    stream: str
    keep: Keep = Keep.LATEST
    key: tuple[str, ...] | None = None
    order_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    partition_by: tuple[Partition, ...] = ()
    columns: Mapping[str, ColumnRule] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    format: Format = Format.PARQUET
    iceberg: bool = False
    csv_formulas: Formulas = Formulas.KEEP
    metadata: bool = False
    deleted_when: Condition | None = None
    deletions: Deletions = Deletions.HARD
    null_keys: NullKeys = NullKeys.FAIL
    sql: str | None = None
    written_at: Mapping[str, tuple[str, int]] = field(default_factory=dict, compare=False, repr=False)
    """File and line of what was declared, by key and by ``key.name``; of the table itself by the empty text."""

    @property
    def has_moments(self) -> bool:
        """Whether rows say when something became of them."""
        return self.keep is Keep.HISTORY or self.deletions is Deletions.SOFT

    def at(self, what: str = "", name: str = "") -> dict[str, object]:
        """For the context of an error: where that was declared; empty where no file declared it."""
        for key in (f"{what}.{name}", what, ""):
            if key in self.written_at:
                file, line = self.written_at[key]
                return {"file": file, "line": line}
        return {}

    def rule(self, name: str) -> ColumnRule:
        """What is declared of a column."""
        return self.columns.get(name) or ColumnRule()

    def to_json(self) -> dict[str, Any]:
        """As the table's state keeps it, to be compared with the next run's."""
        return {
            "tap": self.tap,
            "stream": self.stream,
            "keep": self.keep.value,
            "key": None if self.key is None else list(self.key),
            "order_by": list(self.order_by),
            "sort_by": list(self.sort_by),
            "partition_by": [str(each) for each in self.partition_by],
            "columns": {
                name: {"rename": rule.rename, "drop": rule.drop, "cast": rule.cast}
                for name, rule in sorted(self.columns.items())
            },
            "checks": [[check.column, check.stored, check.action.value] for check in self.checks],
            "format": self.format.value,
            "csv_formulas": self.csv_formulas.value,
            "metadata": self.metadata,
            "deleted_when": None if self.deleted_when is None else str(self.deleted_when),
            "deletions": self.deletions.value,
            "null_keys": self.null_keys.value,
            "sql": self.sql,
            **({ALSO: [ICEBERG]} if self.iceberg else {}),
        }
