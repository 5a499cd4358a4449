"""Paths to values in records, as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.attached.property_path import ABSENT, EACH, Path, member, parse_path, values_at
from singerlake.errors import SettingError


def refuse(place: int) -> SettingError:
    return SettingError(f"at {place}")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("photo", ("photo",)),
        ("user.photo", ("user", "photo")),
        ("photos[*].url", ("photos", EACH, "url")),
        ("photos[*]", ("photos", EACH)),
        ('"odd name".x', ("odd name", "x")),
        (r'"a \"b\" é".x', ('a "b" é', "x")),
        ("$id._x", ("$id", "_x")),
        (" a . b ", ("a", "b")),
    ],
)
def test_a_path_is_names_and_elements(text: str, path: Path) -> None:
    assert parse_path(text, refuse) == path


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", 1),
        ("[*]", 1),
        ("a.", 3),
        ("a..b", 3),
        ("a b", 3),
        ("a[0]", 2),
        ("a[*]b", 5),
        ("a = 1", 3),
        ("'a'", 1),
        ('"a', 1),
        (r'"\q"', 1),
    ],
)
def test_what_is_no_path_is_refused_at_its_place(text: str, place: int) -> None:
    with pytest.raises(SettingError, match=f"^at {place}$"):
        parse_path(text, refuse)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a", [1]),
        ("b.c", [None]),
        ("d[*]", [{"e": 1}, 2, {"e": [3]}]),
        ("d[*].e", [1, [3]]),
        ("d[*].e[*]", [3]),
        ("b.c.d", []),
        ("a[*]", []),
        ("d.e", []),
        ("none", []),
    ],
)
def test_a_path_leads_to_values_in_their_order(text: str, values: list[Any]) -> None:
    record = {"a": 1, "b": {"c": None}, "d": [{"e": 1}, 2, {"e": [3]}]}
    assert list(values_at(record, parse_path(text, refuse))) == values


def test_it_leads_into_objects_of_another_kind_if_it_is_told_how() -> None:
    class Pair(tuple[Any, Any]):
        """An object of the names ``one`` and ``two``."""

    def member_of_pairs(value: Any, name: str) -> Any:
        if not isinstance(value, Pair):
            return member(value, name)
        return value[("one", "two").index(name)] if name in ("one", "two") else ABSENT

    record = Pair((None, [Pair((1, 2)), {"two": Pair((3, 4))}, 5]))
    for text, values in (
        ("one", [None]),
        ("two[*].two", [2, Pair((3, 4))]),
        ("two[*].two.one", [3]),
        ("three", []),
        ("two[*].three", []),
    ):
        assert list(values_at(record, parse_path(text, refuse), member_of_pairs)) == values
    assert list(values_at(record, ("one",))) == []
