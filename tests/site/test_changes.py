"""What changed, in words, what readers notice first."""

from __future__ import annotations

from typing import Any

from singerlake.format.state.model import StreamSchema
from singerlake.site.pages import changes_of, in_short
from singerlake.upkeep.reports.schema_diff import compare, compare_each


def schema(properties: dict[str, Any], *keys: str) -> StreamSchema:
    return StreamSchema(schema={"type": "object", "properties": properties}, key_properties=keys)


BEFORE = schema({"id": {"type": "integer"}, "firstName": {"type": "string"}, "n": {"type": "number"}}, "id")
AFTER = schema({"id": {"type": "string"}, "first_name": {"type": "string"}, "n": {"type": "integer"}}, "id", "n")


def test_every_change_has_its_mark() -> None:
    found = compare(BEFORE, AFTER)
    assert [(each.mark, each.path, each.says) for each in changes_of(found)] == [
        ("!", "keys", "id → id, n"),
        ("-", "firstName", "string"),
        ("!", "id", "integer → string: retyped"),
        ("~", "n", "number → integer: narrowed"),
        ("+", "first_name", "string"),
        ("?", "firstName → first_name", "looks renamed"),
    ]
    assert in_short(found) == "1 added, 1 removed, 2 changed, other keys"


def test_no_change_is_said_too() -> None:
    found = compare(BEFORE, BEFORE)
    assert changes_of(found) == ()
    assert in_short(found) == "no property differs"


def test_each_version_is_compared_with_the_one_before() -> None:
    assert list(compare_each([BEFORE, AFTER, BEFORE])) == [compare(BEFORE, AFTER), compare(AFTER, BEFORE)]
    assert list(compare_each([BEFORE])) == []


def test_long_names_are_cut() -> None:
    found = compare(schema({}), schema({"x" * 5000: {"type": "integer"}}))
    assert len(changes_of(found)[0].path) <= 300
