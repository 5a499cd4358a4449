"""Variants against the reader that pyspark brings: what was written is what it finds."""

from __future__ import annotations

import decimal
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import VariantVal

from singerlake.arrow.values.values import parse
from singerlake.arrow.values.variant import TooManyDigitsError, encode


def read(text: str) -> Any:
    """The JSON text as pyspark understands its variant."""
    value, metadata = encode(parse(text.encode()))
    with decimal.localcontext(prec=50):
        return VariantVal(value, metadata).toPython()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=20), inner, max_size=5),
    max_leaves=12,
)


@given(json_values)
def test_it_reads_back_as_it_was_written(value: Any) -> None:
    assert read(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((str(number), number) for power in (7, 15, 31, 63) for number in (2**power - 1, -(2**power))),
        *((str(number), number) for power in (7, 15, 31) for number in (2**power, -(2**power) - 1)),
        (str(2**63), decimal.Decimal(2**63)),
        ("-0", 0),
        ("1.50", decimal.Decimal("1.50")),
        ("0.1", decimal.Decimal("0.1")),
        ("-123456789.123456789", decimal.Decimal("-123456789.123456789")),
        ("9" * 38, decimal.Decimal("9" * 38)),
        ("1e3", 1000.0),
        ("-2.5E-3", -0.0025),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ("{}", {}),
        ("[]", []),
        ('{"b":1,"a":{"b":[null,"x"]}}', {"a": {"b": [None, "x"]}, "b": 1}),
        (json.dumps("é" * 31), "é" * 31),
        (json.dumps("é" * 32), "é" * 32),
        (json.dumps(list(range(300))), list(range(300))),
        (json.dumps({f"k{n}": n for n in range(300)}), {f"k{n}": n for n in range(300)}),
        (json.dumps(["x" * 70_000, 1]), ["x" * 70_000, 1]),
    ],
)
def test_every_size_of_every_type(text: str, expected: Any) -> None:
    found = read(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "scale", "size"),
    [
        ("0.0", 1, 4),
        ("0.123456789", 9, 4),
        ("123456789.0", 1, 8),
        ("0.0123456789", 10, 8),
        ("-0.000000000000000001", 18, 8),
        ("0.0000000000000000000", 19, 16),
        ("0.00012345678901234567", 20, 16),
        ("-0." + "9" * 38, 38, 16),
        ("-" + "9" * 37 + ".5", 1, 16),
    ],
)
def test_a_decimal_has_room_for_its_digits_after_the_point(text: str, scale: int, size: int) -> None:
    """What Spark 4.1's ``parse_json`` makes of the same text. Spark refuses it in fewer bytes."""
    kind = {4: 8, 8: 9, 16: 10}[size]
    unscaled = int(text.replace(".", "")).to_bytes(size, "little", signed=True)
    assert encode(parse(text.encode()))[0] == bytes([kind << 2, scale]) + unscaled


def test_nan_is_a_double() -> None:
    assert math.isnan(read("NaN"))


@pytest.mark.parametrize("text", ["9" * 39, "0." + "1" * 39, "0." + "0" * 39, "-" + "9" * 5000, "1e400", "[1e999]"])
def test_numbers_that_no_variant_holds_are_refused(text: str) -> None:
    with pytest.raises(TooManyDigitsError):
        encode(parse(text.encode()))


@pytest.mark.parametrize("text", ['"\\ud800"', '{"\\ud800":1}'])
def test_strings_that_are_no_unicode_are_refused(text: str) -> None:
    with pytest.raises(UnicodeEncodeError):
        encode(parse(text.encode()))
