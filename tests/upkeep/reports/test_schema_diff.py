"""What differs between two schemas of a stream, and what that means to a reader of the first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.arrow.schema.columns import Array, Field, Struct, merge
from singerlake.arrow.schema.json_schema import columns_of
from singerlake.format.state.model import StreamSchema
from singerlake.upkeep.reports.schema_diff import Renamed, SchemaDiff, compare

INTEGER, STRING, NUMBER = {"type": "integer"}, {"type": "string"}, {"type": "number"}


def schema(keys: tuple[str, ...] = (), required: tuple[str, ...] = (), **properties: Any) -> StreamSchema:
    return StreamSchema(schema={"properties": properties, "required": list(required)}, key_properties=keys)


def person(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def one(before: Any, after: Any) -> tuple[tuple[str, ...], bool]:
    """How the property ``x`` changed, and whether compatibly."""
    found = compare(schema(x=before), schema(x=after))
    (change,) = found.changed
    assert (found.added, found.removed, found.compatible) == ((), (), change.compatible)
    return change.how, change.compatible


@pytest.mark.parametrize(
    ("before", "after", "how", "compatible"),
    [
        (INTEGER, NUMBER, ("widened",), False),
        (NUMBER, INTEGER, ("narrowed",), True),
        (INTEGER, STRING, ("retyped",), False),
        (STRING, {"type": "string", "format": "date"}, ("narrowed",), True),
        ({"type": "string", "format": "date"}, STRING, ("widened",), False),
        ({"type": "string", "format": "uuid"}, STRING, ("another format",), True),
        (STRING, {}, ("widened", "may be null now"), False),
        (STRING, {"type": ["null", "string"]}, ("may be null now",), False),
        ({"type": ["null", "string"]}, STRING, ("is never null now",), True),
        ({"anyOf": [STRING, {"type": "null"}]}, STRING, ("is never null now", "another anyOf, type"), True),
        ({"type": ["null", "integer"]}, NUMBER, ("widened", "is never null now"), False),
        ({"type": ["string", "integer"]}, {"type": ["string", "boolean"]}, ("another type",), False),
        ({"enum": [1]}, {"enum": [1, "a"]}, ("another enum",), False),
        ({"type": "string", "enum": ["a"]}, {"type": "string", "enum": ["a", "b"]}, ("another enum",), True),
        ({**STRING, "description": "a"}, {**STRING, "description": "b"}, ("another description",), True),
        ({**STRING, "maxLength": 5}, STRING, ("another maxLength",), True),
        (array(INTEGER), array(NUMBER), ("widened",), False),
        (array(INTEGER), INTEGER, ("retyped",), False),
        (array({"type": ["integer", "string"]}), array({}), ("another items",), False),
        (person(a=INTEGER), {"type": ["null", "object"], "properties": {"a": INTEGER}}, ("may be null now",), False),
    ],
)
def test_a_property_that_changed_says_how(before: Any, after: Any, how: tuple[str, ...], compatible: bool) -> None:
    assert one(before, after) == (how, compatible)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"type": ["null", "string"]}, {"type": ["string", "null"]}),
        ({"type": ["string"]}, STRING),
        (person(a=INTEGER), {**person(a=INTEGER), "required": []}),
    ],
)
def test_what_means_the_same_is_no_change(before: Any, after: Any) -> None:
    assert compare(schema(x=before), schema(x=after)) == SchemaDiff((), (), (), (), None)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"type": ["integer", "string"]}, "integer or string"),
        ({"type": ["null", "integer", "string"]}, "integer or string or null"),
        ({"type": ["null", "integer"]}, "integer or null"),
        ({"type": ["integer", 5]}, "anything"),
        ({}, "anything"),
    ],
)
def test_the_types_of_a_property_are_named(declared: Any, words: str) -> None:
    (added,) = compare(schema(), schema(x=declared)).added
    assert added.full_type == words


def test_whether_a_property_may_be_missing() -> None:
    must, may = schema(required=("x",), x=STRING), schema(x=STRING)
    (change,) = compare(must, may).changed
    assert (change.how, change.compatible) == (("may be missing now",), False)
    (change,) = compare(may, must).changed
    assert (change.how, change.compatible) == (("is always there now",), True)


def test_nested_properties_are_told_by_their_path_and_with_an_object_it_alone_is_told() -> None:
    before = schema(address=person(zip=STRING, old=STRING), lines=array(person(text=STRING)), gone=person(a=INTEGER))
    after = schema(
        address=person(zip=INTEGER, geo=person(lat=NUMBER)), lines=array(person(text=STRING, n=INTEGER)), gone=STRING
    )
    found = compare(before, after)
    assert [each.path for each in found.added] == ["address.geo", "lines[].n"]
    assert [each.path for each in found.removed] == ["address.old"]
    assert [(each.before.path, each.how) for each in found.changed] == [
        ("address.zip", ("retyped",)),
        ("gone", ("retyped",)),
    ]


def test_new_properties_alone_are_compatible_and_lost_ones_never() -> None:
    less, more = schema(a=STRING), schema(a=STRING, b=STRING)
    assert compare(less, more).compatible
    assert not compare(more, less).compatible


def test_keys_that_differ_are_told() -> None:
    found = compare(schema(("a",), a=STRING), schema(("a", "b"), a=STRING))
    assert found.keys == (("a",), ("a", "b"))
    assert not found.compatible


@pytest.mark.parametrize(
    ("before", "after", "renamed"),
    [
        ({"firstName": STRING}, {"first_name": STRING}, [Renamed("firstName", "first_name")]),
        ({"firstName": STRING}, {"first_name": INTEGER}, []),
        ({"carrier": STRING}, {"tailnum": STRING}, []),
        (
            {"customer_id": INTEGER, "custom": INTEGER},
            {"customerId": INTEGER, "customs": INTEGER},
            [Renamed("customer_id", "customerId"), Renamed("custom", "customs")],
        ),
        ({"a": STRING, "b": STRING}, {"A": STRING, "b": STRING}, [Renamed("a", "A")]),
    ],
)
def test_what_looks_renamed_has_the_same_type_and_a_like_name(before: Any, after: Any, renamed: list[Renamed]) -> None:
    found = compare(schema(**before), schema(**after))
    assert list(found.renamed) == renamed


@pytest.mark.parametrize(("count", "told"), [(200, 200), (300, 0)])
def test_of_schemas_that_share_little_none_is_said_to_look_renamed(count: int, told: int) -> None:
    before, after = ({f"property_{name}_{n:04}": INTEGER for n in range(count)} for name in ("old", "new"))
    found = compare(schema(**before), schema(**after))
    assert (len(found.removed), len(found.added), len(found.renamed)) == (count, count, told)
    assert len(found.removed) == len([name for name in before if name not in after])


@pytest.mark.parametrize("odd", [None, True, [], "x", {"properties": 5}, {"properties": {"x": True}, "required": 7}])
def test_any_json_in_the_place_of_a_schema_is_coped_with(odd: Any) -> None:
    sane = schema(y=STRING)
    assert compare(StreamSchema(schema=odd), StreamSchema(schema=odd)) == SchemaDiff((), (), (), (), None)
    assert [each.path for each in compare(StreamSchema(schema=odd), sane).added] == ["y"]
    assert [each.path for each in compare(sane, StreamSchema(schema=odd)).removed] == ["y"]


kinds = st.sampled_from(["string", "integer", "number", "boolean", ["null", "string"], ["integer", "string"], None])
leaves = kinds.map(lambda kind: {} if kind is None else {"type": kind})
schemas = st.recursive(
    leaves,
    lambda inner: (
        inner.map(array) | st.dictionaries(st.sampled_from("abc"), inner, min_size=1).map(lambda p: person(**p))
    ),
    max_leaves=6,
)
records = st.dictionaries(st.sampled_from("xyz"), schemas, max_size=3).map(lambda found: schema(**found))


@given(records, records)
def test_what_one_way_adds_the_other_way_removes_and_compatible_columns_take_all_values(
    before: StreamSchema, after: StreamSchema
) -> None:
    there, back = compare(before, after), compare(after, before)
    assert compare(before, before) == SchemaDiff((), (), (), (), None)
    assert sorted(each.path for each in there.added) == sorted(each.path for each in back.removed)
    assert {change.before.path for change in there.changed} == {change.before.path for change in back.changed}
    if there.compatible:
        old, new = columns_of([before.schema]), columns_of([after.schema])
        known = Struct(tuple(field for field in new.fields if old.get(field.name) is not None))
        assert {field.name for field in known.fields} == {field.name for field in old.fields}
        for field in old.fields:
            later = known.get(field.name)
            assert later is not None
            assert _without_new(merge(field.type, later.type), field.type) == field.type


def _without_new(merged: Any, old: Any) -> Any:
    """A type without the fields of objects that the old one does not have."""
    if isinstance(merged, Array) and isinstance(old, Array):
        return Array(_without_new(merged.element, old.element))
    if isinstance(merged, Struct) and isinstance(old, Struct):
        kept = [(field, old.get(field.name)) for field in merged.fields]
        return Struct(tuple(Field(f.name, _without_new(f.type, o.type)) for f, o in kept if o is not None))
    return merged
