"""Whether a condition can hold for a record of a stream, by what the stream's versions declare. Pure.

A typing mistake in a name or in quotes would find nothing, which reads as if nothing were there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from singerlake.arrow.schema.columns import (
    Array,
    Boolean,
    Column,
    Date,
    Decimal,
    Double,
    Integer,
    JsonText,
    Struct,
    Text,
    Timestamp,
    merge_all,
)
from singerlake.arrow.schema.json_schema import columns_of
from singerlake.attached.property_path import EACH, Path
from singerlake.conditions import Condition, Reading, Test, Value
from singerlake.errors import LakeError, SettingError, SingerlakeError, UnknownNameError
from singerlake.format.state.model import Manifest
from singerlake.upkeep.context import LakeContext
from singerlake.upkeep.erase.match import read_date, read_time

_WORD = re.compile(r"[A-Za-z0-9_$-]+\Z")
_ANYTHING: Column = JsonText()
_ELSEWHERE = ("patternProperties", "$ref", "allOf", "anyOf", "oneOf")
"""Keywords beside ``properties`` that may declare further ones."""
_SHOWN = 12
"""Properties or versions that an error names."""
_ALL_THE_SAME = "give --undeclared if records have it all the same"


def doubt(condition: Condition, manifest: Manifest) -> SingerlakeError | None:
    """The error for a condition that holds for no record that is as a version declares it: it names a property that no
    version declares, or compares one with a value of another type. None where it can hold, or without a version."""
    versions = {
        label: _record(manifest.schemas[version].schema) if version in manifest.schemas else _ANYTHING
        for version, label in manifest.versions.items()
    }
    if not versions:
        return None
    return next((error for test in condition.tests if (error := _doubt(test, manifest, versions)) is not None), None)


def check_somewhere(condition: Condition, lake: LakeContext, pairs: Iterable[tuple[str, str]]) -> None:
    """Raise what ``doubt`` gives, if the condition can hold in none of the streams. One without a version has no
    records. One whose state cannot be read may hold anything, and is told of elsewhere."""
    first: SingerlakeError | None = None
    for tap, stream in pairs:
        try:
            state = lake.stream(tap, stream).state()
        except LakeError:
            return
        if state is None:
            return
        error = doubt(condition, state)
        if error is None and state.versions:
            return
        # That a property is declared, and the value wrong, says more than that another stream has no such property.
        if first is None or (isinstance(first, UnknownNameError) and isinstance(error, SettingError)):
            first = error
    if first is not None:
        raise first


def names_in(condition: Condition) -> tuple[str, ...]:
    """The properties that a condition names, as it writes them."""
    return tuple(dict.fromkeys(_text(test.path) for test in condition.tests))


def similar(condition: Condition, manifest: Manifest) -> tuple[str, ...]:
    """The properties of a stream in whose names that of one in the condition is, in whatever case: who is erased by
    ``email`` may stand in ``contact_email``, too."""
    records = [_record(each.schema) for each in manifest.schemas.values()]
    declared = dict.fromkeys(path for record in records for path in _paths(record, ""))
    wanted = {name.rpartition(".")[2].casefold() for name in names_in(condition)}
    return tuple(path for path in declared if any(name in path.rpartition(".")[2].casefold() for name in wanted))


def as_declared(condition: Condition, manifest: Manifest) -> Condition:
    """``condition`` with texts compared as what they are in a table of the stream, by all versions that declare some.
    What is in no table since it may also not be text is compared likewise."""
    records = [columns_of([each.schema]) for each in manifest.schemas.values()]
    return Condition(tuple(replace(test, reading=_reading(records, test.path)) for test in condition.tests))


def _reading(records: Sequence[Column], path: Path) -> Reading:
    found = [column for record in records if (column := _at(record, path)) is not None]
    column = merge_all([each for each in found if _is_text(each)])
    if isinstance(column, Timestamp):
        return "time"
    if isinstance(column, Date):
        return "date"
    return "number" if isinstance(column, Decimal) and column.text else "text"


def _record(schema: object) -> Column:
    """What a version's records are. One that names no property, or that declares some elsewhere, takes all."""
    if not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict) or not schema["properties"]:
        return _ANYTHING
    if isinstance(schema.get("additionalProperties"), dict) or any(word in schema for word in _ELSEWHERE):
        return _ANYTHING
    return columns_of([schema])


def _doubt(test: Test, manifest: Manifest, versions: Mapping[str, Column]) -> SingerlakeError | None:
    where = {"tap": manifest.tap, "stream": manifest.stream}
    there = {label: found for label, record in versions.items() if (found := _at(record, test.path)) is not None}
    if not there:
        name = _text(test.path)
        return UnknownNameError(
            f"no version of the stream declares {name!r}", hint=f"{_instead(name, versions)} {_ALL_THE_SAME}", **where
        )
    columns = list(there.values())
    wrong = next((each[0] for each in test.values if not any(_takes(test, columns, value) for value in each)), None)
    if wrong is None:
        return None
    declared = "; ".join(f"as {kind} by {_listed(labels)}" for kind, labels in _by_kind(there).items())
    return SettingError(
        f"{_text(test.path)!r} is compared with {_kind_of(wrong)}, and is declared {declared}",
        hint=f"{_written(test, columns, wrong)}; {_ALL_THE_SAME}",
        **where,
    )


def _at(column: Column, path: Path) -> Column | None:
    """What is declared at a path; None where nothing is."""
    for step in path:
        if isinstance(column, JsonText):
            return column
        if step is EACH:
            if not isinstance(column, Array):
                return None
            column = column.element
        else:
            field = column.get(step) if isinstance(column, Struct) else None
            if field is None:
                return None
            column = field.type
    return column


def _is_text(column: Column) -> bool:
    return isinstance(column, Text | Timestamp | Date) or (isinstance(column, Decimal) and column.text)


def _takes(test: Test, columns: Sequence[Column], value: Value) -> bool:
    """Whether ``test`` can hold for what one of the columns has, as it was captured, and a ``value`` of its."""
    return any(_compared(column, value, is_ordered=not test.is_among) for column in columns)


def _compared(column: Column, value: Value, *, is_ordered: bool) -> bool:
    if isinstance(column, JsonText):
        return not (is_ordered and isinstance(value, str))
    if isinstance(value, bool):
        return isinstance(column, Boolean)
    if not isinstance(value, str):
        return isinstance(column, Integer | Double | Decimal)
    if not is_ordered:
        return _is_text(column)
    if isinstance(column, Timestamp):
        return read_time(value) is not None
    return isinstance(column, Text) or (isinstance(column, Date) and read_date(value) is not None)


def _kind_of(value: Value) -> str:
    if isinstance(value, bool):
        return "true or false"
    return "text" if isinstance(value, str) else "a number"


def _kind(column: Column) -> str:
    """How a column is declared, in the words of JSON Schema."""
    if isinstance(column, Integer | Boolean | Array | Struct):
        return {Integer: "integer", Boolean: "boolean", Array: "array", Struct: "object"}[type(column)]
    if isinstance(column, Double) or (isinstance(column, Decimal) and column.number):
        return "number"
    return "any type" if isinstance(column, JsonText) else "string"


def _by_kind(there: Mapping[str, Column]) -> Mapping[str, Sequence[str]]:
    kinds: dict[str, list[str]] = {}
    for label, column in there.items():
        kinds.setdefault(_kind(column), []).append(label)
    return kinds


def _written(test: Test, columns: Sequence[Column], wrong: Value) -> str:
    """How the condition is written instead."""
    if all(isinstance(column, Array | Struct) for column in columns):
        return "name what is in it, as in 'phones[*].number' or 'user.id'"
    if isinstance(wrong, str):
        if any(isinstance(column, Timestamp | Date) for column in columns):
            return "write a time as '2026-01-31T00:00:00Z', or a date as '2026-01-31', as it is declared"
        if any(isinstance(column, JsonText) for column in columns):
            return "it has no single type, so that nothing says how its texts are ordered"
        return "write numbers, true and false without quotes"
    return "write the value in quotes" if _takes(test, columns, "") else "correct the value"


def _instead(name: str, versions: Mapping[str, Column]) -> str:
    """What may be meant, and which versions declare it; else what each version declares."""
    declared = {label: list(_paths(record, "")) for label, record in versions.items()}
    every = list(dict.fromkeys(path for paths in declared.values() for path in paths))
    by_case = {path.casefold(): path for path in every}
    near = get_close_matches(name, every, n=1) or get_close_matches(name.casefold(), by_case, n=1)
    if near:
        meant = near[0] if near[0] in every else by_case[near[0]]
        labels = _listed(label for label, paths in declared.items() if meant in paths)
        return f"did you mean {meant!r}, declared by {labels}?"
    each = ((label, [field.name for field in record.fields]) for label, record in _structs(versions))
    said = (f"{label} declares {_listed(map(_name, names))}" for label, names in reversed(list(each)[-3:]))
    return f"{'; '.join(said)};"


def _structs(versions: Mapping[str, Column]) -> Iterator[tuple[str, Struct]]:
    return ((label, record) for label, record in versions.items() if isinstance(record, Struct))


def _paths(column: Column, before: str) -> Iterator[str]:
    if isinstance(column, Array):
        yield f"{before}[*]"
        yield from _paths(column.element, f"{before}[*]")
    elif isinstance(column, Struct):
        for field in column.fields:
            path = f"{before}.{_name(field.name)}" if before else _name(field.name)
            yield path
            yield from _paths(field.type, path)


def _text(path: Path) -> str:
    return "".join("[*]" if step is EACH else f".{_name(step)}" for step in path).removeprefix(".")


def _name(name: str) -> str:
    return name if _WORD.match(name) else json.dumps(name, ensure_ascii=False)


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = [f"{len(every) - _SHOWN:,} more"] if len(every) > _SHOWN else []
    return ", ".join([*every[:_SHOWN], *more])
