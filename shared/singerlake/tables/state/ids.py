"""Ids of columns and of the fields within them, by which Iceberg knows them (section 14.8 of the format). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from singerlake.arrow.schema.columns import Array, Column, Struct
from singerlake.format.exact_json import encode
from singerlake.tables.state.model import FieldId
from singerlake.tables.state.types import words_of

ELEMENT = "element"
"""What the elements of an array are called."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """A column or a field with its id, and what is within it: fields, or the elements of an array."""

    id: int
    name: str
    type: Column
    inner: tuple[Numbered, ...] = ()


def numbered(known: Sequence[FieldId], columns: Struct) -> tuple[tuple[Numbered, ...], tuple[FieldId, ...]]:
    """The columns with their ids, and ``known`` with the new ones behind it. A column of another type, and all within
    it, has another id: readers of old snapshots know the old one."""
    ids = list(known)
    there = {_key(each.parent, each.name, each.type): each.id for each in known}
    fresh = count(max((each.id for each in known), default=0) + 1)

    def number(parent: int, name: str, column: Column) -> Numbered:
        kind = _kind(column)
        key = _key(parent, name, kind)
        if key not in there:
            there[key] = next(fresh)
            ids.append(FieldId(id=there[key], parent=parent, name=name, type=kind))
        id = there[key]
        return Numbered(id, name, column, tuple(number(id, *each) for each in _within(column)))

    return tuple(number(0, field.name, field.type) for field in columns.fields), tuple(ids)


def _within(column: Column) -> Iterator[tuple[str, Column]]:
    if isinstance(column, Array):
        yield ELEMENT, column.element
    elif isinstance(column, Struct):
        for field in column.fields:
            yield field.name, field.type


def _kind(column: Column) -> Any:
    if isinstance(column, Struct):
        return "struct"
    return "array" if isinstance(column, Array) else words_of(column)


def _key(parent: int, name: str, kind: Any) -> tuple[int, str, bytes]:
    return parent, name, encode(kind)
