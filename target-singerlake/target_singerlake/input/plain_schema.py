"""Records that surely match their schema, found by msgspec: most schemas say types, ranges and lengths alone.

Only a yes counts. What msgspec does not take, and each record of a schema that says anything else, is for
``jsonschema`` to look at, so that both together say what ``jsonschema`` alone would: ``1.0`` is an integer in most
drafts, and a name that comes twice counts with its last value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec

_SAYS_NOTHING = {"$comment", "$schema", "default", "deprecated", "description", "examples", "format", "title"}
"""Keywords that allow all values; ``format`` is not checked (JSON Schema 2020-12, validation, 7.2.1)."""
_OWN = {
    "array": {"items"},
    "integer": {"minimum", "maximum"},
    "object": {"properties", "required", "additionalProperties"},
    "string": {"minLength", "maxLength"},
}
_DEEPEST = 50
_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _NotPlainError(Exception):
    """The schema says more than a type of Python does."""


def acceptance(schema: Mapping[str, Any], keys: Iterable[str]) -> Callable[[bytes], bool] | None:
    """Whether the record of a RECORD message surely matches a valid schema and has all ``keys``; None where the schema
    says more than that."""
    try:
        record = _object(schema, [*keys], 0)
        decode = msgspec.json.Decoder(msgspec.defstruct("Line", [("record", record)], gc=False)).decode
    except (_NotPlainError, TypeError, ValueError):
        # Also a name that msgspec has no field for, and a union that it cannot tell apart.
        return None

    def accepts(line: bytes) -> bool:
        with suppress(*_REFUSALS):
            decode(line)
            return True
        return False

    return accepts


def _type(schema: Any, depth: int) -> Any:
    if schema is True:
        return Any
    if not isinstance(schema, dict) or depth > _DEEPEST:
        raise _NotPlainError
    said = schema.get("type")
    if said is None:
        _only(schema, set())
        return Any
    names = [said] if isinstance(said, str) else said
    if not isinstance(names, list) or not names or ("number" in names and schema.keys() & _OWN["integer"]):
        # msgspec compares a float with a limit where the decimal that came counts.
        raise _NotPlainError
    if "enum" in schema:
        return _one_of(schema, names)
    _only(schema, {"type"}.union(*(_OWN.get(name, ()) for name in names)))
    union: Any = None
    for name in names:
        union = union | _named(name, schema, depth) if union is not None else _named(name, schema, depth)
    return union


def _one_of(schema: Mapping[str, Any], names: list[Any]) -> Any:
    _only(schema, {"type", "enum"})
    values = [value for value in schema["enum"] if ("null" if value is None else "string") in names]
    if not {*names} <= {"string", "null"} or not all(value is None or isinstance(value, str) for value in values):
        raise _NotPlainError
    return Literal[tuple(values)]


def _only(schema: Mapping[str, Any], known: set[str]) -> None:
    if schema.keys() - known - _SAYS_NOTHING:
        raise _NotPlainError


def _named(name: Any, schema: Mapping[str, Any], depth: int) -> Any:
    match name:
        case "null":
            return type(None)
        case "boolean":
            return bool
        case "number":
            return float
        case "integer":
            return _limited(int, ge=schema.get("minimum"), le=schema.get("maximum"))
        case "string":
            return _limited(str, min_length=schema.get("minLength"), max_length=schema.get("maxLength"))
        case "array":
            return list[_type(schema.get("items", True), depth + 1)]  # type: ignore[misc]
        case "object":
            return _object(schema, [], depth)
    raise _NotPlainError


def _limited(kind: Any, **limits: Any) -> Any:
    given = {name: limit for name, limit in limits.items() if limit is not None}
    if any(type(limit) is not int for limit in given.values()):
        raise _NotPlainError
    return Annotated[kind, msgspec.Meta(**given)] if given else kind


def _object(schema: Mapping[str, Any], keys: list[str], depth: int) -> Any:
    _only(schema, {"type", *_OWN["object"], *_OWN["array"], *_OWN["integer"], *_OWN["string"]})
    properties, required = schema.get("properties", {}), schema.get("required", [])
    closed = schema.get("additionalProperties", True)
    if not isinstance(properties, dict) or not isinstance(required, list) or not isinstance(closed, bool):
        raise _NotPlainError
    must = {*required, *keys}
    if not closed and not must <= properties.keys():
        raise _NotPlainError
    names = dict.fromkeys([*properties, *sorted(must)])
    types = {name: _type(properties.get(name, True), depth + 1) for name in names}
    # Those that may be left out come last, as a struct has it.
    ordered = sorted(names, key=lambda name: name not in must)
    fields = [
        (f"f{at}", types[name]) if name in must else (f"f{at}", types[name] | msgspec.UnsetType, msgspec.UNSET)
        for at, name in enumerate(ordered)
    ]
    rename = {f"f{at}": name for at, name in enumerate(ordered)}
    return msgspec.defstruct("Object", fields, rename=rename, forbid_unknown_fields=not closed, gc=False)
