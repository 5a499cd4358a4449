"""Which properties did not fit, for the line that a run says of its table: names, numbers and kinds, never values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import msgspec

from singerlake.arrow.schema.columns import Column, Struct
from singerlake.arrow.values.values import parse, text_of
from singerlake.interpreter.process import with_room

MOST = 100
"""Names that are counted: records may have any number of them."""
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KINDS = {'"': "a string", "{": "an object", "[": "an array", "t": "a boolean", "f": "a boolean", "n": "null"}


@dataclass(frozen=True, slots=True)
class Rescued:
    """``rows`` have a value of a property in ``_rescued_data``; ``first`` is the kind of the first one (``a string``).
    ``declared``: whether the property has a column, whose type the value does not fit."""

    rows: int
    first: str
    declared: bool


def count(texts: Iterable[str], columns: Mapping[str, Column], counted: dict[str, Rescued]) -> None:
    """Add the objects of ``_rescued_data`` to ``counted``, by the names of properties from the record inwards, as
    ``address.zip``. ``columns`` are the types that properties are read as."""
    for text in texts:
        for name, written, declared in _within(text, columns, ""):
            before = counted.get(name)
            if before is not None or len(counted) < MOST:
                rows, first = (
                    (0, _KINDS.get(written[:1], "a number")) if before is None else (before.rows, before.first)
                )
                counted[name] = Rescued(rows + 1, first, declared)


def add(counted: dict[str, Rescued], later: Mapping[str, Rescued]) -> None:
    """Add what was counted of later records."""
    for name, each in later.items():
        before = counted.get(name)
        if before is not None or len(counted) < MOST:
            first = each if before is None else before
            counted[name] = Rescued(each.rows + (before.rows if before else 0), first.first, first.declared)


def _within(text: str, columns: Mapping[str, Column], prefix: str) -> Iterator[tuple[str, str, bool]]:
    for name, written in _properties(text).items():
        column = columns.get(name)
        if isinstance(column, Struct) and written.startswith("{"):
            yield from _within(written, {field.name: field.type for field in column.fields}, f"{prefix}{name}.")
        else:
            yield prefix + name, written, column is not None


def _properties(text: str) -> dict[str, str]:
    try:
        return {name: bytes(written).decode() for name, written in _OBJECT.decode(text).items()}
    except msgspec.DecodeError:
        # Values that Python's parser alone takes are kept as they were written, NaN among them.
        found = with_room(partial(parse, text.encode()))
        return {name: text_of(value) for name, value in found.items()}
