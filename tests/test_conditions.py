"""The language of conditions: what it takes and refuses, and that all who look for records by it find the same."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.arrow.schema import columns
from singerlake.arrow.schema.columns import arrow_schema
from singerlake.arrow.values.arrays import from_texts
from singerlake.attached.property_path import EACH, Path
from singerlake.conditions import (
    MOST_STORED,
    Condition,
    Reading,
    Test,
    condition_of,
    named_condition_of,
    parse_condition,
    values_in,
)
from singerlake.errors import SettingError
from singerlake.tables.declaration.model import Check
from singerlake.tables.rows.conditions import holds
from singerlake.upkeep.erase.match import RecordMatcher

COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def meaning(test: Test, value: Any, read: Callable[[Any], Any] = lambda literal: literal) -> bool | None:
    """A test of one value in plain Python, None for neither true nor false: what all engines are held to. ``read``
    makes of a literal what it is compared as."""
    if test.operator == "null":
        return (value is None) != test.negated
    literals = [read(literal) for alternatives in test.values for literal in alternatives]
    same = [literal for literal in literals if kind(literal) == kind(value)]
    if value is None or not same:
        return None
    if test.operator in COMPARED:
        return bool(COMPARED[test.operator](value, same[0]))
    return (value in same) != (test.negated or test.operator == "!=")


def kind(value: Any) -> type:
    return Decimal if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def values_at(value: Any, path: Path) -> Iterator[Any]:
    """What a path leads to: what an object does not have is null."""
    if not path:
        yield value
    elif path[0] is None:
        for each in value if isinstance(value, list) else ():
            yield from values_at(each, path[1:])
    elif value is None or isinstance(value, dict):
        yield from values_at(value.get(path[0]) if value else None, path[1:])


def parsed(text: str, **files: str) -> Condition:
    return parse_condition(text, lambda name: files[name])


def single(text: str, **files: str) -> Test:
    (test,) = parsed(text, **files).tests
    return test


def values(test: Test) -> list[object]:
    return [value for (value,) in test.values]


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
        ("kim",),
        ("17", Decimal(17)),
        ("17",),
        ('a "b"',),
        ("true",),
        ("1.0", Decimal(1)),
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
        "email != null",
        "email not > 1",
        "email not not_null",
        "email < ",
        "email => 1",
        "email ! = 1",
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
        "email not ('a')",
        "email not in ('a'",
    ],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(SettingError, match=r"not a condition, from character \d+ on; .*user\.id in \(1, 2\)"):
        parsed(text)


@pytest.mark.parametrize("test", ["tags[*] != 'a'", "a[*].b not in (1, 2)", "a <> 1 and a[*] <> 1"])
def test_an_inverse_test_of_elements_could_mean_two_things_and_is_refused(test: str) -> None:
    with pytest.raises(SettingError, match=r"one element, or each of them; write =, in"):
        parsed(test)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("> 0", "> 0"),
        (">= .5 and < +1e3", ">= 0.5 and < 1E+3"),
        ("<> 01", "!= 1"),
        ("== 'it''s'", "= 'it''s'"),
        ('= "it\\u0027s"', "= 'it''s'"),
        ("IS NOT NULL and not in ('a', True)", "not null and not in ('a', true)"),
        ("not_null", "not null"),
        ("is null", "null"),
        ("in @keys", "in ('x', '7', 7, '01')"),
    ],
)
def test_a_state_of_a_table_has_it_in_one_form_which_means_the_same(written: str, canonical: str) -> None:
    made = condition_of(written, {"keys": "x\n7\n01"}.__getitem__)
    assert str(made) == canonical
    assert Check("a", written, made).stored == (
        canonical if "@" in written or "==" in written or '"' in written else written
    )
    again = condition_of(canonical)
    assert str(again) == canonical
    named = named_condition_of(f"'odd name' {written}", {"keys": "x\n7\n01"}.__getitem__)
    assert (named.column, str(named)) == ("odd name", f"'odd name' {canonical}")
    assert str(named_condition_of(str(named))) == str(named)


@pytest.mark.parametrize("text", ["op", "op 'D'", "op = 'D' and id = 1", "= 'D'", "op in @keys", "op = nan", "op = "])
def test_a_deletion_has_one_property_and_its_tests(text: str) -> None:
    with pytest.raises(SettingError, match=r"not a condition, from character \d+ on; write for example"):
        named_condition_of(text)


def test_a_table_takes_so_many_values_of_a_file() -> None:
    most = "\n".join(map(str, range(MOST_STORED)))
    assert len(condition_of("in @keys", lambda _: most).tests[0].values) == MOST_STORED
    with pytest.raises(SettingError, match="keys holds 1,001 values, and the condition of a table takes 1,000"):
        condition_of("in @keys", lambda _: f"{most}\nx")
    assert single("id in @keys", keys=f"{most}\nx").entries == MOST_STORED + 1


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


def found(condition: Condition, records: list[Any]) -> list[bool]:
    """Of each record whether an erasure finds it."""
    lines = b"".join(json.dumps({"type": "RECORD", "record": record}).encode() + b"\n" for record in records)
    meant = set(RecordMatcher(condition)(lines).lines)
    return [at in meant for at in range(len(records))]


def drawn_tests(literals: st.SearchStrategy[Any], path: Path, reading: Reading = "text") -> st.SearchStrategy[Test]:
    """Tests with such literals, all operators among them that go with the path."""
    inverse = [] if EACH in path else [("!=", False), ("in", True)]
    kinds = [*((each, False) for each in ("=", "in", *COMPARED, "null")), ("null", True), *inverse]

    def made(drawn: tuple[tuple[str, bool], list[Any]]) -> Test:
        (operator, negated), values = drawn
        few = [] if operator == "null" else values if operator == "in" else values[:1]
        return Test(operator, tuple((each,) for each in few), negated, path, reading)

    return st.tuples(st.sampled_from(kinds), st.lists(literals, min_size=1, max_size=3)).map(made)


MOMENTS = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=each) for each in (-1, 0, 1, 3_600_000_000)]
ZONES = [UTC, *(timezone(timedelta(hours=each)) for each in (-1, 9))]
DAYS = [date(2025, 12, 31), date(2026, 1, 1), date(2026, 1, 2)]
CENTS = [Decimal(each) for each in ("-0.01", "9.5", "10", "99.99", "100")]
written_moments = st.builds(
    lambda moment, zone, mark: moment.astimezone(zone).isoformat().replace("T", mark),
    st.sampled_from(MOMENTS),
    st.sampled_from(ZONES),
    st.sampled_from("Tt "),
)
written_days = st.sampled_from(DAYS).map(str)
written_cents = st.sampled_from([*map(str, CENTS), "+9.50", "009.5", "1e1", "100.0000", ".0"])
KINDS: dict[str, tuple[columns.Column, Reading, Any, Any, Callable[[Any], Any]]] = {
    "text": (columns.Text(), "text", st.sampled_from(["", "9", "10", "a", "é", "\U0001f600", "\uffff"]), None, str),
    "integer": (columns.Integer(), "text", st.sampled_from([-(2**63), -1, 0, 1, 2, 2**63 - 1]), None, Decimal),
    "boolean": (columns.Boolean(), "text", st.booleans(), None, bool),
    "time": (columns.Timestamp(), "time", written_moments, None, datetime.fromisoformat),
    "date": (columns.Date(), "date", written_days, None, date.fromisoformat),
    "decimal": (
        columns.Decimal(38, 2, number=False, text=True),
        "number",
        written_cents,
        st.sampled_from([*CENTS, Decimal("9.505")]),
        Decimal,
    ),
}


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_erasures_and_tables_hold_a_test_for_the_same_values(name: str, data: st.DataObject) -> None:
    column, reading, values, literals, read = KINDS[name]
    test = data.draw(drawn_tests(literals if literals is not None else values.map(_literal), ("a",), reading))
    captured = data.draw(st.lists(st.none() | values, min_size=1, max_size=6))
    expected = [meaning(test, None if each is None else read(each), read) for each in captured]
    records = [{"a": each} if each is not None or at % 2 else {"b": 1} for at, each in enumerate(captured)]
    assert found(Condition((test,)), records) == [each is True for each in expected]
    kept = arrow_schema(columns.Struct((columns.Field("a", column),))).field("a").type
    made = from_texts(pa.array(captured, pa.string()), column, kept) if reading != "text" else pa.array(captured, kept)
    for unknown in (False, True):
        held = holds(Condition((test,)), pa.chunked_array([made]), column, unknown=unknown).to_pylist()
        assert held == [unknown if each is None else each for each in expected]


def _literal(value: Any) -> Any:
    return Decimal(value) if isinstance(value, int) and not isinstance(value, bool) else value


scalars = st.sampled_from(["x", "y", "1", 1, 1.0, 0.1, True, False, None, 2**70, -1])
names = st.sampled_from(["a", "b", "f0", ""])
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
paths = st.builds(lambda first, rest: (first, *rest), names, st.lists(names | st.none(), max_size=2))
wanted = st.sampled_from(["x", "1", Decimal(1), Decimal("0.1"), True, Decimal(2**70)])
conditions = st.lists(paths.flatmap(lambda path: drawn_tests(wanted, path)), min_size=1, max_size=3)


@given(conditions, st.lists(st.dictionaries(names, trees, max_size=3), max_size=6), st.booleans())
def test_an_erasure_finds_the_records_that_plain_python_finds(
    tests: list[Test], records: list[dict[str, Any]], odd: bool
) -> None:
    # What msgspec refuses is read by another parser.
    given: list[Any] = [*records, {"n": float("nan")}] if odd else records
    assert found(Condition(tuple(tests)), given) == [
        all(any(meaning(test, _literal_of(each)) is True for each in values_at(record, test.path)) for test in tests)
        for record in given
    ]


def _literal_of(value: Any) -> Any:
    return Decimal(repr(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value


@pytest.mark.parametrize("parse", [lambda text: parse_condition(text, str), named_condition_of, condition_of])
def test_the_hint_shows_every_test(parse: Callable[[str], object]) -> None:
    with pytest.raises(SettingError) as refused:
        parse("a ~ b")
    shown = ("=", "!=", "<", "<=", ">", ">=", "in (1, 2)", "in @file", "not in", "null", "not null")
    assert [each for each in shown if each not in refused.value.hint] == []
