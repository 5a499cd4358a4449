"""What a table holds, from Singer messages and a declaration: section 14.2 of the format page in plain Python."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.tables.typed import MISFIT, cast, columns_of, fitted, named, to_time

Row = dict[str, Any]
OFFSET, VERSION, RESCUED = "_singerlake_offset", "_singer_version", "_rescued_data"
DELETED, MOMENT, KEY = object(), object(), object()
"""What is known of a row beside its columns."""


@dataclass(frozen=True)
class Test:
    """One test of a condition: ``operator`` as declarations write it, ``in`` and ``null`` too; ``values`` are those of
    the column."""

    __test__ = False
    operator: str
    values: tuple[Any, ...] = ()
    negated: bool = False


@dataclass(frozen=True)
class Rule:
    """What becomes of one column."""

    rename: str | None = None
    drop: bool = False
    cast: str | None = None


@dataclass(frozen=True)
class Declared:
    """A declaration. ``checks`` are column, tests and action; all columns are properties of the stream."""

    keep: str
    key: tuple[str, ...] | None = None
    order_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    partition_by: tuple[tuple[str, str | None], ...] = ()
    rules: Mapping[str, Rule] = field(default_factory=dict)
    checks: tuple[tuple[str, tuple[Test, ...], str], ...] = ()
    deleted_when: tuple[str, tuple[Test, ...]] | None = None
    deletions: str = "hard"
    null_keys: str = "fail"
    format: str = "parquet"
    iceberg: bool = False

    def rule(self, name: str) -> Rule:
        return self.rules.get(name) or Rule()


@dataclass(frozen=True)
class Expected:
    """``names`` of all columns, and the rows in order. ``refused``: a check or a null in a key does not let the table
    be published. ``unordered``: ``order_by`` names JSON. ``clashes``: a name is given that another property has."""

    names: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    refused: bool = False
    unordered: bool = False
    clashes: bool = False


@dataclass(frozen=True)
class _Activation:
    offset: int
    version: int
    at: Any


def expected(messages: Sequence[Mapping[str, Any]], declared: Declared) -> Expected:
    """The table of ``declared`` over all of a stream's messages, SCHEMA messages among them."""
    schemas: list[Any] = []
    key: tuple[str, ...] = ()
    for message in messages:
        if message["type"] == "SCHEMA":
            schemas += [message["schema"]] if message["schema"] not in schemas else []
            key = tuple(message["key_properties"])
    maker = _Maker(declared, columns_of(schemas), declared.key if declared.key is not None else key)
    given = [(declared.rule(name).rename or "").lower() for name in maker.kept]
    if {name.lower() for name, other in zip(maker.kept, given, strict=True) if not other} & set(given):
        return Expected(clashes=True)
    if any((declared.rule(name).cast or maker.types[name]) == "json" for name in declared.order_by):
        return Expected(unordered=True)
    for message in messages:
        if message["type"] != "SCHEMA":
            maker.take(message)
    if maker.refused:
        return Expected(refused=True)
    names, rows = maker.names, maker.rows
    if declared.deletions == "soft":
        kept = _soft(rows, maker)
    elif declared.keep == "append":
        kept = [row for row in rows if not _is_gone(row, maker.activations)]
    elif declared.keep == "latest":
        kept = _latest([row for row in rows if not _is_gone(row, maker.activations)], maker)
    else:
        kept = _history(rows, maker)
    kept.sort(key=lambda row: _sorted_by(row, maker))
    columns = [*(names[each] for each in maker.kept), OFFSET, VERSION, RESCUED]
    columns += ["_valid_from", "_valid_to", "_current"] if declared.keep == "history" else []
    columns += ["_deleted", "_deleted_at"] if declared.deletions == "soft" else []
    return Expected(tuple(columns), tuple({name: row[name] for name in columns} for row in kept))


class _Maker:
    """Rows of the records, before any is chosen; under the key ``KEY`` what tells the key's value."""

    def __init__(self, declared: Declared, types: dict[str, Any], key: tuple[str, ...]) -> None:
        self.declared = declared
        self.key = () if declared.keep == "append" else key
        self.kept = [name for name in types if not declared.rule(name).drop]
        self.names = _names(self.kept, declared)
        self.rows: list[Row] = []
        self.activations: list[_Activation] = []
        self.refused = False
        self.types = types
        self._deletes = declared.deleted_when[0] if declared.deleted_when is not None else "_sdc_deleted_at"
        self._offset = 0
        self._active: int | None = None
        self._moment: Any = None

    def take(self, message: Mapping[str, Any]) -> None:
        offset, self._offset = self._offset, self._offset + 1
        if message["type"] == "ERASED":
            return
        if message["type"] == "ACTIVATE_VERSION":
            self._active = message["version"]
            self.activations.append(_Activation(offset, message["version"], self._moment))
            return
        moment = to_time(message["time_extracted"]) if "time_extracted" in message else None
        self._moment = moment or self._moment
        row, values = self._typed(message["record"])
        row[OFFSET], row[MOMENT] = offset, moment
        version = message.get("version")
        row[VERSION] = self._active if version is None else version
        row[DELETED] = self._is_deletion(message["record"], values)
        if self._holds(row, values):
            self.rows.append(row)

    def _typed(self, record: Mapping[str, Any]) -> tuple[Row, Row]:
        row: Row = {}
        values: Row = {}
        lost = {name: value for name, value in record.items() if name not in self.types}
        for name, kind in self.types.items():
            words = self.declared.rule(name).cast
            value = record.get(name)
            values[name], left = fitted(value, kind) if words is None else cast(value, words)
            if left is not MISFIT and (not self.declared.rule(name).drop or name == self._deletes):
                lost[name] = left
            if name in self.key and isinstance(values[name], float):
                values[name] += 0.0
            if name in self.names:
                row[self.names[name]] = values[name] if words is not None else named(values[name], kind)
        row[RESCUED] = lost or None
        row[KEY] = tuple(first_null(values[name]) for name in self.key)
        return row, values

    def _is_deletion(self, record: Mapping[str, Any], values: Row) -> bool:
        if self.declared.deleted_when is not None:
            name, tests = self.declared.deleted_when
            fits = values[name] is not None or record.get(name) is None
            return fits and holds(tests, values[name], unknown=False)
        return record.get("_sdc_deleted_at") is not None

    def _holds(self, row: Row, values: Row) -> bool:
        fine = True
        if any(values[name] is None for name in self.key):
            fine = False
            self.refused = self.refused or self.declared.null_keys == "fail"
        for name, tests, action in self.declared.checks:
            if not row[DELETED] and not holds(tests, values[name], unknown=True):
                self.refused = self.refused or action == "fail"
                fine = fine and action != "drop"
        return fine


def _names(kept: Sequence[str], declared: Declared) -> dict[str, str]:
    taken = {"__deleted", "__moment", "__hidden"}
    names = {}
    for name in sorted(kept, key=lambda name: declared.rule(name).rename is None):
        wanted = declared.rule(name).rename or name
        number, given = 1, wanted
        while given.lower() in taken or re.fullmatch("__partition_[0-9]+", given.lower()):
            number += 1
            given = f"{wanted}_{number}"
        taken.add(given.lower())
        names[name] = given
    return names


def holds(tests: Sequence[Test], value: Any, *, unknown: bool) -> bool:
    """Whether all tests hold for a value; ``unknown`` where that is neither true nor false."""
    return all(_one(test, value, unknown) for test in tests)


def _one(test: Test, value: Any, unknown: bool) -> bool:
    if test.operator == "null":
        return (value is None) != test.negated
    if value is None:
        return unknown
    if test.operator == "in":
        return (value in test.values) != test.negated
    other = test.values[0]
    return bool(
        {
            "=": lambda: value == other,
            "!=": lambda: value != other,
            "<": lambda: value < other,
            "<=": lambda: value <= other,
            ">": lambda: value > other,
            ">=": lambda: value >= other,
        }[test.operator]()
    )


def _sorted_by(row: Row, maker: _Maker) -> Any:
    """What rows are in order of. Those of one key in a history that is in the order of its key stay as they are."""
    declared, names = maker.declared, maker.names
    parts = [partition_text(row[names[name]], part) for name, part in declared.partition_by]
    order = [*declared.sort_by, *(name for name in maker.key if name not in declared.sort_by)]
    others = {*declared.sort_by, *(name for name, _ in declared.partition_by)} - set(maker.key)
    places = [last_null(row[names[name]]) for name in order]
    by_offset = declared.keep == "append" or (declared.keep == "history" and others)
    return (parts, places, row[OFFSET] if by_offset else 0)


def partition_text(value: Any, part: str | None) -> str:
    """The value of a partition."""
    if value is None or value == "":
        return "__HIVE_DEFAULT_PARTITION__"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        value = value.replace(tzinfo=None).isoformat("T", "microseconds")
    length = {"year": 4, "month": 7, "day": 10, "hour": 13}.get(part or "")
    return str(value)[:length]


def first_null(value: Any) -> tuple[int, Any]:
    """What ``order_by`` compares: null is least, then NaN."""
    if value is None:
        return (0, 0)
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (2, value)


def last_null(value: Any) -> tuple[int, Any]:
    """What rows are sorted by: null is last, NaN before it."""
    if value is None:
        return (2, 0)
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)


def _place(row: Row, maker: _Maker) -> tuple[Any, ...]:
    order = [first_null(row[maker.names[name]]) for name in maker.declared.order_by]
    return (first_null(row[VERSION]), order, row[OFFSET])


def _is_gone(row: Row, activations: Sequence[_Activation]) -> bool:
    return any(each.offset > row[OFFSET] and each.version != row[VERSION] for each in activations)


def _by_key(rows: Sequence[Row]) -> dict[Any, list[Row]]:
    keys: dict[Any, list[Row]] = {}
    for row in rows:
        keys.setdefault(row[KEY], []).append(row)
    return keys


def _latest(rows: Sequence[Row], maker: _Maker) -> list[Row]:
    winners = [max(same, key=lambda row: _place(row, maker)) for same in _by_key(rows).values()]
    return [row for row in winners if not row[DELETED]]


def _soft(rows: Sequence[Row], maker: _Maker) -> list[Row]:
    """Step by step, as one who watches the table sees it: each record, and each ACTIVATE_VERSION, as it comes."""
    there: dict[Any, list[Row]] = {}
    steps: list[tuple[int, Any]] = [(row[OFFSET], row) for row in rows]
    steps += [(each.offset, each) for each in maker.activations]
    for offset, step in sorted(steps, key=lambda each: each[0]):
        if isinstance(step, _Activation):
            for row in (row for same in there.values() for row in same if row[VERSION] != step.version):
                row.setdefault("gone", step)
            for key, same in there.items() if maker.key else ():
                left = [row for row in same if "gone" not in row]
                if not left:
                    last = max(row["gone"].offset for row in same)
                    left = [max((r for r in same if r["gone"].offset == last), key=lambda row: _place(row, maker))]
                there[key] = left
        else:
            there.setdefault(step[KEY] if maker.key else offset, []).append(dict(step))
    kept = []
    for same in there.values():
        alive = [row for row in same if "gone" not in row]
        row = max(alive or same, key=lambda row: _place(row, maker))
        since = row[MOMENT] if row[DELETED] else row["gone"].at if "gone" in row else None
        kept.append({**row, "_deleted": row[DELETED] or "gone" in row, "_deleted_at": since})
    return kept


def _history(rows: Sequence[Row], maker: _Maker) -> list[Row]:
    made = []
    order_by = maker.declared.order_by
    columns = [maker.names[name] for name in maker.kept if name not in maker.key]
    for same in _by_key(rows).values():
        events = [(_place(row, maker), row[maker.names[order_by[0]]] if order_by else row[MOMENT], row) for row in same]
        for each in maker.activations:
            known = [row for row in same if row[OFFSET] < each.offset]
            if known and all(row[VERSION] != each.version for row in known):
                version, order, _ = max(_place(row, maker) for row in known)
                events.append(((version, order, each.offset), _ending(each.at, maker), {DELETED: True}))
        events.sort(key=lambda event: event[0])
        current: tuple[Any, Row] | None = None
        before: Row | None = None
        for _, moment, row in events:
            if row[DELETED]:
                _end(made, current, moment)
                current = before = None
            elif before is None or any(_differs(row[name], before[name]) for name in columns):
                _end(made, current, moment)
                current, before = (moment, row), row
        if current is not None:
            made.append({**current[1], "_valid_from": current[0], "_valid_to": None, "_current": True})
    return made


def _ending(at: Any, maker: _Maker) -> Any:
    """When an ACTIVATE_VERSION ends an interval: not known where the first column of ``order_by`` is no time."""
    order_by = maker.declared.order_by
    if not order_by:
        return at
    words = maker.declared.rule(order_by[0]).cast or maker.types[order_by[0]]
    return at if words == "timestamp" else None


def _end(made: list[Row], current: tuple[Any, Row] | None, moment: Any) -> None:
    if current is not None:
        made.append({**current[1], "_valid_from": current[0], "_valid_to": moment, "_current": False})


def _differs(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left) and math.isnan(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return any(_differs(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) != len(right) or any(map(_differs, left, right))
    return bool(left != right)
