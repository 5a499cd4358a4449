"""From the values of one column to an Arrow array, exactly or not at all.

Values are as ``values.fit`` gives them, or as a typed msgspec decoder does: the same, except JSON text, which may
still be ``msgspec.Raw``.

Arrow's own cast of text to decimals (pyarrow 26) multiplies to the scale wanted without a look at what 128 bits hold:
of 733333.25 in a decimal(38, 33) it makes another number, of 1e-77 in a decimal(10, 2) a zero, and of 1e-999999999 the
end of the process. It gets what it cannot get wrong: no exponent, and so few digits that 38 hold them before and after.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from singerlake.arrow.schema.columns import (
    Array,
    Column,
    Date,
    Decimal,
    Double,
    Field,
    Integer,
    JsonText,
    Struct,
    Timestamp,
    Variant,
)
from singerlake.arrow.values.values import EXACT, MisfitError, describe, parse, slot
from singerlake.arrow.values.variant import TooManyDigitsError, encode

if TYPE_CHECKING:
    import pyarrow as pa


Mended: TypeAlias = tuple[tuple[str, ...], MisfitError]
"""The names of properties that lead to a value that was left out, and why."""


def build(values: Sequence[Any], field: Field, arrow: pa.DataType) -> pa.Array:
    """The array of type ``arrow`` that holds ``values``. Raises ``pyarrow.ArrowException``, ``OverflowError`` or
    ``UnicodeEncodeError`` where one of them does not fit exactly, or is null in a field declared without."""
    import pyarrow as pa

    if not field.nullable and None in values:
        # An engine trusts a column declared without nulls, and would read other values in their place.
        raise pa.ArrowInvalid("null in a column declared without")
    column = field.type
    if isinstance(column, Struct):
        return _structs(values, column, arrow)
    if isinstance(column, Array):
        return _lists(values, column, arrow)
    if isinstance(column, Timestamp | Date):
        return from_texts(pa.array(values, pa.string()), column, arrow)
    if isinstance(column, Decimal):
        return from_texts(pa.array([_number(value, column) for value in values], pa.string()), column, arrow)
    if isinstance(column, Integer):
        return _integers(values, arrow)
    if isinstance(column, Double):
        return _doubles(values, arrow)
    if isinstance(column, JsonText):
        return pa.array([_written(value) for value in values], arrow)
    if isinstance(column, Variant):
        return _variants([_written(value) for value in values], arrow)
    return pa.array(values, arrow)


def from_texts(texts: pa.Array, column: Column, arrow: pa.DataType) -> pa.Array:
    """The array of a column written in ``texts``. Raises ``pyarrow.ArrowException`` where one does not fit exactly."""
    import pyarrow as pa

    if isinstance(column, Timestamp):
        return _in_years(_timestamps(texts, arrow), pa.int64(), _MICROSECONDS)
    if isinstance(column, Date):
        return _in_years(texts.cast(arrow), pa.int32(), _DAYS)
    if isinstance(column, Decimal):
        return decimals(texts, arrow)
    return texts if texts.type == arrow else texts.cast(arrow)


_DAYS = (-719_162, 2_932_896)
_MICROSECONDS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)


def _in_years(times: pa.Array, counted: pa.DataType, bounds: tuple[int, int]) -> pa.Array:
    """Arrow reads the year 0, and an offset may lead into the year 10000: neither has a name in SQL or in Python."""
    import pyarrow as pa
    import pyarrow.compute as pc

    span = pc.min_max(times.view(counted)).as_py()
    if span["min"] is not None and (span["min"] < bounds[0] or span["max"] > bounds[1]):
        raise pa.ArrowInvalid("a year before 1 or after 9999")
    return times


_FEW: tuple[Callable[[Sequence[Any]], list[Any]], ...] = (
    lambda objects: [each.f0 for each in objects],
    lambda objects: [each.f1 for each in objects],
    lambda objects: [each.f2 for each in objects],
    lambda objects: [each.f3 for each in objects],
)
"""The values of each of the first ``slot`` names: up to four of them are had sooner one by one than all together."""


def transposed(objects: Sequence[Any], fields: int) -> list[Sequence[Any]]:
    """The values of each field of ``objects``, which have them under ``slot`` names."""
    if not objects:
        return [()] * fields
    if fields <= len(_FEW):
        return [values(objects) for values in _FEW[:fields]]
    try:
        return list(zip(*map(msgspec.structs.astuple, objects), strict=True))
    except TypeError:
        return [list(map(attrgetter(slot(index)), objects)) for index in range(fields)]


def misfits(values: Sequence[Any], field: Field, arrow: pa.DataType) -> Iterator[int]:
    """The places of the values that ``build`` refuses, in order."""
    pending = [(0, len(values))]
    while pending:
        begin, end = pending.pop()
        if _fits(values[begin:end], field, arrow):
            continue
        if end - begin == 1:
            yield begin
            continue
        middle = (begin + end) // 2
        pending += [(middle, end), (begin, middle)]


def mend(value: Any, field: Field, arrow: pa.DataType, keys: tuple[str, ...]) -> tuple[Any, list[Mended]]:
    """``value`` as ``build`` takes it: a field of an object that does not fit is None then, an array fits as a whole or
    not. Raises ``Misfit`` where a null is what is refused."""
    if _fits([value], field, arrow):
        return value, []
    if value is not None and isinstance(field.type, Struct):
        lost: list[Mended] = []
        for index, inner in enumerate(field.type.fields):
            name = slot(index)
            fitting, more = mend(getattr(value, name), inner, arrow.field(index).type, (*keys, inner.name))
            setattr(value, name, fitting)
            lost += more
        return value, lost
    misfit = _explain(value, field, arrow, ".".join(keys)) or MisfitError(
        ".".join(keys), describe(field.type), "another"
    )
    if value is None or not field.nullable:
        raise misfit
    return None, [(keys, misfit)]


def _fits(values: Sequence[Any], field: Field, arrow: pa.DataType) -> bool:
    import pyarrow as pa

    try:
        build(values, field, arrow)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return False
    return True


def _explain(value: Any, field: Field, arrow: pa.DataType, path: str) -> MisfitError | None:
    if _fits([value], field, arrow):
        return None
    if value is None:
        return MisfitError(path, f"{describe(field.type)}, never null", "null")
    for inner, inner_field, inner_arrow, inner_path in _inside(value, field.type, arrow, path):
        reason = _explain(inner, inner_field, inner_arrow, inner_path)
        if reason is not None:
            return reason
    return MisfitError(path, describe(field.type), "one that does not fit")


def _inside(value: Any, column: Column, arrow: pa.DataType, path: str) -> list[tuple[Any, Field, pa.DataType, str]]:
    if isinstance(column, Struct):
        return [
            (getattr(value, slot(index)), field, arrow.field(index).type, f"{path}.{field.name}")
            for index, field in enumerate(column.fields)
        ]
    if isinstance(column, Array):
        element = _element(column, arrow)
        return [(item, element, arrow.value_type, path + "[]") for item in value]
    return []


def _element(column: Array, arrow: pa.DataType) -> Field:
    return Field("element", column.element, nullable=arrow.value_field.nullable)


def _written(value: Any) -> str | None:
    """JSON text as it stands in the line; None for null and for what is not there."""
    if value is None or isinstance(value, str):
        return value
    text = bytes(value).decode()
    return None if text in ("", "null") else text


def _number(value: Any, column: Decimal) -> str | None:
    text = _written(value)
    if text and isinstance(value, msgspec.Raw) and column.text and text[0] == '"':
        return text[1:-1]
    return text


_FORMATS = {8: "b", 16: "h", 32: "i", 64: "q"}


def _integers(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """A float among ``values`` is refused: what was written may have been another number."""
    import pyarrow as pa

    packed = _packed(values, _FORMATS[arrow.bit_width])
    if packed is not None:
        return pa.Array.from_buffers(arrow, len(values), [None, pa.py_buffer(packed)])
    numbers = pa.array(values)
    if pa.types.is_floating(numbers.type):
        raise pa.ArrowInvalid("a float where an integer is declared")
    # Arrow's cast takes its time over nothing as well.
    return numbers if numbers.type == arrow else numbers.cast(arrow)


def integers_from(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """As ``build`` makes integers, where floats are among ``values`` because a tap writes ``5.0`` for 5, and none of
    them was rounded. Raises ``pyarrow.ArrowException`` and ``OverflowError``."""
    import pyarrow as pa

    return pa.array([_whole(value) if isinstance(value, float) else value for value in values], arrow)


def _packed(values: Sequence[Any], form: str) -> bytes | None:
    """Integers as they lie in memory, the fastest way to have them there; None where another value is among them."""
    if not values or type(values[0]) is not int:
        return None
    try:
        return struct.pack(f"{len(values)}{form}", *values)
    except struct.error:
        return None


def _doubles(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """Taps declare ``number`` and write integers; Arrow would convert those one by one."""
    import numpy as np
    import pyarrow as pa

    packed = _packed(values, "q")
    if packed is None:
        return pa.array(values, arrow)
    numbers = np.frombuffer(packed, np.int64)
    if numbers.max() > EXACT or numbers.min() < -EXACT:
        return pa.array(values, arrow)
    return pa.Array.from_buffers(arrow, len(values), [None, pa.py_buffer(numbers.astype(np.float64))])


def _whole(number: float) -> int:
    import pyarrow as pa

    if number.is_integer() and -EXACT < number < EXACT:
        return int(number)
    raise pa.ArrowInvalid("not an integer, or an integer written as a float with too many digits")


def _variants(texts: Sequence[str | None], arrow: pa.DataType) -> pa.Array:
    import pyarrow as pa

    try:
        encoded = [(b"", b"") if text is None else encode(parse(text.encode())) for text in texts]
    except (TooManyDigitsError, RecursionError) as error:
        raise pa.ArrowInvalid("no variant holds it") from error
    children = [pa.array(part, pa.binary()) for part in zip(*encoded, strict=True)] or [pa.array([], pa.binary())] * 2
    missing = pa.array([text is None for text in texts], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=[arrow.field(0), arrow.field(1)], mask=missing)


def _structs(values: Sequence[Any], column: Struct, arrow: pa.DataType) -> pa.Array:
    import pyarrow as pa

    fields = [arrow.field(index) for index in range(arrow.num_fields)]
    if not fields:
        return pa.array([None if value is None else {} for value in values], arrow)
    present = [value for value in values if value is not None]
    inner = transposed(present, len(fields))
    children = [
        build(values, field, fields[index].type)
        for index, (values, field) in enumerate(zip(inner, column.fields, strict=True))
    ]
    if len(present) == len(values):
        return pa.StructArray.from_arrays(children, fields=fields)
    counter = iter(range(len(present)))
    places = pa.array([None if value is None else next(counter) for value in values], pa.int64())
    spread = [child.take(places) for child in children]
    return pa.StructArray.from_arrays(spread, fields=fields, mask=places.is_null())


def _lists(values: Sequence[Any], column: Array, arrow: pa.DataType) -> pa.Array:
    import pyarrow as pa

    offsets, flat = [0], []
    for value in values:
        if value is not None:
            flat.extend(value)
        offsets.append(len(flat))
    inner = build(flat, _element(column, arrow), arrow.value_type)
    missing = pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, type=arrow, mask=missing)


_ZONE = r"([Z]|[+-]\d\d(:?\d\d)?)$"
_NEEDLESS_ZEROS = r"(\.\d{6})0+([^0-9]|$)"
_DATE_LENGTH = len("2026-01-01")


def _timestamps(texts: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Arrow reads a column whose times are written one way in one go; only mixed or unusual ones take the long way."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if arrow.tz is not None:
        try:
            return texts.cast(arrow)
        except pa.ArrowInvalid:
            pass
    texts = pc.replace_substring_regex(pc.utf8_upper(texts), _NEEDLESS_ZEROS, r"\1\2")
    if pc.any(pc.less_equal(pc.utf8_length(texts), _DATE_LENGTH)).as_py():
        raise pa.ArrowInvalid("a date without a time")
    if arrow.tz is None:
        return texts.cast(arrow)
    zoned = pc.match_substring_regex(pc.utf8_slice_codeunits(texts, _DATE_LENGTH), _ZONE)
    nothing = pa.scalar(None, pa.string())
    naive = pc.assume_timezone(pc.if_else(zoned, nothing, texts).cast(pa.timestamp("us")), arrow.tz)
    return pc.coalesce(pc.if_else(zoned, texts, nothing).cast(arrow), naive)


_DIGITS = 38
"""Digits that 128 bits hold, whichever they are."""
_NUMBER = re.compile(r"(?P<sign>[+-]?)(?P<whole>[0-9]*)\.?(?P<part>[0-9]*)([eE](?P<direction>[+-]?)(?P<power>[0-9]+))?")
_POWER = 18
"""Digits of an exponent that a text could be long enough to make up for, and that ``int`` takes."""


def decimals(texts: pa.Array, arrow: pa.Decimal128Type) -> pa.Array:
    """The numbers written in ``texts`` as ``arrow``. Raises ``pyarrow.ArrowInvalid`` where one is not a number, or has
    more digits before or after the point than the type."""
    import pyarrow.compute as pc

    whole = arrow.precision - arrow.scale
    longest = pc.max(pc.binary_length(texts)).as_py()
    if longest is None or (longest <= whole and not pc.any(pc.match_substring_regex(texts, "[eE]")).as_py()):
        return texts.cast(arrow)
    plain = pc.match_substring_regex(texts, _plain(whole))
    if not pc.all(plain).as_py():
        others = [_written_out(text, arrow) for text in texts.filter(pc.invert(plain)).to_pylist()]
        texts = pc.replace_with_mask(texts, pc.invert(pc.fill_null(plain, True)), others)
    return texts.cast(arrow)


@lru_cache(maxsize=64)
def _plain(whole: int) -> str:
    """What Arrow reads right with ``whole`` digits before the point: no more than it holds, with those it adds."""
    return rf"^[+-]?0*[0-9]{{0,{whole}}}(\.[0-9]{{0,{_DIGITS - whole}}})?$"


def _written_out(text: str, arrow: pa.Decimal128Type) -> str:
    """The same number without an exponent and without needless zeros. Raises ``pyarrow.ArrowInvalid``."""
    import pyarrow as pa

    match = _NUMBER.fullmatch(text)
    if match is None or not (match["whole"] or match["part"]):
        raise pa.ArrowInvalid("no number")
    written = match["whole"] + match["part"]
    digits = written.strip("0")
    if not digits:
        return "0"
    power = (match["power"] or "").lstrip("0")
    if len(power) > _POWER:
        raise pa.ArrowInvalid("more zeros than are declared")
    exponent = int((match["direction"] or "") + (power or "0"))
    exponent += len(written) - len(written.rstrip("0")) - len(match["part"])
    if exponent < -arrow.scale or len(digits) + exponent > arrow.precision - arrow.scale:
        raise pa.ArrowInvalid("more digits before or after the point than are declared")
    after = max(0, -exponent)
    padded = (digits + "0" * max(0, exponent)).rjust(after + 1, "0")
    return match["sign"] + (f"{padded[:-after]}.{padded[-after:]}" if after else padded)
