"""Rows of every type with what is hard about each, for all formats."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

TEXTS = [
    "",
    '"',
    'say "hi", she said',
    "a,b;c\td|e",
    "two\nlines",
    "two\r\nlines\r",
    "nul\0within",
    "\x01\x1f\x7f",
    "back\\slash \\N \\n",
    "null",
    "NaN",
    "007",
    " spaces ",
    "'",
    "=1+1",
    "-1",
    "Ελληνικά",
    "עִבְרִית",
    "हिन्दी",
    "日本語",
    "👩🏽‍🚀",
    "\u2028\u2029\ufeff",
    "x" * 10_000 + '"' + "y" * 5_000,
]
INTEGERS = [0, -1, 1, 99, 100, -(2**63), 2**63 - 1, 2**53 + 1]
DOUBLES = [0.0, -0.0, 1.5, 0.1, 1 / 3, 5e-324, 1.7976931348623157e308, 1e16, 123456789.0001, 2.0**-44, 999999999.9999]
DOUBLES += [1e9, 0.001, 0.0009, 100.0, 1e23, -2.5]
ODD = [math.nan, math.inf, -math.inf]
DECIMALS = [Decimal("9" * 28 + "." + "9" * 10), Decimal("-" + "9" * 28 + "." + "9" * 10)]
DECIMALS += [Decimal(each).quantize(Decimal("1e-10")) for each in ("0", "1.5", "-0.0000000001", "128", "-128", "-129")]
DATES = [date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), date(1970, 1, 1), date(2000, 2, 29), date(1900, 3, 1)]
TIMES = [
    datetime(1, 1, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(2026, 1, 2, 3, 4, 5, 60),
]
NUMBERS = {f"i{bits}": pa.array([0, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, None]) for bits in (8, 16, 32, 64)}


def columns() -> dict[str, pa.Array]:
    """Columns of simple types, each as long as it is."""
    return {
        "t": pa.array([*TEXTS, None]),
        "i": pa.array([*INTEGERS, None]),
        **{name: values.cast(f"int{name[1:]}") for name, values in NUMBERS.items()},
        "d": pa.array([*DOUBLES, *ODD, None]),
        "n": pa.array([*DECIMALS, None], pa.decimal128(38, 10)),
        "w": pa.array([Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(2**64), None], pa.decimal128(38, 0)),
        "s": pa.array([Decimal("0." + "9" * 38), Decimal("-0." + "0" * 37 + "1"), None], pa.decimal128(38, 38)),
        "day": pa.array([*DATES, None]),
        "utc": pa.array([*(each.replace(tzinfo=UTC) for each in TIMES), None], pa.timestamp("us", "UTC")),
        "local": pa.array([*TIMES, None], pa.timestamp("us")),
        "b": pa.array([True, False, None]),
    }


def simple() -> pa.Table:
    """They side by side, nulls below the shorter ones."""
    found = columns()
    most = max(map(len, found.values()))
    return pa.table(
        {name: pa.concat_arrays([each, pa.nulls(most - len(each), each.type)]) for name, each in found.items()}
    )


def nested(levels: int = 20) -> pa.Table:
    """Lists and objects, empty, null and with nulls; and one that is as deep as ``levels``."""
    point = pa.struct(
        [("x", pa.int64()), ('quoted "name", so', pa.string()), ("at", pa.timestamp("us", "UTC")), ("d", pa.float64())]
    )
    moment = datetime(2026, 1, 2, 3, 4, 5, 60, tzinfo=UTC)
    whole = {"x": 1, 'quoted "name", so': 'a "b"\n', "at": moment, "d": 0.1}
    empty = dict.fromkeys(whole)
    deep_type: pa.DataType = pa.string()
    deep: object = 'at the "end"'
    for level in range(levels):
        deep_type = pa.list_(pa.field("element", deep_type)) if level % 2 else pa.struct([("below", deep_type)])
        deep = [deep, None] if level % 2 else {"below": deep}
    return pa.table(
        {
            "list": pa.array([[1, None, -3], [], None, [7]], pa.list_(pa.int64())),
            "lists": pa.array([[["a", '"'], [], None], [], None, [[None]]], pa.list_(pa.list_(pa.string()))),
            "point": pa.array([whole, empty, None, whole], point),
            "points": pa.array([[whole, None], [], None, [empty]], pa.list_(point)),
            "decimals": pa.array([[Decimal("1.50"), None], [], None, []], pa.list_(pa.decimal128(5, 2))),
            "deep": pa.array([deep, None, deep, None], deep_type),
        }
    )


def nothing() -> pa.Table:
    """Objects without a property, which parquet does not hold."""
    return pa.table({"nothing": pa.array([{}, None, {}], pa.struct([]))})


def wide() -> pa.Table:
    """1,000 columns with names that are hard, of two rows."""
    odd = [
        'quoted "name"',
        "comma, semicolon;",
        "new\nline",
        "back\\slash",
        "naïve",
        "日本",
        "1st",
        "a b",
        "a_b",
        "a-b",
    ]
    names = odd + [f"c{number}" for number in range(1000 - len(odd))]
    return pa.table({name: pa.array([index, None], pa.int64()) for index, name in enumerate(names)})


def no_rows(made: Callable[[], pa.Table]) -> pa.Table:
    """The columns of one of these alone."""
    return made().slice(0, 0)
