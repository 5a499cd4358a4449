"""Random declarations and streams: small domains of values, so that keys, ties and ranges meet, and each of them with
what is special about its type."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from tests.tables.recompute import Declared, Rule, Test

SCHEMAS: Mapping[str, Any] = {
    "integer": {"type": ["null", "integer"]},
    "unsigned": {"type": ["null", "integer"], "minimum": 0, "maximum": 2**64 - 1},
    "number": {"type": ["null", "number"]},
    "cents": {"type": ["null", "number"], "multipleOf": 0.01},
    "exact": {"type": ["null", "string"], "format": "singer.decimal", "precision": 38, "scale": 10},
    "string": {"type": ["null", "string"]},
    "date": {"type": ["null", "string"], "format": "date"},
    "time": {"type": ["null", "string"], "format": "date-time"},
    "boolean": {"type": ["null", "boolean"]},
    "any": {},
    "object": {
        "type": ["null", "object"],
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "A": {"type": "string"}},
    },
    "wider": {
        "type": ["null", "object"],
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "string"},
            "A": {"type": "string"},
            "c": {"type": "boolean"},
        },
    },
    "array": {"type": ["null", "array"], "items": {"type": ["null", "integer"]}},
    "floats": {"type": ["null", "object"], "properties": {"a": {"type": ["null", "number"]}}},
}
VALUES: Mapping[str, Sequence[Any]] = {
    "integer": [0, 1, 2, -5, 3.0, 2**53 + 1, -(2**63)],
    "unsigned": [2**64 - 1, 0, 5.0, 2**63, -1],
    "number": [-0.0, 0.0, math.nan, 1.5, 2, -1e300, math.inf],
    "cents": [0, 1.25, -3.5, 10, 0.1, 12345678901234567890],
    "exact": ["0", "1.0000000001", "1234567890123456789012345678.1234567890", "-1", "-0.5"],
    "string": ["", "a", "B", "ä", "中文", "𝒳", "z", "e\u0301", "é", "0", "\uffff"],
    "date": ["2024-01-02", "0001-01-01", "9999-12-31", "1969-12-31"],
    "time": [
        "2024-01-02T03:04:05Z",
        "2024-01-02T05:04:05+02:00",
        "2024-01-02T03:04:05.000001",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
    ],
    "boolean": [True, False],
    "any": [1, "1", "x", True, {"q": [1]}, [1, None], 1.0],
    "object": [
        {"a": 1, "b": "x"},
        {"a": 2, "A": "z"},
        {"A": 1},
        {},
        {"a": 1.5, "b": "y"},
        {"a": 1, "c": True},
        {"a": 1, "c": 0},
    ],
    "array": [[1, 2], [], [None], [1, 2.5], [3]],
    "floats": [{"a": 0.0}, {"a": -0.0}, {"a": math.nan}, {}, {"a": 1}, {"a": "x"}],
}
SIMPLE = ("integer", "unsigned", "number", "cents", "exact", "string", "date", "time", "boolean", "any")
WIDENED: Mapping[str, Sequence[str]] = {
    "integer": ("number", "string", "cents", "unsigned"),
    "unsigned": ("integer", "number"),
    "cents": ("exact", "number"),
    "date": ("string", "time"),
    "time": ("string",),
    "string": ("integer",),
    "object": ("wider", "wider", "wider", "string"),
    "array": ("any",),
    "boolean": ("any",),
}
CASTS: Mapping[str, Sequence[str]] = {
    "integer": ("double", "text", "decimal(20,3)", "json", "boolean", "integer"),
    "number": ("integer", "text", "decimal(10,1)", "double"),
    "cents": ("double", "integer", "decimal(5,2)"),
    "string": ("integer", "double", "boolean", "date", "timestamp", "decimal(4,1)", "text"),
    "date": ("timestamp", "text", "date", "integer"),
    "time": ("date", "text", "timestamp", "local_timestamp", "integer"),
    "boolean": ("integer", "text", "boolean"),
    "any": ("integer", "text", "timestamp", "json"),
    "object": ("json", "text"),
    "array": ("json",),
}
SPELLED: list[Any] = ["-5", " 7 ", "1.5", "true", "no", "2024-01-02", "2024-01-02T03:04:05Z", "nan", "1e400", "1_0"]
SPELLED += ["\u0661\u0662", "\uff11.5", "\u00a07", "\u2003true", "\t7\n", "+Infinity", "\u0131nf"]
SPELLED += ["00000000000007D1", "1700000000000", 1700000000000, 1, 0, True, 1.5]
"""Values that casts make something of, or nothing, whatever is declared."""
LITERALS: Mapping[str, Sequence[Any]] = {
    "integer": [0, 1, -5],
    "number": [0, 1.5],
    "cents": [0, 1.25],
    "exact": [Decimal("-1"), Decimal("1.0000000001")],
    "string": ["a", "é", "it's"],
    "boolean": [True],
}
NAMES = ["__v", "__deleted", "id", "Id", "größe", "naïve col", "値", "a.b", "updated", "x", "op"]


@dataclass(frozen=True)
class Batch:
    """One capture: messages under one schema. ``run``: the table is run behind it."""

    schema: Any
    key_properties: tuple[str, ...]
    messages: tuple[Mapping[str, Any], ...]
    run: bool = True


@dataclass(frozen=True)
class Case:
    """A declaration, a stream, and the sizes of files, splits and regions."""

    seed: int
    declared: Declared
    batches: tuple[Batch, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)


def case(seed: int) -> Case:
    """The case of a seed."""
    chance = random.Random(seed)
    kinds = _kinds(chance)
    declared, stable = _declared(chance, kinds)
    spelled = {name for name in kinds if declared.rule(name).cast and kinds[name] in SIMPLE}
    key_properties = declared.key or _some(chance, [name for name in kinds if kinds[name] in SIMPLE], 1, 2)
    if declared.key is not None and chance.random() < 0.3:
        declared = replace(declared, key=None)
    batches = []
    schema_kinds = dict(kinds)
    taken = _Versions(chance)
    records: list[dict[str, Any]] = []
    fresh = chance.choice((0.3, 0.6, 1.0))
    evolves = chance.random() < 0.6
    for number in range(chance.randint(1, 6)):
        if number and evolves and chance.random() < 0.4:
            schema_kinds = _evolved(chance, kinds, schema_kinds, {*stable, *key_properties}, stable)
        schema = {"type": "object", "properties": {name: SCHEMAS[kind] for name, kind in schema_kinds.items()}}
        lines = []
        for _ in range(chance.choice((1, 2, 5, 12))):
            new = not records or chance.random() < fresh
            record = _record(chance, kinds, schema_kinds, key_properties, spelled) if new else chance.choice(records)
            records.append(record)
            lines.append(taken.message(record))
        batches.append(Batch(schema, key_properties, tuple(lines), chance.random() < 0.7))
    again = random.Random(f"{seed} again")
    if declared.key is None and len(batches) > 1 and again.random() < 0.5:
        # An earlier schema comes back, and maybe with another key.
        schema = again.choice(batches[:-1]).schema
        batches[-1] = replace(batches[-1], schema=schema, key_properties=key_properties[-1:])
    sizes = {
        "chunk": chance.choice((1, 2, 3, 50)),
        "rows": chance.choice((1, 2, 3, 8, 1000)),
        "split": chance.choice((200, 600, 600, 1 << 20)),
        "file": chance.choice((1, 3, 100)),
        "member": chance.choice((1, 2, 100)),
    }
    batches[-1] = replace(batches[-1], run=True)
    if declared.format == "parquet" and _is_for_delta(declared, batches):
        declared = replace(declared, format="delta", iceberg=True)
    return Case(seed, declared, tuple(batches), sizes)


def _is_for_delta(declared: Declared, batches: Sequence[Batch]) -> bool:
    """Whether no column has a name with a space."""
    names = {name for batch in batches for name in batch.schema["properties"]}
    return not any(" " in name for name in names) and not any(rule.rename for rule in declared.rules.values())


def _some(chance: random.Random, names: Sequence[str], least: int, most: int) -> tuple[str, ...]:
    return tuple(chance.sample(names, min(len(names), chance.randint(least, most))))


def _kinds(chance: random.Random) -> dict[str, str]:
    names = chance.sample(NAMES, chance.randint(2, 6))
    kinds = {name: chance.choice(list(VALUES)) for name in names}
    kinds[names[0]] = chance.choice(SIMPLE)
    if chance.random() < 0.3:
        kinds["_sdc_deleted_at"] = "time"
    return kinds


def _declared(chance: random.Random, kinds: Mapping[str, str]) -> tuple[Declared, set[str]]:
    """And the properties whose types have to stay, since something is declared of them."""
    keep = chance.choice(("append", "latest", "latest", "history", "history"))
    simple = [name for name in kinds if kinds[name] in SIMPLE and name != "_sdc_deleted_at"]
    key = _some(chance, simple, 1, 2) if keep != "append" else None
    order_by = _some(chance, [name for name in simple if name not in (key or ()) and kinds[name] != "any"], 0, 2)
    sort_by = _some(chance, simple, 0, 2) if keep == "append" or chance.random() < 0.25 else ()
    parted = [name for name in simple if kinds[name] in ("integer", "string", "date", "time", "boolean")]
    parts = _some(chance, parted, 1, 2) if chance.random() < 0.2 else ()
    partition_by = tuple((name, _part(chance, kinds[name])) for name in parts)
    used = {*(key or ()), *order_by, *sort_by, *parts}
    rules, stable = {}, set(parts)
    for number, name in enumerate(kinds):
        drop = name not in used and chance.random() < 0.1
        second = list(kinds)[1]
        given = (
            second
            if number == 0
            and "__deleted" not in (name, second)
            and name.lower() != second.lower()
            and chance.random() < 0.5
            else f"new {number}"
        )
        rename = chance.choice((given, None, None, None, None))
        cast = None
        if name not in parts and kinds[name] in CASTS and chance.random() < 0.15:
            cast = chance.choice([words for words in CASTS[kinds[name]] if words != "json" or name not in order_by])
            stable.add(name)
        if drop or rename or cast:
            rules[name] = Rule(None if drop else rename, drop, None if drop else cast)
    first, second = list(kinds)[:2]
    if rules.get(first, Rule()).rename == second and rules.get(second, Rule()).rename is None:
        rules[second] = replace(rules.get(second, Rule()), rename=None if rules.get(second, Rule()).drop else first)
    checks = []
    for name in _some(chance, list(kinds), 0, 2):
        tests = _tests(chance, kinds[name], rules.get(name, Rule()).cast)
        if len(tests) and tests[0].operator != "null":
            stable.add(name)
        action = chance.choice(("drop", "drop", "warn", "fail")) if chance.random() < 0.5 else "drop"
        if not rules.get(name, Rule()).drop:
            checks.append((name, tests, action))
    deleted = None
    if chance.random() < 0.3:
        name = chance.choice(list(kinds))
        tests = _tests(chance, kinds[name], rules.get(name, Rule()).cast)
        deleted = (name, tests)
        if tests[0].operator != "null":
            stable.add(name)
    null_keys = "fail" if chance.random() < 0.15 else "drop"
    deletions = "soft" if keep != "history" and chance.random() < 0.3 else "hard"
    written = chance.choice(("parquet",) * 7 + ("csv", "jsonl", "avro"))
    return Declared(
        keep, key, order_by, sort_by, partition_by, rules, tuple(checks), deleted, deletions, null_keys, written
    ), stable


def _part(chance: random.Random, kind: str) -> str | None:
    parts = {"date": (None, "year", "month", "day"), "time": (None, "year", "month", "day", "hour")}
    return chance.choice(parts.get(kind, (None,)))


def _tests(chance: random.Random, kind: str, cast: str | None) -> tuple[Test, ...]:
    if cast is not None or kind not in LITERALS or chance.random() < 0.3:
        return (Test("null", negated=chance.random() < 0.7),)
    values = LITERALS[kind]
    if chance.random() < 0.3:
        return (Test("in", tuple(values), chance.random() < 0.3),)
    if kind == "boolean":
        return (Test("=", (True,)),)
    one = Test(chance.choice(("=", "!=", "<", "<=", ">", ">=")), (chance.choice(values),))
    return (one, Test("null", negated=True)) if chance.random() < 0.2 else (one,)


def _evolved(
    chance: random.Random, kinds: dict[str, str], now: dict[str, str], used: set[str], stable: set[str]
) -> dict[str, str]:
    """The next schema: a column added, widened, left out, or all as it was. ``kinds`` learns of new properties."""
    step = chance.random()
    made = dict(now)
    if step < 0.35:
        new = chance.choice(["added", "extra", "ID", "_sdc_deleted_at"])
        made[new] = kinds.setdefault(new, "time" if new == "_sdc_deleted_at" else chance.choice(list(VALUES)))
    elif step < 0.7:
        open_ = [name for name in made if name not in stable and made[name] in WIDENED]
        for name in open_[:1]:
            made[name] = chance.choice(WIDENED[made[name]])
            if name in used and made[name] not in SIMPLE:
                made[name] = now[name]
    elif step < 0.85:
        gone = [name for name in made if name not in used]
        for name in gone[:1]:
            del made[name]
    else:
        made = {name: kinds[name] for name in kinds if name in now or chance.random() < 0.5}
    return made


def _record(
    chance: random.Random,
    kinds: Mapping[str, str],
    now: Mapping[str, str],
    key: Sequence[str],
    spelled: set[str],
) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name in kinds:
        if name == "_sdc_deleted_at" and chance.random() < 0.7:
            continue
        if name not in now and chance.random() < 0.6:
            continue
        kind = chance.choice((now.get(name, kinds[name]), kinds[name]))
        kind = "object" if kind == "wider" else kind
        few = 3 if name in key else len(VALUES[kind])
        value = chance.choice(VALUES[kind][:few])
        if name in spelled and chance.random() < 0.7:
            value = chance.choice(SPELLED)
        roll = chance.random()
        if roll < 0.05:
            value = chance.choice(VALUES[chance.choice(list(VALUES))])
        if roll > (0.97 if name in key else 0.85):
            value = None
        record[name] = value
    if chance.random() < 0.1:
        record[chance.choice(("extra", "added", "nobody's"))] = chance.choice((1, "x", {"deep": 1}))
    return record


class _Versions:
    """Envelopes: no versions at all, whole tables one after another, or anything."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._mode = chance.choice(("none", "tables", "tables", "wild"))
        self._version = 1
        self._second = 0
        self._named = chance.choice((0.5, 1.0))
        self._timed = chance.random() < 0.8

    def message(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        chance = self._chance
        if self._mode == "tables" and chance.random() < 0.15:
            message = {"type": "ACTIVATE_VERSION", "stream": "s", "version": self._version}
            self._version += chance.random() < 0.7
            return message
        if self._mode == "wild" and chance.random() < 0.15:
            return {"type": "ACTIVATE_VERSION", "stream": "s", "version": chance.randint(1, 4)}
        message = {"type": "RECORD", "stream": "s", "record": record}
        if self._mode == "tables" and chance.random() < self._named:
            message["version"] = self._version
        elif self._mode == "wild" and chance.random() < 0.6:
            message["version"] = chance.randint(1, 4)
        self._second += chance.choice((0, 1, 1, 1, -1))
        if self._timed and chance.random() < 0.9:
            message["time_extracted"] = (
                f"2026-01-01T00:{(100 + self._second) // 60:02d}:{(100 + self._second) % 60:02d}Z"
            )
        return message
