"""From Arrow record batches to Singer RECORD lines, column by column and exactly.

The text of a whole column is made at a time, in Arrow, and the columns are then joined row by row; no row is ever a
Python object. Whatever JSON cannot hold is refused: NaN and the infinities, text that is not UTF-8, years beyond 9999.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from singerlake.errors import SettingError, ValueDoesNotFitError

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_BYTES = 2 << 20
"""Bytes in Arrow's memory that are turned into lines at a time; the lines take a few times as much."""
VariantText = Callable[[bytes, bytes], str]
"""The JSON text of a variant, from its value and its metadata."""
_NEEDS_ESCAPE = r'["\\\x00-\x1f]'
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31 in days since 1970."""
_DAY = 86_400_000_000


class LineEncoder:
    """Makes the RECORD lines of one stream. ``time_extracted`` is RFC 3339 text, the same in every line; ``variant``
    makes the text of variants, which only the engine that they come from can read."""

    def __init__(self, stream: str, time_extracted: str, *, variant: VariantText | None = None) -> None:
        self._before = f'{{"type":"RECORD","stream":{_name(stream)},"record":'
        self._after = f',"time_extracted":{_name(time_extracted)}}}\n'
        self._variant = variant

    def lines(self, batch: pa.RecordBatch) -> bytes:
        """One line for each row, every column in it, null where it is null. Raises ``ValueDoesNotFitError`` naming the
        column, ``SettingError`` for a type that JSON has no counterpart of."""
        if not batch.num_rows:
            return b""
        names = batch.schema.names
        whole = self._object(names, batch.columns, "", batch.num_rows, self._before, self._after)
        _, offsets, data = whole.buffers()
        ends = memoryview(offsets).cast("B").cast("q")
        return bytes(memoryview(data)[ends[whole.offset] : ends[whole.offset + len(whole)]])

    def _object(
        self,
        names: Sequence[str],
        arrays: Sequence[pa.Array],
        prefix: str,
        rows: int,
        before: str = "",
        after: str = "",
    ) -> pa.Array:
        parts, literal = [], before + "{"
        for index, (name, array) in enumerate(zip(names, arrays, strict=True)):
            literal += ("," if index else "") + _name(name) + ":"
            text, quoted = self._text(array, prefix + name)
            if quoted and not text.null_count:
                parts += [literal + '"', text]
                literal = '"'
            else:
                parts += [literal, _complete(text, quoted)]
                literal = ""
        return _joined(*parts, literal + "}" + after, rows=rows)

    def _text(self, array: pa.Array, path: str) -> tuple[pa.Array, bool]:
        """The JSON of every value, null where it is null, and whether quotes are still to be put around it."""
        import pyarrow as pa
        import pyarrow.types as kinds

        kind = array.type
        if kinds.is_string(kind) or kinds.is_large_string(kind):
            return _escaped(array, path), True
        if kinds.is_boolean(kind) or kinds.is_integer(kind) or kinds.is_null(kind):
            return array.cast(pa.large_string()), False
        if kinds.is_floating(kind):
            return _doubles(array, path), False
        if kinds.is_decimal(kind):
            return _decimals(array), True
        if kinds.is_date32(kind):
            _check_years(array.cast(pa.int32()), 1, path)
            return array.cast(pa.large_string()), True
        if kinds.is_timestamp(kind) and kind.unit == "us":
            return _timestamps(array, path), True
        if kinds.is_struct(kind):
            return self._structs(array, path), False
        if kinds.is_map(kind) and kinds.is_string(kind.key_type):
            return self._maps(array, path), False
        if kinds.is_list(kind) or kinds.is_large_list(kind):
            elements = self._complete_text(_children(array, array.values), path + "[]")
            return _lists(array, elements, "[", "]"), False
        raise SettingError(
            f"column {path!r} has a type without a counterpart in JSON", hint="convert it before writing", type=kind
        )

    def _complete_text(self, array: pa.Array, path: str) -> pa.Array:
        return _complete(*self._text(array, path))

    def _structs(self, array: pa.Array, path: str) -> pa.Array:
        kind = array.type
        fields = [kind.field(index) for index in range(kind.num_fields)]
        if any((field.metadata or {}).get(b"variant") == b"true" for field in fields):
            return self._variants(array, path)
        whole = self._object([field.name for field in fields], array.flatten(), path + ".", len(array))
        return _masked(whole, array)

    def _maps(self, array: pa.Array, path: str) -> pa.Array:
        keys = self._complete_text(_children(array, array.keys), path + " (key)")
        items = self._complete_text(_children(array, array.items), path + "{}")
        return _lists(array, _joined(keys, ":", items, rows=len(keys)), "{", "}")

    def _variants(self, array: pa.Array, path: str) -> pa.Array:
        import pyarrow as pa

        if self._variant is None:
            raise SettingError(f"column {path!r} is a variant, which nothing here can read", hint="use to_json(...)")
        return pa.array([self._variant_text(value, path) for value in array.to_pylist()], pa.large_string())

    def _variant_text(self, value: dict[str, bytes] | None, path: str) -> str | None:
        if value is None:
            return None
        assert self._variant is not None
        text = self._variant(value["value"], value["metadata"])
        try:
            msgspec.json.decode(text, type=msgspec.Raw)
        except (msgspec.DecodeError, UnicodeEncodeError):
            raise ValueDoesNotFitError(
                f"column {path!r} holds a variant that is not JSON", hint="leave out NaN and infinities"
            ) from None
        # A number of such text may end a line of its own; JSON allows a newline between any two parts of it.
        return text.replace("\n", " ").replace("\r", " ")


def pieces(batch: pa.RecordBatch, target: int = PIECE_BYTES) -> Iterator[pa.RecordBatch]:
    """``batch`` in runs of rows of about ``target`` bytes of memory each."""
    rows = max(1, batch.num_rows * target // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _name(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _joined(*parts: pa.Array | str, rows: int) -> pa.Array:
    """``parts`` one after the other, row by row; null where one is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    strings = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in parts]
    if all(isinstance(part, str) for part in parts):
        return pa.repeat(pa.scalar("".join(map(str, parts)), pa.large_string()), rows)
    return pc.binary_join_element_wise(*strings, pa.scalar("", pa.large_string()))


def _complete(text: pa.Array, quoted: bool) -> pa.Array:
    import pyarrow.compute as pc

    whole = _joined('"', text, '"', rows=len(text)) if quoted else text
    return pc.fill_null(whole, "null") if whole.null_count else whole


def _masked(text: pa.Array, like: pa.Array) -> pa.Array:
    """``text`` with null where ``like`` is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(like.is_valid(), text, pa.scalar(None, pa.large_string())) if like.null_count else text


def _children(array: pa.Array, values: pa.Array) -> pa.Array:
    """What of ``values`` belongs to the lists of ``array``, which may be a slice."""
    if not len(array):
        return values.slice(0, 0)
    start, end = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
    return values.slice(start, end - start)


def _lists(array: pa.Array, elements: pa.Array, before: str, after: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(array):
        return pa.array([], pa.large_string())
    offsets = array.offsets.cast(pa.int64())
    lists = pa.LargeListArray.from_arrays(pc.subtract(offsets, offsets[0]), elements)
    inside = pc.binary_join(lists, pa.scalar(",", pa.large_string()))
    return _masked(_joined(before, inside, after, rows=len(array)), array)


def _escaped(array: pa.Array, path: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        # An engine may hold any bytes in a string; only this cast looks at them.
        text = array.cast(pa.large_string()).cast(pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        raise ValueDoesNotFitError(
            f"column {path!r} holds text that is not UTF-8", hint="convert it, or write base64(...) of it"
        ) from None
    return _replaced(text, pc.match_substring_regex(text, _NEEDS_ESCAPE), lambda value: _name(value)[1:-1])


def _doubles(array: pa.Array, path: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = array.cast(pa.float64())
    if pc.all(pc.is_finite(numbers)).as_py() is False:
        raise ValueDoesNotFitError(
            f"column {path!r} holds NaN or an infinity, which JSON does not have",
            hint="put null in its place, or write the column as a string",
        )
    text = numbers.cast(pa.large_string())
    whole = pc.equal(numbers, pc.trunc(numbers))
    if not pc.any(whole).as_py():
        return text
    # Arrow writes them as integers, and a parser would lose the sign of -0.
    as_integer = pc.and_not(whole, pc.match_substring(text, "e"))
    return pc.if_else(as_integer, _joined(text, ".0", rows=len(text)), text)


def _decimals(array: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    text = array.cast(pa.large_string())
    # Arrow writes small ones with an exponent, 1E-18.
    return _replaced(text, pc.match_substring(text, "E"), lambda value: format(decimal.Decimal(value), "f"))


def _timestamps(array: pa.Array, path: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    moments = array.cast(pa.int64())
    _check_years(moments, _DAY, path)
    # As if without a zone: what Arrow holds is UTC, and its zones need a database that may not be there.
    text = pc.replace_substring(moments.cast(pa.timestamp("us")).cast(pa.large_string()), " ", "T")
    return text if array.type.tz is None else _joined(text, "Z", rows=len(text))


def _check_years(numbers: pa.Array, day: int, path: str) -> None:
    import pyarrow.compute as pc

    extremes = pc.min_max(numbers).as_py()
    if extremes["min"] is None:
        return
    if extremes["min"] < _FIRST_DAY * day or extremes["max"] >= (_LAST_DAY + 1) * day:
        raise ValueDoesNotFitError(
            f"column {path!r} holds a time outside the years 1 to 9999, which JSON's formats do not have",
            hint="put null in its place, or write the column as a string",
        )


def _replaced(text: pa.Array, wrong: pa.Array, mend: Callable[[str], str]) -> pa.Array:
    """``text`` with the values where ``wrong`` is true made anew, one by one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pc.any(wrong).as_py():
        return text
    mended = pa.array([mend(value) for value in text.filter(wrong).to_pylist()], pa.large_string())
    return pc.replace_with_mask(text, pc.fill_null(wrong, False), mended)
