"""The language of ``--where``: what it means, and what it refuses with an example."""

from __future__ import annotations

from decimal import Decimal

import pytest

from singerlake.attached.property_path import EACH
from singerlake.errors import SettingError
from singerlake.upkeep.erase.condition import Condition, Test, parse_condition, values_in


def parsed(text: str, **files: str) -> Condition:
    return parse_condition(text, lambda name: files[name])


def single(text: str, **files: str) -> Test:
    (test,) = parsed(text, **files).tests
    return test


def values(test: Test) -> list[object]:
    return [value for value, _ in test.values]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("email = 'a'", ("email",)),
        ("user.id = 'a'", ("user", "id")),
        ("  user . id='a'  ", ("user", "id")),
        ('"odd name"."e-mail" = \'a\'', ("odd name", "e-mail")),
        ('"with \\"quotes\\"" = 1', ('with "quotes"',)),
        ("phones[*].number = 'a'", ("phones", EACH, "number")),
        ("tags[*] = 'a'", ("tags", EACH)),
        ("grid[*][*] = 1", ("grid", EACH, EACH)),
        ("e-mail = 'a'", ("e-mail",)),
        ("$oid = 'a'", ("$oid",)),
        ("and = 'a'", ("and",)),
        ("straße.größe = 1", ("straße", "größe")),
    ],
)
def test_paths(text: str, path: tuple[str | None, ...]) -> None:
    assert single(text).path == path


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("'a@b.c'", "a@b.c"),
        ('"a@b.c"', "a@b.c"),
        ("'it''s'", "it's"),
        ('"it\\u0027s"', "it's"),
        ("''", ""),
        ("'and'", "and"),
        ("1", Decimal(1)),
        ("-0", Decimal(0)),
        ("1.50", Decimal("1.5")),
        ("-2.5e-3", Decimal("-0.0025")),
        ("12345678901234567890", Decimal("12345678901234567890")),
        ("true", True),
        ("FALSE", False),
    ],
)
def test_values(written: str, value: object) -> None:
    (found,) = values(single(f"id = {written}"))
    assert (found, type(found)) == (value, type(value))
    assert values(single(f"id in ({written}, 'x')")) == [value, "x"]


def test_tests_are_joined_by_and() -> None:
    both = parsed("a.b = 1 AND c in ('x', 'y') and d[*] = true")
    assert [test.path for test in both.tests] == [("a", "b"), ("c",), ("d", EACH)]
    assert both.entries == 4


def test_a_file_has_a_value_a_line() -> None:
    test = single("id in @keys", keys='\ufeffkim\r\n\n  17 \n"17"\n"a \\"b\\""\ntrue\n1.0\n')
    assert test.values == (
        ("kim", 0),
        ("17", 1),
        (Decimal(17), 1),
        ("17", 2),
        ('a "b"', 3),
        ("true", 4),
        ("1.0", 5),
        (Decimal(1), 5),
    )
    assert test.entries == 6


@pytest.mark.parametrize(
    "text",
    [
        "",
        "email",
        "email =",
        "= 'a'",
        "email = a",
        "email = null",
        "email is null",
        "email != 'a'",
        "email > 1",
        "email like 'a'",
        "email = 'a",
        'email = "a',
        "email = 'a' and",
        "email = 'a' or id = 1",
        "email = 'a' id = 1",
        "email in",
        "email in ()",
        "email in ('a'",
        "email in ('a' 'b')",
        "email in 'a'",
        "email in ('a', null)",
        "email. = 'a'",
        ".email = 'a'",
        "[*] = 'a'",
        "email[0] = 'a'",
        "email = 01",
        "email = 1.",
        "email = .5",
        "email = nan",
        "email = 'a';",
        "email = '\ud800' or",
        '"\\q" = 1',
        "email not in ('a')",
    ],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(SettingError, match=r"not a condition, from character \d+ on; .*user\.id in \(1, 2\)"):
        parsed(text)


@pytest.mark.parametrize(
    ("text", "at"),
    [("", 1), ("email", 6), ("email = kim@example.com", 9), ("a = 1 or b = 2", 7), ("a = 'x", 4), ("a in (1 2)", 9)],
)
def test_an_error_says_where_and_not_what(text: str, at: int) -> None:
    with pytest.raises(SettingError, match=rf"from character {at} on") as caught:
        parsed(text)
    assert "kim" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "why"), [("", "no value"), ("\n \n", "no value"), ('a\n"b', "line 2 of keys begins")]
)
def test_a_file_that_says_nothing_or_is_torn_is_refused(content: str, why: str) -> None:
    with pytest.raises(SettingError, match=why):
        values_in(content, "keys")
