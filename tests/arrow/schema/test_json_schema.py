"""The type of a column: what JSON Schemas declare, alone and merged over versions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.arrow.schema.columns import (
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
    merge,
    settle,
)
from singerlake.arrow.schema.json_schema import columns_of


def column(schema: Any, **definitions: Any) -> Column:
    (field,) = columns_of([{"properties": {"x": schema}, **definitions}]).fields
    assert field.name == "x"
    assert field.nullable
    return field.type


CENTS = Decimal(38, 2, number=True, text=False)
UNSIGNED = Decimal(20, 0, number=True, text=False, whole=True)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, Integer()),
        ({"type": ["null", "integer"]}, Integer()),
        ({"type": "number"}, Double()),
        ({"type": ["integer", "number", "null"]}, Double()),
        ({"type": "boolean"}, Boolean()),
        ({"type": "string"}, Text()),
        ({"type": ["string", "null"], "format": "date-time"}, Timestamp()),
        ({"type": "string", "format": "date"}, Date()),
        ({"type": "string", "format": "time"}, Text()),
        ({"type": "string", "format": "uuid"}, Text()),
        ({"type": "string", "format": 5}, Text()),
        ({"type": "string", "format": "singer.decimal"}, Text()),
        ({"type": "string", "format": "singer.decimal", "precision": 10, "scale": 2}, Decimal(10, 2, False, True)),
        ({"type": "string", "format": "x-singer.decimal", "precision": 5}, Decimal(5, 0, False, True)),
        ({"type": "string", "format": "singer.decimal", "precision": 39, "scale": 2}, Text()),
        ({"type": "string", "format": "singer.decimal", "precision": 2, "scale": 4}, Text()),
        ({"type": "string", "format": "singer.decimal", "precision": "10", "scale": 2}, Text()),
        ({"type": "string", "format": "singer.decimal", "precision": True}, Text()),
        ({"type": "number", "multipleOf": 0.01}, CENTS),
        ({"type": ["null", "number"], "multipleOf": 0.05}, CENTS),
        ({"type": "number", "multipleOf": 1e-9}, Decimal(38, 9, True, False)),
        ({"type": "number", "multipleOf": 1}, Decimal(38, 0, True, False)),
        ({"type": "number", "multipleOf": 100}, Decimal(38, 0, True, False)),
        ({"type": "number", "multipleOf": 1e-38}, JsonText()),
        ({"type": "number", "multipleOf": 0}, Double()),
        ({"type": "number", "multipleOf": "0.01"}, Double()),
        ({"type": "number", "multipleOf": True}, Double()),
        ({"type": "integer", "multipleOf": 5}, Integer()),
        ({"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}, Integer()),
        ({"type": "integer", "maximum": 9223372036854776000, "exclusiveMinimum": True}, Integer()),
        ({"type": "integer", "maximum": "18446744073709551615"}, Integer()),
        ({"type": ["null", "integer"], "minimum": 0, "maximum": 2**64 - 1}, UNSIGNED),
        ({"type": "integer", "exclusiveMaximum": 1.8446744073709552e19}, UNSIGNED),
        ({"type": "integer", "minimum": -(2**64)}, UNSIGNED),
        ({"type": "integer", "maximum": 10**30 - 1}, Decimal(30, 0, True, False, whole=True)),
        ({"type": "integer", "maximum": 10**5000}, Decimal(38, 0, True, False, whole=True)),
        ({"type": ["integer", "number"], "maximum": 2**64 - 1}, Double()),
        ({"anyOf": [{"type": "integer", "maximum": 2**64 - 1}, {"type": "integer"}]}, UNSIGNED),
        ({"anyOf": [{"type": "integer", "maximum": 2**64 - 1}, {"type": "string"}]}, JsonText()),
        ({"anyOf": [{"type": "integer", "maximum": 2**64}, {"type": "number", "multipleOf": 0.01}]}, CENTS),
        ({"type": ["string", "integer"]}, JsonText()),
        ({"type": ["object", "string"], "properties": {"a": {"type": "string"}}}, JsonText()),
        ({"type": "null"}, JsonText()),
        ({"type": "nonsense"}, JsonText()),
        ({"type": 5}, JsonText()),
        ({"type": []}, JsonText()),
        ({}, JsonText()),
        (True, JsonText()),
        (False, JsonText()),
        (None, JsonText()),
        ({"enum": ["a", "b"]}, JsonText()),
        ({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}, Timestamp()),
        ({"anyOf": [{"type": "string", "format": "date-time"}, {"type": ["string", "null"]}]}, Text()),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, JsonText()),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, Double()),
        ({"anyOf": [{"type": "integer"}, True]}, JsonText()),
        ({"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}, Text()),
        ({"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]}, JsonText()),
        ({"allOf": [{"type": "integer"}]}, JsonText()),
        ({"type": "array", "items": {"type": "integer"}}, Array(Integer())),
        ({"type": "array"}, Array(JsonText())),
        ({"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}, Array(JsonText())),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "integer"}}, Array(JsonText())),
        ({"type": "array", "items": True}, Array(JsonText())),
        ({"type": "array", "items": {"type": "null"}}, Array(JsonText())),
        ({"type": "object"}, JsonText()),
        ({"type": "object", "properties": {}}, JsonText()),
        ({"type": "object", "properties": []}, JsonText()),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}}, JsonText()),
        ({"type": "object", "properties": {"a": {}}, "patternProperties": {"^b": {}}}, JsonText()),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "null"}, "b": {"type": "date"}},
                "additionalProperties": True,
            },
            Struct((Field("a", JsonText()), Field("b", JsonText()))),
        ),
        (
            {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string", "format": "date"}}}},
            Array(Struct((Field("a", Date()),))),
        ),
    ],
)
def test_a_schema_gives_the_narrowest_type_that_is_sure(schema: Any, expected: Column) -> None:
    assert column(schema) == expected


def test_references_within_the_schema_are_followed() -> None:
    money = {"type": "object", "properties": {"amount": {"$ref": "#/$defs/a~1b"}}}
    definitions = {"$defs": {"money": money, "a/b": {"type": "integer"}}}
    assert column({"$ref": "#/$defs/money"}, **definitions) == Struct((Field("amount", Integer()),))


@pytest.mark.parametrize("pointer", ["#/$defs/none", "#", "https://example.com/s.json", 5, "#/$defs/node/0"])
def test_a_reference_to_nothing_here_leaves_the_value_open(pointer: Any) -> None:
    assert column({"$ref": pointer}, **{"$defs": {"node": [1]}}) == JsonText()


def test_a_recursive_schema_ends_where_it_meets_itself() -> None:
    node = {"type": "object", "properties": {"left": {"$ref": "#/$defs/n"}, "right": {"$ref": "#/$defs/n"}}}
    inner = Struct((Field("left", JsonText()), Field("right", JsonText())))
    assert column({"$ref": "#/$defs/n"}, **{"$defs": {"n": node}}) == inner


def test_references_that_double_at_every_step_end_soon() -> None:
    definitions = {
        f"d{n}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/d{n + 1}"} for k in "ab"}} for n in range(40)
    }
    assert isinstance(column({"$ref": "#/$defs/d0"}, **{"$defs": definitions}), Struct)


@pytest.mark.parametrize("schema", [True, {}, {"properties": None}, {"properties": []}, "text", None])
def test_a_schema_without_properties_has_no_columns(schema: Any) -> None:
    assert columns_of([schema]) == Struct(())


def versions(*types: Any) -> Column:
    (field,) = columns_of([{"properties": {"x": each}} for each in types]).fields
    return field.type


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"type": "integer"}, {"type": "number"}, Double()),
        ({"type": "null"}, {"type": "integer"}, Integer()),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}, Text()),
        ({"type": "string", "format": "date-time"}, {"type": "string"}, Text()),
        ({"type": "integer"}, {"type": "string"}, JsonText()),
        ({"type": "boolean"}, {"type": "integer"}, JsonText()),
        ({"type": "number"}, {"type": "number", "multipleOf": 0.01}, JsonText()),
        ({"type": "integer"}, {"type": "number", "multipleOf": 0.01}, CENTS),
        ({"type": "integer"}, {"type": "integer", "maximum": 2**64 - 1}, UNSIGNED),
        ({"type": "integer", "maximum": 2**64 - 1}, {"type": "number"}, Double()),
        ({"type": "integer", "maximum": 2**64 - 1}, {"type": "number", "multipleOf": 0.01}, CENTS),
        ({"type": "number", "multipleOf": 1}, {"type": "number", "multipleOf": 0.01}, CENTS),
        (
            {"type": "string", "format": "singer.decimal", "precision": 10, "scale": 2},
            {"type": "string", "format": "singer.decimal", "precision": 9, "scale": 4},
            Decimal(12, 4, False, True),
        ),
        (
            {"type": "string", "format": "singer.decimal", "precision": 38, "scale": 30},
            {"type": "string", "format": "singer.decimal", "precision": 38, "scale": 0},
            Text(),
        ),
        (
            {"type": "string", "format": "singer.decimal", "precision": 10, "scale": 2},
            {"type": "number", "multipleOf": 0.01},
            Decimal(38, 2, True, True),
        ),
        ({"type": "string", "format": "singer.decimal", "precision": 10, "scale": 2}, {"type": "string"}, Text()),
        (
            {"type": "array", "items": {"type": "integer"}},
            {"type": "array", "items": {"type": "number"}},
            Array(Double()),
        ),
        ({"type": "array", "items": {"type": "integer"}}, {"type": "integer"}, JsonText()),
    ],
)
def test_a_type_that_changes_between_versions_widens(before: Any, after: Any, expected: Column) -> None:
    assert versions(before, after) == expected
    assert versions(after, before) == expected


def test_columns_and_nested_fields_of_all_versions_are_united_in_order_of_appearance() -> None:
    first = {"properties": {"a": {"type": "integer"}, "o": {"type": "object", "properties": {"x": {"type": "string"}}}}}
    second = {
        "properties": {
            "b": {"type": "boolean"},
            "o": {"type": "object", "properties": {"y": {"type": "integer"}, "x": {"type": "integer"}}},
        }
    }
    nested = Struct((Field("x", JsonText()), Field("y", Integer())))
    assert columns_of([first, second]) == Struct((Field("a", Integer()), Field("o", nested), Field("b", Boolean())))


scalars = st.sampled_from(
    [
        Boolean(),
        Integer(),
        Double(),
        Text(),
        JsonText(),
        Timestamp(),
        Date(),
        Nothing(),
        CENTS,
        Decimal(9, 4, False, True),
        Decimal(38, 25, False, True),
        UNSIGNED,
        Decimal(30, 0, True, False, whole=True),
    ]
)
types = st.recursive(
    scalars,
    lambda inner: (
        inner.map(Array)
        | st.dictionaries(st.sampled_from("abc"), inner, min_size=1).map(
            lambda fields: Struct(tuple(Field(name, each) for name, each in sorted(fields.items())))
        )
    ),
    max_leaves=6,
)


def in_order(column: Column) -> Column:
    if isinstance(column, Array):
        return Array(in_order(column.element))
    if isinstance(column, Struct):
        return Struct(tuple(Field(f.name, in_order(f.type)) for f in sorted(column.fields, key=lambda f: f.name)))
    return column


@given(types, types, types)
def test_merging_is_the_same_in_any_order_and_grouping(a: Column, b: Column, c: Column) -> None:
    assert merge(a, a) == a
    assert in_order(merge(a, b)) == in_order(merge(b, a))
    assert in_order(merge(merge(a, b), c)) == in_order(merge(a, merge(b, c)))


@given(types)
def test_a_settled_type_holds_no_nothing(column: Column) -> None:
    assert "Nothing" not in repr(settle(column))
