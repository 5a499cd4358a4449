"""Keys whose declared type changed from one schema version to another, so that ``1`` and ``"1"`` are two keys. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from singerlake.arrow.schema.columns import JsonText
from singerlake.arrow.schema.json_schema import columns_of
from singerlake.format.state.model import Manifest
from singerlake.format.state.selection import schema_of
from singerlake.humanize import shown
from singerlake.tables.declaration.model import TableDeclaration
from singerlake.tables.rows.columns import TableColumns
from singerlake.tables.state.types import type_name

MixedKeys = Mapping[str, Mapping[str, str]]
"""For each property of a key the label of the version from which on it has a type, with that type."""


def mixed_keys(
    declaration: TableDeclaration, columns: TableColumns, key: Iterable[str], manifest: Manifest
) -> MixedKeys:
    """The properties of ``key`` that versions of the stream declare with types that only JSON text holds together, and
    that the table does not cast."""
    found: dict[str, dict[str, str]] = {}
    for name in key:
        column = columns.record(name)
        if isinstance(column.type, JsonText) and not any(declaration.rule(each).cast for each in column.sources):
            types = _types(manifest, column.sources)
            if len(types) > 1:
                found[name] = types
    return found


def _types(manifest: Manifest, sources: Iterable[str]) -> dict[str, str]:
    first: dict[str, str] = {}
    for version, label in manifest.versions.items():
        schema = schema_of(manifest, version).schema
        for field in columns_of([schema]).fields:
            if field.name in sources:
                first.setdefault(type_name(field.type), label)
    return {label: kind for kind, label in first.items()}


def in_words(name: str, types: Mapping[str, str]) -> str:
    """What a change of the types means for rows, and what to do."""
    said = " and ".join(f"{kind} from {label} on" for label, kind in types.items())
    return (
        f'the key {shown(name)} is {said}, and values of two types, as 1 and "1", are two keys; '
        "cast it under 'columns' in projections.yml, as to text"
    )
