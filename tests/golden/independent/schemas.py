"""The rest of the reader written from ``shared/docs/format`` alone: section 3, schemas and their hashes."""

from __future__ import annotations

import base64
import json
from typing import Any

NAMES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
DATA = ("const", "default", "enum", "examples", "example")


def canonical(schema: Any) -> str:
    """The canonical text of a schema, whose sorted arrays are in order already."""
    if isinstance(schema, dict):
        members = (f"{canonical(key)}:{canonical(schema[key])}" for key in sorted(schema))
        return "{" + ",".join(members) + "}"
    if isinstance(schema, list):
        return "[" + ",".join(map(canonical, schema)) + "]"
    if isinstance(schema, float):
        return repr(schema) if schema - schema == 0 else "null"
    if isinstance(schema, str):
        return json.dumps(schema, ensure_ascii=False)
    return json.dumps(schema)


def in_order(schema: Any, kind: str = "schema") -> Any:
    """The same schema with its sets in order."""
    if isinstance(schema, list):
        items = [in_order(item) for item in schema]
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True)) if kind == "set" else items
    if not isinstance(schema, dict):
        return schema
    made = {}
    for key, value in schema.items():
        if kind == "names":
            made[key] = in_order(value)
        elif key in DATA:
            made[key] = value
        elif key in NAMES and isinstance(value, dict):
            made[key] = in_order(value, "names")
        else:
            made[key] = in_order(value, "set" if key in ("type", "required") else "schema")
    return made


def canonical_bytes(schema: Any) -> bytes:
    """What is hashed."""
    return canonical(in_order(schema)).encode("utf-8", "surrogatepass")


def hash_of(fingerprint: int) -> str:
    """The first seven characters; the fingerprint itself is FarmHash's."""
    return base64.b85encode(fingerprint.to_bytes(8, "big")).decode()[:7]
