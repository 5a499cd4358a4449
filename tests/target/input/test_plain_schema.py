"""What msgspec takes for valid, ``jsonschema`` does, too; what it is asked for at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft4Validator, Draft7Validator, Draft202012Validator

from target_singerlake.input.plain_schema import acceptance

NAMES = st.sampled_from(["id", "a", "é", "a b", 'q"', "x"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([1.0, 1.5, 1e300, 2**70, "", "a", "é😀", "abcd"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> Any:
    names = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True))
    made: dict[str, Any] = {"type": names[0] if len(names) == 1 and draw(st.booleans()) else names}
    limits = {"minimum": "integer", "maximum": "integer", "minLength": "string", "maxLength": "string"}
    for keyword, name in limits.items():
        if name in names and draw(st.booleans()):
            made[keyword] = draw(st.integers(0, 3))
    if draw(st.booleans()):
        enum = {"enum": draw(st.lists(st.sampled_from(["", "a", None, "é😀", 1]), min_size=1, max_size=3, unique=True))}
        made = {"type": made["type"], **enum}
    if depth and "array" in names and draw(st.booleans()):
        made["items"] = draw(schemas(depth - 1))
    if depth and "object" in names:
        made |= draw(objects(depth - 1))
    return made


@st.composite
def objects(draw: st.DrawFn, depth: int = 2) -> dict[str, Any]:
    made: dict[str, Any] = {"properties": draw(st.dictionaries(NAMES, schemas(depth) | st.just({}), max_size=4))}
    if draw(st.booleans()):
        made["required"] = draw(st.lists(NAMES, min_size=1, max_size=2, unique=True))
    if draw(st.booleans()):
        made["additionalProperties"] = draw(st.booleans())
    return made


def check(schema: Any, keys: list[str], record: Any) -> None:
    accepts = acceptance(schema, keys)
    if accepts is not None and accepts(
        json.dumps({"type": "RECORD", "stream": "s", "record": record}).encode() + b"\n"
    ):
        assert {*keys} <= {*record}
        for draft in (Draft4Validator, Draft7Validator, Draft202012Validator):
            draft(schema).validate(record)


# Few schemas have a value that one part alone refuses.
@settings(max_examples=max(200, settings.default.max_examples))  # type: ignore[union-attr]
@given(schemas(), st.lists(VALUES, max_size=10))
def test_a_value_that_is_accepted_is_valid(schema: Any, values: list[Any]) -> None:
    for value in values:
        check({"properties": {"a": schema}}, [], {"a": value})


@given(objects(), st.dictionaries(NAMES, VALUES, max_size=5), st.lists(NAMES, max_size=2))
def test_a_record_that_is_accepted_is_valid(schema: dict[str, Any], record: dict[str, Any], keys: list[str]) -> None:
    check(schema, keys, record)


@pytest.mark.parametrize(
    ("schema", "record", "accepted"),
    [
        ({"properties": {}}, {"a": [1, {}]}, True),
        ({"properties": {"id": {"type": "integer"}}}, {"id": 1}, True),
        ({"properties": {"id": {"type": "integer"}}}, {"id": "1"}, False),
        ({"properties": {"id": {"type": "integer"}}}, {"id": True}, False),
        ({"properties": {"at": {"type": ["null", "string"], "format": "date-time"}}}, {"at": "no date"}, True),
        ({"properties": {"n": {"type": "number"}}}, {"n": 2**70}, True),
        ({"properties": {"o": {"type": "object", "properties": {"a": {"type": "null"}}}}}, {"o": {"a": 1}}, False),
        ({"properties": {"l": {"type": "array", "items": {"type": "string"}}}}, {"l": ["a", 1]}, False),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, False),
        ({"properties": {"e": {"type": ["null", "string"], "enum": ["a", None]}}}, {"e": None}, True),
        ({"properties": {"e": {"type": "string", "enum": ["a", None]}}}, {"e": None}, False),
        ({"properties": {"e": {"type": "string", "enum": ["a"]}}}, {"e": "b"}, False),
        ({"properties": {"e": {"type": "null", "enum": ["", None]}}}, {"e": ""}, False),
        ({"properties": {"s": {"type": "string", "maxLength": 1}}}, {"s": "😀"}, True),
    ],
)
def test_types_ranges_and_lengths(schema: dict[str, Any], record: dict[str, Any], accepted: bool) -> None:
    accepts = acceptance(schema, [])
    assert accepts is not None
    assert accepts(json.dumps({"type": "RECORD", "stream": "s", "record": record}).encode()) is accepted


@pytest.mark.parametrize(
    "declared",
    [
        {"type": "number", "multipleOf": 0.01},
        {"enum": ["a"]},
        {"type": "integer", "enum": [1]},
        {"type": "string", "enum": [None]},
        {"type": "any"},
        {"type": "integer", "minimum": 0.5},
        {"type": ["integer", "number"], "maximum": 1},
        {"type": []},
        {"type": "integer", "maximum": 2**80},
        {"type": "object", "patternProperties": {}},
        {"type": "object", "properties": {"a": False}},
        {"type": "object", "properties": {}, "required": True},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"$ref": "#/definitions/a"},
        {"properties": {}},
        {"x-unknown": 1},
        False,
    ],
)
def test_a_schema_that_says_more_is_for_jsonschema(declared: Any) -> None:
    assert acceptance({"properties": {"a": declared}}, []) is None


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "\ud800"])
def test_so_is_one_with_a_name_that_msgspec_does_not_take(name: str) -> None:
    assert acceptance({"properties": {name: {"type": "string"}}}, []) is None


def test_so_is_one_that_is_nested_deeply() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(300):
        schema = {"type": "object", "properties": {"a": schema}}
    assert acceptance(schema, []) is None
