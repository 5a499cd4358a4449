"""Numbers in texts as decimals: what a decimal type holds comes out as it was written, and nothing else does."""

from __future__ import annotations

import decimal
import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from singerlake.arrow.values.arrays import decimals
from singerlake.lake import Lake
from tests.lakes import build_stream, record_line

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
TYPES = st.integers(1, 38).flatmap(lambda precision: st.tuples(st.just(precision), st.integers(0, precision)))
DIGITS = st.text("0123456789", max_size=45)
WRITTEN = st.one_of(
    st.builds("{}{}.{}".format, st.sampled_from(["", "-", "+"]), DIGITS, DIGITS),
    st.builds("{}{}".format, st.sampled_from(["", "-"]), DIGITS),
    st.builds("{}{}.{}e{}".format, st.sampled_from(["", "-"]), DIGITS, DIGITS, st.integers(-90, 90)),
    st.builds("{}e{}".format, st.integers(0, 10), st.integers()),
    st.text("0123456789.eE+- ٣x", max_size=8),
)


def expected(text: str, precision: int, scale: int) -> decimal.Decimal | None:
    """The number itself where the type holds it, by exact fractions."""
    if not NUMBER.fullmatch(text):
        return None
    with decimal.localcontext(decimal.Context(prec=10_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)):
        try:
            number = decimal.Decimal(text)
        except decimal.InvalidOperation:
            return None if re.search("[1-9]", text.lower().partition("e")[0]) else decimal.Decimal(0)
        if not number:
            return number
        if not -scale - 200 <= number.adjusted() <= 200:
            return None
        scaled = number.scaleb(scale)
        return number if scaled == scaled.to_integral_value() and abs(scaled) < 10**precision else None


def read(texts: list[str | None], precision: int, scale: int) -> list[decimal.Decimal | None] | None:
    try:
        found = decimals(pa.array(texts, pa.string()), pa.decimal128(precision, scale))
    except pa.ArrowException:
        return None
    found.validate(full=True)
    return found.to_pylist()


@given(TYPES, WRITTEN)
@example((38, 33), "733333.25")
@example((38, 37), "73.25")
@example((38, 38), "7.25")
@example((38, 2), "7e36")
@example((38, 0), "170141183460469231731687303715884105728")
@example((10, 2), "1e-77")
@example((10, 2), "1e-999999999")
@example((10, 2), "1e999999999999999999999999")
@example((38, 0), "7" * 60)
@example((38, 18), "733333333333333333333")
@example((5, 5), "0.00001")
@example((10, 2), "1." + "0" * 60)
@example((10, 2), "0" * 500 + "1.25")
@example((38, 1), "0e400")
@example((1, 0), "")
@example((10, 2), "1e+0000000000000000000000000000000000000000000002")
@example((10, 2), "0e99999999999999999999")
def test_a_number_comes_out_as_it_was_written_or_not_at_all(kind: tuple[int, int], text: str) -> None:
    number = expected(text, *kind)
    assert read([text], *kind) == (None if number is None else [number])


@given(TYPES, st.lists(st.none() | WRITTEN, max_size=6))
def test_a_column_is_all_its_values_or_refused(kind: tuple[int, int], texts: list[str | None]) -> None:
    numbers = [None if text is None else expected(text, *kind) for text in texts]
    fits = all(number is not None for text, number in zip(texts, numbers, strict=True) if text is not None)
    assert read(texts, *kind) == (numbers if fits else None)


@pytest.mark.parametrize("texts", [["1"], ["1e1", None], [None, "1.5", "7e-1", "12345678"]])
def test_a_slice_of_a_column_is_read_as_what_it_is(texts: list[str | None]) -> None:
    whole = pa.array(["x", *texts, "1e99"], pa.string())
    found = decimals(whole.slice(1, len(texts)), pa.decimal128(10, 2))
    assert found.to_pylist() == [None if text is None else decimal.Decimal(text) for text in texts]


EXACT = {"type": "number", "multipleOf": 0.01}
SINGER = {"type": "string", "format": "singer.decimal", "precision": 38, "scale": 33}
COLUMNS = {"number": EXACT, "text": SINGER, "many": {"type": "array", "items": EXACT}}
ODD = {
    "number": ["7e36", "1e-999999999", "7.001", "73333333333333333333333333333333333333333.25"],
    "text": ['"733333.25"', '"1e-999999999"', '"1e5"', '"73333333333333333333333333333333333333333.25"'],
    "many": ["[1,7e36]", "[1e-999999999]"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in ODD.items() for text in texts])
def test_a_number_beyond_its_column_is_rescued_as_it_was_written(tmp_path: Path, name: str, text: str) -> None:
    line = record_line("s", {name: "@"}).replace(b'"@"', text.encode())
    lake = Lake.open(str(tmp_path))
    build_stream(lake, "t", "s", {"properties": COLUMNS}, [line, record_line("s", {"number": 5.25, "text": "0.5"})])
    odd, plain = lake.existing_stream("t", "s").to_arrow().read_all().to_pylist()
    assert odd == {"number": None, "text": None, "many": None, "_rescued_data": f'{{"{name}":{text}}}'}
    assert (plain["number"], plain["text"]) == (decimal.Decimal("5.25"), decimal.Decimal("0.5"))
