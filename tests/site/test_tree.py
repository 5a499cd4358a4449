"""A schema as people read it, whatever JSON stands in its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.site.tree import LEVELS, Node, pages_of, tree_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "items", "anyOf", "allOf", "$ref", "enum", "required", "format"])
            | st.text(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=30,
)


def of(properties: dict[str, Any], **more: Any) -> tuple[Node, ...]:
    return tree_of({"type": "object", "properties": properties, **more})


def every(nodes: Iterable[Node], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
    for node in nodes:
        yield (*above, node.name), node
        yield from every(node.children, (*above, node.name))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["null", "integer"]}, "integer or null"),
        ({"type": "string", "format": "date-time"}, "date-time"),
        ({"type": "array", "items": {"type": "number"}}, "array of number"),
        ({"type": ["array", "null"], "items": {"type": ["string", "null"]}}, "array of string or null or null"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}, "string or integer or null"),
        ({"properties": {"a": {}}}, "object"),
        ({}, "anything"),
        (True, "anything"),
        (False, "nothing"),
        ({"$ref": "#/definitions/text"}, "string"),
        ({"$ref": "#/nowhere"}, "as #/nowhere"),
        ({"$ref": "https://example.com/schema"}, "as https://example.com/schema"),
        (7, "anything"),
    ],
)
def test_types_are_words(schema: Any, words: str) -> None:
    (node,) = of({"a": schema}, definitions={"text": {"type": "string"}})
    assert node.type == words


def test_keys_bookmarks_and_what_is_required_are_marked() -> None:
    schema = {"properties": {"id": {}, "at": {}, "x": {}}, "required": ["id"]}
    nodes = tree_of(schema, keys=["id"], bookmarks=["at", "id"])
    assert [node.marks for node in nodes] == [("key", "bookmark", "required"), ("bookmark",), ()]


def test_what_stands_in_objects_and_arrays_stands_below_them() -> None:
    inner = {"type": "object", "properties": {"zip": {"type": "string"}}, "required": ["zip"]}
    either = {"anyOf": [inner, {"properties": {"box": {}}}, {"type": "null"}]}
    nodes = of({"home": inner, "others": {"type": "array", "items": {"type": "array", "items": inner}}, "any": either})
    paths = [path for path, _ in every(nodes)]
    assert paths == [
        ("home",), ("home", "zip"), ("others",), ("others", "zip"), ("any",), ("any", "zip"), ("any", "box"),
    ]  # fmt: skip
    assert nodes[0].children[0].marks == ("required",)


def test_facts_and_descriptions_are_told_and_cut() -> None:
    (node,) = of({"a": {"enum": list(range(40)), "maxLength": 9, "pattern": "x" * 999, "description": "d" * 9999}})
    facts = dict(node.facts)
    assert facts["one of"].endswith(", 11 and 28 more")
    assert facts["maxLength"] == "9"
    assert len(facts["pattern"]) == 60
    assert len(node.description) == 600
    assert node.description.endswith("…")


def test_a_schema_that_holds_itself_ends() -> None:
    nodes = of({"child": {"$ref": "#"}}, title="x")
    deepest = list(every(nodes))[-1][1]
    assert len(list(every(nodes))) == LEVELS
    assert deepest.deeper
    assert not deepest.children


@given(JSON, st.lists(st.text(), max_size=3))
def test_any_json_is_coped_with(schema: Any, keys: list[str]) -> None:
    nodes = tree_of({"properties": {"a": schema}}, keys=keys)
    assert [node.name for node in nodes] == ["a"]
    assert pages_of(tree_of(schema), 10_000)


def test_a_large_tree_goes_on_on_further_pages_and_none_of_it_is_lost() -> None:
    schema = {f"p{n}": {"properties": {f"q{m}": {"description": "d" * 50} for m in range(30)}} for n in range(30)}
    nodes = of(schema)
    parts = pages_of(nodes, 20_000)
    assert len(parts) > 10
    told = [path for part in parts for path, node in every(part) if not node.continued]
    assert told == [path for path, _ in every(nodes)]
    for part in parts:
        assert sum(260 + 6 * len(node.description) for _, node in every(part)) < 25_000


def test_a_part_that_begins_inside_an_object_says_what_is_around() -> None:
    parts = pages_of(of({"outer": {"properties": {f"q{m}": {} for m in range(30)}}}), 3000)
    assert [part[0].continued for part in parts] == [False, *[True] * (len(parts) - 1)]
    assert all(part[0].name == "outer" and part[0].children for part in parts)


def test_a_tree_without_properties_is_one_empty_page() -> None:
    assert pages_of(tree_of("no schema"), 100) == [()]
