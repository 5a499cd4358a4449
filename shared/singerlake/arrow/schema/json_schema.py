"""What type of column a JSON Schema declares. Pure; any JSON in the nesting of a schema is coped with.

Where a schema leaves open what a value may be, the answer is ``JsonText``, which takes all; a declared type that
turns out to be wrong is found by the reader, value by value. Types follow the keywords of JSON Schema 2020-12 and,
for decimals, the format ``singer.decimal`` of the Singer SDK.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from singerlake.arrow.schema.columns import (
    MAX_OPEN_SCALE,
    MAX_PRECISION,
    Array,
    Boolean,
    Column,
    Date,
    Decimal,
    Double,
    Field,
    Integer,
    JsonText,
    Nothing,
    Struct,
    Text,
    Timestamp,
    merge_all,
    settle,
)

MOST_LEVELS = 50
"""Arrays and objects within one another that a column has; what is deeper is JSON text. Arrow passes at most 64 levels
from process to process (``IpcWriteOptions.max_recursion_depth``)."""
_MAX_REFERENCES = 8
"""References within references that are followed; a recursive schema names no finite type."""
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_BEYOND = 2.0**63
_DIGITS = 20
"""Digits of the largest integer of 64 bits without a sign."""
_TEXT_FORMATS: Mapping[str, Column] = {"date-time": Timestamp(), "date": Date()}
_DECIMAL_FORMATS = ("singer.decimal", "x-singer.decimal")


class _Nesting(NamedTuple):
    """Where in a schema: below which references, and how many schemas deep."""

    active: frozenset[str]
    level: int


def columns_of(schemas: Iterable[Any]) -> Struct:
    """The columns of a stream: the records' properties over all ``schemas`` (a SCHEMA message's ``schema`` each),
    united in order of first appearance, each with the narrowest type that takes the values of all."""
    merged = merge_all([_record(schema) for schema in schemas])
    settled = settle(merged)
    return settled if isinstance(settled, Struct) else Struct(())


def _record(schema: Any) -> Column:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return _struct(properties, schema, _Nesting(frozenset(), 0)) if isinstance(properties, dict) else Struct(())


def _column(schema: Any, root: Any, nesting: _Nesting) -> Column:
    if not isinstance(schema, dict) or nesting.level >= MOST_LEVELS:
        return JsonText()
    nesting = nesting._replace(level=nesting.level + 1)
    if "$ref" in schema:
        return _follow(schema["$ref"], root, nesting)
    if "allOf" in schema:
        return JsonText()
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(alternatives, list) and alternatives:
        if "type" not in schema:
            return merge_all([_column(item, root, nesting) for item in alternatives])
        if "object" in names or "array" in names:
            return JsonText()
    return merge_all([_of_type(name, schema, root, nesting) for name in names])


def _of_type(name: Any, schema: dict[str, Any], root: Any, nesting: _Nesting) -> Column:
    if name == "null":
        return Nothing()
    if name == "boolean":
        return Boolean()
    if name == "integer":
        return _integer(schema)
    if name == "number":
        return _number(schema)
    if name == "string":
        return _string(schema)
    if name == "array":
        return _array(schema, root, nesting)
    if name == "object":
        return _object(schema, root, nesting)
    return JsonText()


def _integer(schema: dict[str, Any]) -> Column:
    """64 bits, or a decimal where a bound is beyond, as a double is: JavaScript writes 2**63 - 1 as
    9223372036854776000."""
    bounds = [exact for exact in map(_exact, map(schema.get, _BOUNDS)) if exact is not None]
    if all(abs(float(bound)) <= _BEYOND for bound in bounds):
        return Integer()
    digits = max(bound.adjusted() + 1 for bound in bounds)
    return Decimal(min(max(digits, _DIGITS), MAX_PRECISION), 0, number=True, text=False, whole=True)


def _number(schema: dict[str, Any]) -> Column:
    step = _exact(schema.get("multipleOf"))
    if step is None or step <= 0:
        return Double()
    exponent = step.normalize().as_tuple().exponent
    scale = max(0, -exponent) if isinstance(exponent, int) else 0
    return Decimal(MAX_PRECISION, scale, number=True, text=False) if scale <= MAX_OPEN_SCALE else JsonText()


def _exact(value: Any) -> decimal.Decimal | None:
    """A JSON number as the decimal it was most likely written as; None where it is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    exact = decimal.Decimal(value if isinstance(value, int) else repr(value))
    return exact if exact.is_finite() else None


def _string(schema: dict[str, Any]) -> Column:
    form = schema.get("format")
    if form in _DECIMAL_FORMATS:
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if type(precision) is int and type(scale) is int and 0 <= scale <= precision and 0 < precision <= MAX_PRECISION:
            return Decimal(precision, scale, number=False, text=True)
        return Text()
    return _TEXT_FORMATS.get(form, Text()) if isinstance(form, str) else Text()


def _array(schema: dict[str, Any], root: Any, nesting: _Nesting) -> Column:
    if "prefixItems" in schema:
        return Array(JsonText())
    return Array(_column(schema.get("items"), root, nesting))


def _object(schema: dict[str, Any], root: Any, nesting: _Nesting) -> Column:
    """An object with keys that no schema names holds them only as JSON text; ``additionalProperties: true`` does not
    count, for most taps write it without meaning it."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return JsonText()
    if "patternProperties" in schema or isinstance(schema.get("additionalProperties"), dict):
        return JsonText()
    return _struct(properties, root, nesting)


def _struct(properties: dict[str, Any], root: Any, nesting: _Nesting) -> Struct:
    """An object's columns. Arrow cannot hold a name that has no UTF-8: what is there counts as undeclared."""
    named = ((name, schema) for name, schema in properties.items() if _has_utf8(name))
    return Struct(tuple(Field(name, _column(schema, root, nesting)) for name, schema in named))


def _has_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _follow(pointer: Any, root: Any, nesting: _Nesting) -> Column:
    if not isinstance(pointer, str) or pointer in nesting.active or len(nesting.active) >= _MAX_REFERENCES:
        return JsonText()
    return _column(_referenced(pointer, root), root, nesting._replace(active=nesting.active | {pointer}))


def _referenced(pointer: str, root: Any) -> Any:
    """What a JSON Pointer fragment (RFC 6901) into the same schema names; None for anything else."""
    if not pointer.startswith("#/"):
        return None
    target = root
    for part in pointer[2:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(target, dict) or key not in target:
            return None
        target = target[key]
    return target
