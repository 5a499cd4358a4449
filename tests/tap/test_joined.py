"""The one schema of several versions allows what each of them allows of its own properties."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tap_singerlake.catalog.columns import joined

INTEGER, NUMBER, TEXT = {"type": "integer"}, {"type": "number"}, {"type": "string"}
TIME = {"type": "string", "format": "date-time"}


@pytest.mark.parametrize(
    ("newest", "older", "made"),
    [
        (NUMBER, INTEGER, NUMBER),
        (INTEGER, {"type": ["number", "null"]}, {"type": ["null", "number"]}),
        (TEXT, INTEGER, {"type": ["string", "integer"]}),
        ({"type": "null"}, TIME, {"type": ["null", "string"], "format": "date-time"}),
        (TIME, TEXT, TEXT),
        (TIME, {"type": "string", "format": "date"}, TEXT),
        ({}, TEXT, {}),
        (True, TEXT, {}),
        (False, TEXT, TEXT),
        ({"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 9}, {"type": "string", "maxLength": 9}),
        ({"type": "string", "maxLength": 5}, TEXT, TEXT),
        ({"type": "integer", "minimum": 0}, {"type": "integer", "minimum": -5}, {"type": "integer", "minimum": -5}),
        ({"type": "integer", "minimum": 0, "exclusiveMinimum": True}, {"type": "integer", "minimum": 1}, INTEGER),
        ({"type": "number", "multipleOf": 2}, TEXT, {"type": ["string", "number"], "multipleOf": 2}),
        ({"enum": [1, "a"]}, {"enum": ["a", 2]}, {"enum": [1, "a", 2]}),
        ({"enum": [1]}, {}, {}),
        ({"anyOf": [TIME, {"type": "null"}]}, {"type": ["null", "string"]}, {"type": ["null", "string"]}),
        (
            {"description": "new", "anyOf": [TIME, {"type": "null"}]},
            {"description": "old", **TIME},
            {"description": "new", "type": ["null", "string"], "format": "date-time"},
        ),
        ({"type": "array", "items": INTEGER}, {"type": "array", "items": NUMBER}, {"type": "array", "items": NUMBER}),
        ({"type": "array", "items": INTEGER}, {"type": "array"}, {"type": "array"}),
        (
            {"type": "array", "items": INTEGER, "prefixItems": [TEXT]},
            {"type": "array", "items": INTEGER},
            {"type": "array"},
        ),
        (
            {"properties": {"a": INTEGER, "c": TEXT}, "required": ["a", "c"], "additionalProperties": False},
            {"properties": {"a": NUMBER, "b": TEXT}, "required": ["b", "a"], "additionalProperties": False},
            {"properties": {"a": NUMBER, "c": TEXT, "b": TEXT}, "required": ["a"], "additionalProperties": False},
        ),
        ({"required": ["a"], "properties": {"a": {}}}, {"properties": {"a": {}}}, {"properties": {"a": {}}}),
        (
            {"patternProperties": {"^x": TEXT}, "additionalProperties": False},
            {"patternProperties": {"^y": TEXT}, "additionalProperties": False},
            {},
        ),
        ({"type": "object", "unevaluatedProperties": False}, {"type": "object"}, {"type": "object"}),
        (
            {"$defs": {"p": INTEGER}, "properties": {"a": {"$ref": "#/$defs/p"}}},
            {"$defs": {"p": NUMBER, "q": TEXT}, "properties": {"a": {"$ref": "#/$defs/p"}}},
            {"$defs": {"p": NUMBER, "q": TEXT}, "properties": {"a": {"$ref": "#/$defs/p"}}},
        ),
        ({"if": {"a": 1}, "then": INTEGER}, {"if": {"a": 2}, "then": INTEGER}, {}),
    ],
)  # fmt: skip
def test_two_are_one(newest: Any, older: Any, made: Any) -> None:
    before = copy.deepcopy((newest, older))
    assert joined([newest, older]) == made
    assert list(joined([newest, older])) == list(made)
    assert (newest, older) == before


def test_equal_ones_are_the_newest_itself() -> None:
    newest = {"type": ["null", "string"], "unevaluatedProperties": False}
    assert joined([newest, {"unevaluatedProperties": False, "type": ["string", "null"]}]) is newest


def test_none_of_which_accepts_anything_accepts_nothing() -> None:
    assert joined([False, {"anyOf": [False]}]) is False


values = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "2026-01-01", 0.5, 1.0])
bounds = st.integers(-2, 2)
scalars = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["null", "integer", "number", "string", "boolean"])
        | st.lists(st.sampled_from(["null", "integer", "number", "string"]), min_size=1, unique=True),
        "minimum": bounds,
        "exclusiveMaximum": bounds,
        "maximum": bounds,
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "enum": st.lists(values, min_size=1, max_size=3),
        "title": st.sampled_from("xy"),
    },
)
leaves = scalars | st.booleans() | st.lists(scalars, min_size=1, max_size=2).map(lambda parts: {"anyOf": parts})


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "maxItems": st.integers(0, 2),
        },
    )
    tables = st.fixed_dictionaries(
        {"properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3)},
        optional={
            "type": st.sampled_from(["object", ["null", "object"]]),
            "required": st.lists(st.sampled_from("abc"), unique=True, max_size=2),
            "additionalProperties": st.booleans(),
            "maxProperties": st.integers(0, 3),
            "not": st.just({"required": ["a", "b"]}),
        },
    )
    return lists | tables


schemas = st.recursive(leaves, objects, max_leaves=6)
documents = st.recursive(
    values,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)


def declared(value: Any, schema: Any) -> bool:
    """Whether a value has nothing but what the schema declares, at every level: what it says nothing of, it allows."""
    if not isinstance(schema, dict) or not isinstance(value, dict | list) or "anyOf" in schema:
        return not isinstance(value, dict | list)
    if isinstance(value, list):
        return "items" in schema and all(declared(one, schema["items"]) for one in value)
    known = schema.get("properties", {})
    return all(name in known and declared(part, known[name]) for name, part in value.items())


@given(st.lists(schemas, min_size=2, max_size=3), documents)
def test_what_one_of_them_allows_it_allows(versions: list[Any], value: Any) -> None:
    made = Draft202012Validator(joined(versions))
    for version in versions:
        if declared(value, version) and Draft202012Validator(version).is_valid(value):
            assert made.is_valid(value), joined(versions)
