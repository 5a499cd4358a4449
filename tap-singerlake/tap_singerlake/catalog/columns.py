"""The columns of a stream over several versions of its schema: what discovery offers, so that a column of an older
version can be deselected, too, and what a catalog does not know."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from singerlake.errors import UnknownNameError
from singerlake.format.schema_hash import canonical_schema
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.files.totals import totals_of
from singerlake.format.state.model import Manifest, SchemaVersion
from singerlake.format.state.selection import first_offset, resolve_version

Breadcrumb = tuple[str, ...]
"""A column's path as Singer's metadata has it: ``("properties", "address", "properties", "city")``."""

_DEFINITIONS = ("$defs", "definitions")

_ORDER = ("null", "string", "number", "integer", "boolean", "object", "array")
"""Many targets take the first type that is not null: text holds every scalar, and a number every integer."""
_NUMBERS = frozenset(("integer", "number"))
_OF: dict[str, frozenset[str]] = {
    **dict.fromkeys(("maxLength", "minLength", "pattern", "format"), frozenset({"string"})),
    **dict.fromkeys(("contentEncoding", "contentMediaType", "contentSchema"), frozenset({"string"})),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _NUMBERS),
    **dict.fromkeys(("items", "prefixItems", "additionalItems"), frozenset({"array"})),
    **dict.fromkeys(("contains", "minContains", "maxContains"), frozenset({"array"})),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems"), frozenset({"array"})),
    **dict.fromkeys(("properties", "patternProperties", "propertyNames", "required"), frozenset({"object"})),
    **dict.fromkeys(("additionalProperties", "minProperties", "maxProperties"), frozenset({"object"})),
    **dict.fromkeys(("dependentRequired", "dependentSchemas", "dependencies"), frozenset({"object"})),
}
"""The types of values that a keyword says something of; every other keyword is about all of them."""
_TOGETHER = (
    ("minimum", "exclusiveMinimum"),
    ("maximum", "exclusiveMaximum"),
    ("contains", "minContains", "maxContains"),
    ("if", "then", "else"),
    ("items", "prefixItems", "additionalItems"),
    ("patternProperties", "additionalProperties"),
)
_OF_ALL_ELSE = ("unevaluatedItems", "unevaluatedProperties")
"""Keywords that mean what every other one leaves: they stay where the schemas are equal, and nowhere else."""
_LARGEST = {"maxLength": max, "maxItems": max, "maxProperties": max, "maximum": max}
_SMALLEST = {"minLength": min, "minItems": min, "minProperties": min, "minimum": min}
_NOTES = ("$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated")
"""Keywords that allow and forbid nothing: those of the first schema stay."""


def replayed(
    manifest: Manifest,
    from_version: str | None = None,
    versions: Iterable[str] | None = None,
    *,
    begin: int | None = None,
    end: int | None = None,
) -> list[SchemaVersion]:
    """The versions that a replay without a bookmark meets, from the offset ``begin`` on and before ``end``, that of the
    newest messages first. What names no version of the stream counts as not asked: it fails where the replay begins."""
    start, wanted = begin or 0, None
    with suppress(UnknownNameError):
        start = max(start, first_offset(manifest, from_version))
    if versions is not None:
        with suppress(UnknownNameError):
            wanted = {resolve_version(manifest, text) for text in versions}
    listed = manifest.files_from(start, end) if end is None or start < end else FileList()
    return met(manifest, listed, wanted)


def met(manifest: Manifest, files: FileList, wanted: Collection[str] | None = None) -> list[SchemaVersion]:
    """The versions of ``files``, that of the newest messages first; of ``wanted`` hashes alone, if given."""
    totals = totals_of(files).versions
    hashes = sorted(totals, key=lambda version: totals[version].end, reverse=True)
    known = [hash for hash in hashes if hash in manifest.schemas]
    return [manifest.schemas[hash] for hash in known if wanted is None or hash in wanted]


def united(schemas: Sequence[Any]) -> Any:
    """The first schema, with the properties that only the others have, at every level of objects in objects; the very
    same where they have none. A property is described as the first schema that has it does."""
    first = schemas[0]
    if not isinstance(first, dict):
        return first
    objects = [schema for schema in schemas if isinstance(schema, dict)]
    made = _with_properties(first, objects)
    for name in _DEFINITIONS:
        known = [_members(schema, name) for schema in objects]
        if any(one.keys() - known[0].keys() for one in known):
            made = {**made, name: {key: part for one in reversed(known) for key, part in one.items()} | known[0]}
    return made


def says_nothing_new(asked: Any, known: Sequence[Any]) -> bool:
    """Whether a schema of a property equals one of ``known``, or was united of them: then it is nobody's wish."""
    wanted = canonical_schema({"": asked})
    if any(canonical_schema({"": one}) == wanted for one in known):
        return True
    if not isinstance(asked, dict) or not isinstance(asked.get("properties"), dict):
        return False
    shell = canonical_schema({"": _shell(asked)})
    if not any(canonical_schema({"": _shell(one)}) == shell for one in known):
        return False
    inner = [_members(one, "properties") for one in known if isinstance(one, dict)]
    for name, part in asked["properties"].items():
        if not says_nothing_new(part, [one[name] for one in inner if name in one]):
            return False
    return True


def defines_nothing_new(asked: Any, known: Iterable[Mapping[str, Any]], keyword: str) -> bool:
    """The same for ``$defs`` and ``definitions``, each of whose members stands alone."""
    if keyword not in _DEFINITIONS or not isinstance(asked, dict):
        return False
    maps = [_members(one, keyword) for one in known]
    return all(says_nothing_new(part, [one[name] for one in maps if name in one]) for name, part in asked.items())


def unknown(schemas: Iterable[Any], schema: Any, metadata: Iterable[Breadcrumb]) -> list[Breadcrumb]:
    """The outermost columns of ``schemas`` that a catalog with this schema and metadata does not know."""
    known = {crumb[:length] for crumb in metadata for length in range(2, len(crumb) + 1, 2)}
    unknown_columns: dict[Breadcrumb, None] = {}
    for one in schemas:
        unknown_columns.update(dict.fromkeys(_unknown(one, schema, known, ())))
    return list(unknown_columns)


def shown(column: Breadcrumb) -> str:
    """A column as people write it: ``address.city``."""
    return ".".join(column[1::2])


def _unknown(schema: Any, catalog: Any, known: set[Breadcrumb], at: Breadcrumb) -> Iterator[Breadcrumb]:
    listed = _members(catalog, "properties")
    for name, part in _members(schema, "properties").items():
        here = (*at, "properties", name)
        if name in listed or here in known:
            yield from _unknown(part, listed.get(name), known, here)
        else:
            yield here


def _with_properties(first: Any, others: Sequence[Any]) -> Any:
    parts: dict[str, list[Any]] = {}
    for schema in others:
        for name, part in _members(schema, "properties").items():
            parts.setdefault(name, []).append(part)
    own = _members(first, "properties")
    made = {}
    for name in (*own, *parts):
        if name not in made:
            made[name] = _with_properties(parts[name][0], parts[name]) if len(parts[name]) > 1 else parts[name][0]
    if made.keys() == own.keys() and all(made[name] is own[name] for name in own):
        return first
    return {**_shell(first), "properties": made}


def _shell(schema: Any) -> dict[str, Any]:
    """A schema without its properties; the boolean schemas as objects of the same meaning."""
    if not isinstance(schema, dict):
        return {"not": {}} if schema is False else {}
    return {name: value for name, value in schema.items() if name != "properties"}


def _members(schema: Any, name: str) -> dict[str, Any]:
    part = schema.get(name) if isinstance(schema, dict) else None
    return part if isinstance(part, dict) else {}


def joined(schemas: Sequence[Any]) -> Any:
    """One JSON Schema for the records of all ``schemas``, the newest of which is the first; the very same where all are
    equal. A property is described as the versions that have it do, and is required where all require it. Types are
    united; ``integer`` and ``number`` are ``number``."""
    first = schemas[0]
    if all(_same(first, other) for other in schemas[1:]):
        return first
    known = [one for schema in schemas if schema is not False for one in _alternatives(schema)]
    if not known:
        return False
    made: dict[str, Any] = {name: first[name] for name in _NOTES if isinstance(first, Mapping) and name in first}
    types = _types(known)
    if types is not None:
        made["type"] = types
    for name in dict.fromkeys(key for schema in known for key in schema if key not in _NOTES):
        if name in _DEFINITIONS:
            made[name] = _each(schema.get(name) for schema in known)
        elif name != "type":
            concerned = [schema for schema in known if _allows(schema, _OF.get(name))]
            made |= _keyword(name, concerned)
    return made


def _keyword(name: str, known: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is left of a keyword, ``known`` being the schemas that allow values of its type."""
    if name in _OF_ALL_ELSE or not known:
        return {}
    if name == "properties":
        return {name: _each(schema.get(name) for schema in known)}
    if name == "required":
        lists = [schema.get(name) for schema in known]
        first = lists[0] if isinstance(lists[0], list) else []
        kept = [one for one in first if all(isinstance(other, list) and one in other for other in lists)]
        return {name: kept} if kept else {}
    if name == "enum" and all(isinstance(schema.get(name), list) for schema in known):
        allowed = {canonical_schema({"": [value]}): value for schema in known for value in schema[name]}
        return {name: list(allowed.values())}
    group = next((names for names in _TOGETHER if name in names), (name,))
    if all(_same(_part(known[0], group), _part(schema, group)) for schema in known[1:]):
        return {name: known[0][name]} if name in known[0] else {}
    if not all(_part(schema, group).keys() == {name} for schema in known):
        return {}
    values = [schema[name] for schema in known]
    if name == "items" and not any(isinstance(value, list) for value in values):
        return {name: joined(values)}
    widest = _LARGEST.get(name) or _SMALLEST.get(name)
    if widest is not None and all(_is_number(value) for value in values):
        return {name: widest(values)}
    return {}


def _each(maps: Iterable[Any]) -> dict[str, Any]:
    """Schemas by name, each joined over the maps that have it, in the order of the first map."""
    parts: dict[str, list[Any]] = {}
    for one in maps:
        for name, part in one.items() if isinstance(one, Mapping) else ():
            parts.setdefault(name, []).append(part)
    return {name: joined(found) for name, found in parts.items()}


def _types(known: Sequence[Mapping[str, Any]]) -> Any:
    """The types that any of the schemas allows; None where one of them allows all."""
    if not all("type" in schema for schema in known):
        return None
    lists = [[schema["type"]] if isinstance(schema["type"], str) else list(schema["type"]) for schema in known]
    types = {name for one in lists for name in one}
    if types >= _NUMBERS:
        types.remove("integer")
    if types == set(lists[0]):
        return known[0]["type"]
    ordered = sorted(types, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), str(name)))
    return ordered[0] if len(ordered) == 1 else ordered


def _allows(schema: Mapping[str, Any], types: frozenset[str] | None) -> bool:
    if types is None or "type" not in schema:
        return True
    own = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    return not types.isdisjoint(own)


def _part(schema: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: schema[name] for name in names if name in schema}


def _same(one: Any, other: Any) -> bool:
    return canonical_schema({"": one}) == canonical_schema({"": other})


def _alternatives(schema: Any) -> Sequence[Mapping[str, Any]]:
    """The schemas one of which a value has to meet: several where ``anyOf`` or ``oneOf`` is all that is said."""
    if not isinstance(schema, Mapping):
        return [{}]
    for name in ("anyOf", "oneOf"):
        if name in schema and not schema.keys() - {name, *_NOTES} and isinstance(schema[name], list):
            return [one for part in schema[name] if part is not False for one in _alternatives(part)]
    return [schema]


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool | str | list | dict) and value is not None
