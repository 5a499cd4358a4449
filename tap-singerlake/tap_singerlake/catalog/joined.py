"""One schema for records of several versions: what one of them allows of the properties that it declares, it allows.

A keyword stays where all versions that allow its type of values agree on it. Left out, a keyword forbids nothing, so no
version is narrowed. Keywords that change what another one means stay or go together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from singerlake.format.schema_hash import canonical_schema

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
_DEFINITIONS = ("$defs", "definitions")


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
