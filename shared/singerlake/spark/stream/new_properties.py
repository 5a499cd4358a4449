"""What a schema version that appears while a query runs has, and the query's columns do not."""

from __future__ import annotations

from collections.abc import Iterator

from singerlake.arrow.schema.columns import Array, Column, Struct, Variant, merge


def not_read(columns: Struct, declared: Struct) -> tuple[list[str], list[str]]:
    """The properties that ``declared`` has and ``columns`` do not, and those whose columns do not take every value of
    the type declared; both as paths: ``who.name``, ``tags[].id``."""
    missing: list[str] = []
    other: list[str] = []
    for path, difference in _differences(columns, declared, ""):
        (other if difference else missing).append(path)
    return missing, other


def _differences(column: Column, declared: Column, path: str) -> Iterator[tuple[str, bool]]:
    """Paths, with False where there is no such column, and True where it is of too narrow a type."""
    if isinstance(column, Struct) and isinstance(declared, Struct):
        for field in declared.fields:
            own = column.get(field.name)
            inner = f"{path}.{field.name}" if path else field.name
            if own is None:
                yield inner, False
            else:
                yield from _differences(own.type, field.type, inner)
    elif isinstance(column, Array) and isinstance(declared, Array):
        yield from _differences(column.element, declared.element, path + "[]")
    elif not isinstance(column, Variant) and merge(column, declared) != column:
        yield path, True
