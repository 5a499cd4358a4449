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
from singerlake.arrow.values.variant import encode


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


def test_nan_is_a_double() -> None:
    assert math.isnan(read("NaN"))


@pytest.mark.parametrize("text", ["9" * 39, "0." + "1" * 39, "1e400", '"\\ud800"', '{"\\ud800":1}', "[1e999]"])
def test_what_no_variant_holds_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        encode(parse(text.encode()))
