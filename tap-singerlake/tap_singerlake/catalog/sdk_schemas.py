"""JSON Schemas for the SDK's eyes: the stored one stays as it is, the SDK gets one it can walk."""

from __future__ import annotations

from typing import Any

_SCHEMA = ("not", "if", "then", "else", "contains", "propertyNames")
_SCHEMA_LIST = ("anyOf", "allOf", "oneOf", "prefixItems")
_SCHEMA_MAP = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


def for_sdk(schema: Any) -> dict[str, Any]:
    """A copy of a stream's schema that the SDK's selection, stream maps and flattening can walk.

    They take every subschema for an object with a ``type`` that is text or a list: the boolean schemas ``true`` and
    ``false`` become objects of the same meaning, other values the empty schema. All keywords are kept.
    """
    walked = _subschema(schema)
    walked.setdefault("properties", {})
    return walked


def _subschema(node: Any) -> dict[str, Any]:
    if not isinstance(node, dict):
        return {"not": {}} if node is False else {}
    return {key: _keyword(key, value) for key, value in node.items() if _is_sound(key, value)}


def _keyword(key: str, value: Any) -> Any:
    if key in _SCHEMA_MAP:
        return {name: _subschema(part) for name, part in value.items()}
    if key in _SCHEMA_LIST:
        return [_subschema(part) for part in value]
    if key == "items":
        return [_subschema(part) for part in value] if isinstance(value, list) else _subschema(value)
    if key in _SCHEMA:
        return _subschema(value)
    return value


def _is_sound(key: str, value: Any) -> bool:
    if key in _SCHEMA_MAP:
        return isinstance(value, dict)
    if key in _SCHEMA_LIST:
        return isinstance(value, list)
    return key != "type" or isinstance(value, str | list)
