"""Names that differ in more than case, which engines do not tell apart. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from singerlake.arrow.schema.columns import Array, Column, Struct


def free_name(name: str, taken: Collection[str]) -> str:
    """``name``, with a number from 2 on where that is ``taken``. Those are in lower case."""
    free, number = name, 1
    while free.lower() in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def with_distinct_names(column: Column) -> Column:
    """The type with such names for the fields of each object in it: the first of equals keeps its name."""
    if isinstance(column, Array):
        return Array(with_distinct_names(column.element))
    if not isinstance(column, Struct):
        return column
    taken: set[str] = set()
    fields = []
    for field in column.fields:
        name = free_name(field.name, taken)
        taken.add(name.lower())
        fields.append(replace(field, name=name, type=with_distinct_names(field.type)))
    return Struct(tuple(fields))
