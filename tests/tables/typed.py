"""Types and values of a table's columns in plain Python, from the tables of ``docs/how-to/spark.md`` alone.

A type is a word of the format page (``integer``), ``("decimal", precision, scale, takes)`` where ``takes`` is of
``number`` and ``text``, ``("array", type)`` or ``("struct", {name: type})``.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re
from collections.abc import Iterable
from typing import Any

MISFIT = object()
_STRINGS = ("text", "date", "timestamp")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?\Z")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)
_SCALE = 18


def written(value: Any) -> str:
    """JSON text as the tests' taps write it."""
    return json.dumps(value, separators=(",", ":"))


def columns_of(schemas: Iterable[Any]) -> dict[str, Any]:
    """The properties of all versions with their merged types, in order of first appearance."""
    merged: dict[str, Any] = {}
    for schema in schemas:
        for name, declared in schema.get("properties", {}).items():
            one = type_of(declared)
            merged[name] = merge(merged[name], one) if name in merged else one
    return {name: _settled(each) for name, each in merged.items()}


def type_of(schema: Any) -> Any:
    """The type that a property's schema declares; None where it allows nothing but null."""
    if not isinstance(schema, dict) or "type" not in schema:
        return "json"
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    found = None
    for name in names:
        found = merge(found, _of(name, schema))
    return found


def _of(name: str, schema: dict[str, Any]) -> Any:
    if name == "null":
        return None
    if name == "integer":
        bounds = [schema[each] for each in ("minimum", "maximum") if each in schema]
        digits = max((len(str(abs(each))) for each in bounds if abs(float(each)) > 2.0**63), default=0)
        return ("decimal", max(20, digits), 0, frozenset({"number", "whole"})) if digits else "integer"
    if name == "number" and "multipleOf" in schema:
        exponent = decimal.Decimal(repr(schema["multipleOf"])).normalize().as_tuple().exponent
        assert isinstance(exponent, int)
        return ("decimal", 38, max(0, -exponent), frozenset({"number"}))
    if name == "string":
        if schema.get("format") == "singer.decimal":
            return ("decimal", schema["precision"], schema["scale"], frozenset({"text"}))
        return {"date-time": "timestamp", "date": "date"}.get(schema.get("format", ""), "text")
    if name == "array":
        return ("array", type_of(schema.get("items")))
    if name == "object" and schema.get("properties"):
        return ("struct", {each: type_of(inner) for each, inner in schema["properties"].items()})
    return {"boolean": "boolean", "number": "double"}.get(name, "json")


def merge(left: Any, right: Any) -> Any:
    """What takes the values of both; None is the type of null alone."""
    if left is None or right is None or left == right:
        return left if right is None else right
    kinds = (left[0] if isinstance(left, tuple) else left, right[0] if isinstance(right, tuple) else right)
    if kinds == ("struct", "struct"):
        fields = dict(left[1])
        for name, each in right[1].items():
            fields[name] = merge(fields[name], each) if name in fields else each
        return ("struct", fields)
    if kinds == ("array", "array"):
        return ("array", merge(left[1], right[1]))
    if "double" in (left, right) and (_is_integer(left) or _is_integer(right)):
        return "double"
    if "decimal" in kinds:
        return _merged_decimal(left, right)
    return "text" if set(kinds) <= set(_STRINGS) else "json"


def _merged_decimal(left: Any, right: Any) -> Any:
    if _is_string(left) and _is_string(right) and not (isinstance(left, tuple) and isinstance(right, tuple)):
        return "text"
    both = [("decimal", 19, 0, frozenset({"number", "whole"})) if each == "integer" else each for each in (left, right)]
    if not all(isinstance(each, tuple) and each[0] == "decimal" for each in both):
        return "json"
    (_, p, s, takes), (_, q, t, also) = both
    scale = max(s, t)
    digits = max(p - s, q - t) + scale
    if "whole" in takes ^ also:
        digits, takes, also = 38 + scale, takes - {"whole"}, also - {"whole"}
    if digits > 38 and scale > _SCALE:
        return "text" if _is_string(left) and _is_string(right) else "json"
    return ("decimal", min(digits, 38), scale, takes | also)


def _is_integer(kind: Any) -> bool:
    return kind == "integer" or (isinstance(kind, tuple) and kind[0] == "decimal" and "whole" in kind[3])


def _is_string(kind: Any) -> bool:
    return kind in _STRINGS or (isinstance(kind, tuple) and kind[0] == "decimal" and kind[3] == frozenset({"text"}))


def _settled(kind: Any) -> Any:
    if kind is None:
        return "json"
    if isinstance(kind, tuple) and kind[0] == "array":
        return ("array", _settled(kind[1]))
    if isinstance(kind, tuple) and kind[0] == "struct":
        return ("struct", {name: _settled(each) for name, each in kind[1].items()})
    return kind


def fitted(value: Any, kind: Any) -> tuple[Any, Any]:
    """What the column holds of a JSON value, and what is rescued of it; ``MISFIT``: nothing is."""
    if value is None:
        return None, MISFIT
    if isinstance(kind, tuple) and kind[0] == "struct" and isinstance(value, dict):
        row, lost = {}, {}
        for name, each in kind[1].items():
            row[name], left = fitted(value.get(name), each)
            if left is not MISFIT:
                lost[name] = left
        lost |= {name: each for name, each in value.items() if name not in kind[1]}
        return row, lost or MISFIT
    found = _whole(value, kind)
    return (None, value) if found is MISFIT else (found, MISFIT)


def named(value: Any, kind: Any) -> Any:
    """The value that ``fitted`` gave, with the table's names of fields: no two of an object differ by case alone."""
    if isinstance(kind, tuple) and kind[0] == "array" and isinstance(value, list):
        return [named(each, kind[1]) for each in value]
    if not (isinstance(kind, tuple) and kind[0] == "struct" and isinstance(value, dict)):
        return value
    made: dict[str, Any] = {}
    taken: set[str] = set()
    for name, inner in kind[1].items():
        given = next(each for each in (name, *(f"{name}_{n}" for n in range(2, 99))) if each.lower() not in taken)
        taken.add(given.lower())
        made[given] = named(value[name], inner)
    return made


def _whole(value: Any, kind: Any) -> Any:
    """A value that fits as a whole or not at all."""
    if value is None:
        return None
    if kind == "json":
        return written(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(kind, tuple) and kind[0] == "struct" and isinstance(value, dict):
        fields = {name: _whole(value.get(name), each) for name, each in kind[1].items()}
        return MISFIT if any(each is MISFIT for each in fields.values()) else fields
    if isinstance(kind, tuple) and kind[0] == "array" and isinstance(value, list):
        items = [_whole(each, kind[1]) for each in value]
        return MISFIT if any(each is MISFIT for each in items) else items
    if isinstance(kind, tuple) and kind[0] == "decimal":
        text = written(value) if number and "number" in kind[3] else value if "text" in kind[3] else None
        return to_decimal(text, kind[1], kind[2]) if isinstance(text, str) else MISFIT
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind == "integer" and number and math.isfinite(value) and value == int(value) and -(2**63) <= value < 2**63:
        return int(value)
    if kind == "double" and number and not (isinstance(value, int) and abs(value) > 2**53):
        return float(value)
    if isinstance(value, str):
        readers = {"text": lambda text: text, "date": to_date, "timestamp": to_time}
        return readers[kind](value) if isinstance(kind, str) and kind in readers else MISFIT
    return MISFIT


def to_decimal(text: str, precision: int, scale: int) -> Any:
    if not _NUMBER.match(text):
        return MISFIT
    exact = decimal.Decimal(text)
    with decimal.localcontext(prec=100):
        shifted = exact.scaleb(scale)
        if shifted != shifted.to_integral_value() or abs(shifted) >= 10**precision:
            return MISFIT
        return exact.quantize(decimal.Decimal(1).scaleb(-scale))


def to_date(text: str) -> Any:
    try:
        return datetime.date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else MISFIT
    except ValueError:
        return MISFIT


def to_time(text: str) -> Any:
    if not _TIME.match(text):
        return MISFIT
    try:
        moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return MISFIT
    try:
        return moment.replace(tzinfo=moment.tzinfo or datetime.UTC).astimezone(datetime.UTC)
    except OverflowError:
        return MISFIT


def cast(value: Any, words: str) -> tuple[Any, Any]:
    """A JSON value that is cast, as section 14.2 has it: what the column holds, and what is rescued."""
    if value is None:
        return None, MISFIT
    made = _cast(value, words)
    return (None, value) if made is MISFIT else (made, MISFIT)


def _cast(value: Any, words: str) -> Any:
    found = re.fullmatch(r"decimal\((\d+), ?(\d+)\)", words)
    if found:
        return _whole(value, ("decimal", int(found[1]), int(found[2]), frozenset({"number", "text"})))
    if words == "json" or (words == "text" and not isinstance(value, str)):
        return written(value)
    if words == "text":
        return value
    if isinstance(value, bool):
        return int(value) if words == "integer" else value if words == "boolean" else MISFIT
    if not isinstance(value, str):
        return {"1": True, "0": False}.get(written(value), MISFIT) if words == "boolean" else _whole(value, words)
    if words in ("date", "timestamp", "local_timestamp"):
        day, moment = to_date(value), to_time(value)
        if words == "date":
            return day if moment is MISFIT else moment.date()
        moment = moment if day is MISFIT else datetime.datetime.combine(day, datetime.time(), datetime.UTC)
        return moment if words == "timestamp" or moment is MISFIT else moment.replace(tzinfo=None)
    text = value.strip(" \t\n\r\v\f")
    if words == "boolean":
        known = {"true": True, "t": True, "yes": True, "y": True, "1": True}
        known |= {"false": False, "f": False, "no": False, "n": False, "0": False}
        return known.get(text.lower(), MISFIT)
    if words == "integer":
        return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) and -(2**63) <= int(text) < 2**63 else MISFIT
    if text.lower().lstrip("+-") in ("nan", "inf", "infinity") and len(text) - len(text.lstrip("+-")) < 2:
        return float(text)
    return float(text) if _NUMBER.match(text) and math.isfinite(float(text)) else MISFIT
