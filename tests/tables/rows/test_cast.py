"""Casts read a value as it was captured, its JSON text, whatever is declared of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.arrow.schema.columns import (
    Boolean,
    Column,
    Date,
    Double,
    Field,
    Integer,
    JsonText,
    Struct,
    Text,
    Timestamp,
    arrow_schema,
)
from singerlake.tables.rows.cast import cast

INTEGER, DOUBLE, BOOLEAN = Integer(), Double(), Boolean()
MISFIT = "misfit"


def made_of(captured: list[str | None], column: Column) -> list[Any]:
    """The values of these JSON texts, all together."""
    made = cast(pa.array(captured, pa.string()), column, arrow_schema(Struct((Field("c", column),))).types[0])
    return [MISFIT if value is None else value for value in made.to_pylist()]


def told(values: Iterable[Any]) -> list[tuple[str, str]]:
    """Values in words, which tell -0.0 from 0.0 and True from 1."""
    return [(type(value).__name__, str(value)) for value in values]


def made(text: str, column: Column) -> Any:
    """The value of a string that says ``text``, or ``MISFIT``."""
    (value,) = made_of([json.dumps(text)], column)
    return value


@pytest.mark.parametrize("space", ["", " ", "\t", "\n", "\r", "\v", "\f", " \t\r\n"])
def test_white_space_of_ascii_is_taken_off(space: str) -> None:
    for text, target, value in (("-7", INTEGER, -7), ("1.5e1", DOUBLE, 15.0), ("Yes", BOOLEAN, True)):
        assert made(f"{space}{text}{space}", target) == value


@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\x85", "\x1c", "\u3000", "\ufeff"])
def test_other_white_space_is_none(space: str) -> None:
    for text, target in (("7", INTEGER), ("1.5", DOUBLE), ("yes", BOOLEAN)):
        assert made(f"{text}{space}", target) == "misfit"


@pytest.mark.parametrize(
    "text", ["\u0661\u0662", "1\u0660", "\uff17", "\u0967", "1_0", "0x1", "1 0", "", "+", "\u00b2"]
)
def test_other_digits_are_none(text: str) -> None:
    assert [made(text, target) for target in (INTEGER, DOUBLE, BOOLEAN)] == ["misfit"] * 3


def test_the_limits_of_numbers() -> None:
    assert [made(str(value), INTEGER) for value in (2**63 - 1, 2**63, -(2**63), -(2**63) - 1)] == [
        2**63 - 1,
        "misfit",
        -(2**63),
        "misfit",
    ]
    assert made("9" * 5000, INTEGER) == "misfit"
    words = ["inf", "-Infinity", "1e308", "1e309", "1e-400", "\u0131nf", "infinit"]
    assert [made(text, DOUBLE) for text in words] == [
        float("inf"),
        float("-inf"),
        1e308,
        "misfit",
        0.0,
        "misfit",
        "misfit",
    ]


BIG = str(2**53 + 1)
DAY, MOMENT = datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EARLY = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
VALUES: dict[str, tuple[Any, ...]] = {
    # captured: text, integer, double, boolean, date, timestamp
    "5": ("5", 5, 5.0, MISFIT, MISFIT, MISFIT),
    "1": ("1", 1, 1.0, True, MISFIT, MISFIT),
    "-0": ("-0", 0, 0.0, MISFIT, MISFIT, MISFIT),
    "1.0": ("1.0", 1, 1.0, MISFIT, MISFIT, MISFIT),
    "1e3": ("1e3", 1000, 1000.0, MISFIT, MISFIT, MISFIT),
    "1.50": ("1.50", MISFIT, 1.5, MISFIT, MISFIT, MISFIT),
    "1e400": ("1e400", MISFIT, MISFIT, MISFIT, MISFIT, MISFIT),
    "Infinity": ("Infinity", MISFIT, float("inf"), MISFIT, MISFIT, MISFIT),
    BIG: (BIG, 2**53 + 1, MISFIT, MISFIT, MISFIT, MISFIT),
    "18446744073709551615": ("18446744073709551615", MISFIT, MISFIT, MISFIT, MISFIT, MISFIT),
    "1700000000000": ("1700000000000", 1700000000000, 1.7e12, MISFIT, MISFIT, MISFIT),
    '"1700000000000"': ("1700000000000", 1700000000000, 1.7e12, MISFIT, MISFIT, MISFIT),
    '"00000000000007D1"': ("00000000000007D1", MISFIT, MISFIT, MISFIT, MISFIT, MISFIT),
    '"007"': ("007", 7, 7.0, MISFIT, MISFIT, MISFIT),
    '"-0"': ("-0", 0, -0.0, MISFIT, MISFIT, MISFIT),
    '" 1.5e1\\n"': (" 1.5e1\n", MISFIT, 15.0, MISFIT, MISFIT, MISFIT),
    '"Yes"': ("Yes", MISFIT, MISFIT, True, MISFIT, MISFIT),
    "true": ("true", 1, MISFIT, True, MISFIT, MISFIT),
    "false": ("false", 0, MISFIT, False, MISFIT, MISFIT),
    '"2026-01-02"': ("2026-01-02", MISFIT, MISFIT, MISFIT, DAY.date(), DAY),
    '"2026-02-30"': ("2026-02-30", MISFIT, MISFIT, MISFIT, MISFIT, MISFIT),
    '"2026-01-02T03:04:05Z"': ("2026-01-02T03:04:05Z", MISFIT, MISFIT, MISFIT, DAY.date(), MOMENT),
    '"2026-01-02 03:04:05"': ("2026-01-02 03:04:05", MISFIT, MISFIT, MISFIT, DAY.date(), MOMENT),
    '"2026-01-02T01:04:05-02:00"': ("2026-01-02T01:04:05-02:00", MISFIT, MISFIT, MISFIT, DAY.date(), MOMENT),
    '"1969-12-31T23:59:59.999999Z"': ("1969-12-31T23:59:59.999999Z", MISFIT, MISFIT, MISFIT, EARLY.date(), EARLY),
    '"0001-01-01T00:00:00+01:00"': ("0001-01-01T00:00:00+01:00", MISFIT, MISFIT, MISFIT, MISFIT, MISFIT),
    '"0001-01-01"': ("0001-01-01", MISFIT, MISFIT, MISFIT, date(1, 1, 1), datetime(1, 1, 1, tzinfo=UTC)),
    '""': ("", MISFIT, MISFIT, MISFIT, MISFIT, MISFIT),
    '"\\u00fc \\"x\\" \\ud83d\\ude00"': ('ü "x" \U0001f600', MISFIT, MISFIT, MISFIT, MISFIT, MISFIT),
    '"\\ud800"': (MISFIT, MISFIT, MISFIT, MISFIT, MISFIT, MISFIT),
    '{"a": "b"}': ('{"a": "b"}', MISFIT, MISFIT, MISFIT, MISFIT, MISFIT),
    "[1]": ("[1]", MISFIT, MISFIT, MISFIT, MISFIT, MISFIT),
}
TYPES = (Text(), INTEGER, DOUBLE, BOOLEAN, Date(), Timestamp())


@pytest.mark.parametrize("captured", VALUES)
def test_a_value_of_every_kind_as_every_type(captured: str) -> None:
    found = [made_of([captured], column)[0] for column in TYPES]
    assert told(found) == told(VALUES[captured])
    assert made_of([captured], JsonText()) == [captured]
    moment = VALUES[captured][-1]
    local = moment if moment is MISFIT else moment.replace(tzinfo=None)
    assert made_of([captured], Timestamp(zoned=False)) == [local]


@given(st.lists(st.sampled_from([*VALUES, None]), max_size=8), st.sampled_from(TYPES))
def test_values_side_by_side_are_as_each_alone(captured: list[str | None], column: Column) -> None:
    alone = [MISFIT if text is None else VALUES[text][TYPES.index(column)] for text in captured]
    assert told(made_of(captured, column)) == told(alone)


@given(st.integers() | st.floats(allow_nan=False))
def test_numbers_written_in_any_way_are_what_python_reads(number: float) -> None:
    text = json.dumps(number)
    double = float(number) if not isinstance(number, int) or abs(number) <= 2**53 else MISFIT
    exact = Decimal(text)
    whole = int(exact) if abs(exact) < 2**62 and exact == exact.to_integral_value() else None
    assert told(made_of([text], DOUBLE)) == told([double])
    assert whole is None or made_of([text], INTEGER) == [whole]
