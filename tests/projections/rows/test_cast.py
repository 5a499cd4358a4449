"""Casts of texts: the digits and the white space of ASCII, and no others."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from singerlake.projections.rows.cast import as_text, to_type


def made(text: str, target: pa.DataType) -> Any:
    """The value, or ``MISFIT``."""
    column, lost = to_type(pa.array([text]), target)
    assert bool(lost) == (column[0].as_py() is None)
    return "misfit" if lost else column[0].as_py()


@pytest.mark.parametrize("space", ["", " ", "\t", "\n", "\r", "\v", "\f", " \t\r\n"])
def test_white_space_of_ascii_is_taken_off(space: str) -> None:
    for text, target, value in (("-7", pa.int64(), -7), ("1.5e1", pa.float64(), 15.0), ("Yes", pa.bool_(), True)):
        assert made(f"{space}{text}{space}", target) == value


@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\x85", "\x1c", "\u3000", "\ufeff"])
def test_other_white_space_is_none(space: str) -> None:
    for text, target in (("7", pa.int64()), ("1.5", pa.float64()), ("yes", pa.bool_())):
        assert made(f"{text}{space}", target) == "misfit"


@pytest.mark.parametrize(
    "text", ["\u0661\u0662", "1\u0660", "\uff17", "\u0967", "1_0", "0x1", "1 0", "", "+", "\u00b2"]
)
def test_other_digits_are_none(text: str) -> None:
    assert [made(text, target) for target in (pa.int64(), pa.float64(), pa.bool_())] == ["misfit"] * 3


def test_the_limits_of_numbers() -> None:
    assert [made(str(value), pa.int64()) for value in (2**63 - 1, 2**63, -(2**63), -(2**63) - 1)] == [
        2**63 - 1,
        "misfit",
        -(2**63),
        "misfit",
    ]
    assert made("9" * 5000, pa.int64()) == "misfit"
    words = ["inf", "-Infinity", "1e308", "1e309", "1e-400", "\u0131nf", "infinit"]
    assert [made(text, pa.float64()) for text in words] == [
        float("inf"),
        float("-inf"),
        1e308,
        "misfit",
        0.0,
        "misfit",
        "misfit",
    ]


def test_json_as_text_is_what_a_string_says_and_else_as_it_is_written() -> None:
    column = pa.array(["5", '"5"', '"\\u00fc \\"x\\" \\ud83d\\ude00"', "1.50", '{"a": "b"}', "true", '""', None])
    made, lost = as_text(column)
    assert (made.to_pylist(), lost) == (["5", "5", 'ü "x" \U0001f600', "1.50", '{"a": "b"}', "true", "", None], [])


def test_a_string_without_utf8_does_not_fit_a_text() -> None:
    made, lost = as_text(pa.array(['"\\ud800"', '"a"']))
    assert (made.to_pylist(), lost) == ([None, "a"], [0])
