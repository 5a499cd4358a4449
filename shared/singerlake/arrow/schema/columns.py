"""The types a column can have, apart from any engine: what a JSON value must be to fit, and how two types widen.

A value fits a type or it does not; nothing is coerced. Every type takes null.

    Boolean     true, false
    Integer     a number without fraction, in ``bits`` bits (1.0 is one: JSON Schema says so)
    Double      any number; integers only up to 2**53, beyond which a double would change them; NaN, Infinity
    Decimal     a number, a string holding one, or either, exactly in ``precision`` digits, ``scale`` of them decimals
    Text        a string
    JsonText    anything; the column holds the JSON text as it was written
    Variant     anything a variant holds exactly; stands in the place of JsonText where an engine asks for it
    Timestamp   an ISO 8601 date and time to the microsecond; ``zoned``: UTC where the text has no offset
    Date        YYYY-MM-DD
    Array       an array whose elements fit
    Struct      an object; properties it does not name are left out, as columns are
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa


MAX_PRECISION = 38
"""Digits of the widest decimal that Spark and Arrow's decimal128 hold."""
_DIGITS = 19
"""Digits of an integer of 64 bits, at most."""
MAX_OPEN_SCALE = 18
"""Decimals a type without declared precision may have, so that it keeps 20 digits before the point."""


@dataclass(frozen=True, slots=True)
class Boolean:
    pass


@dataclass(frozen=True, slots=True)
class Integer:
    bits: int = 64


@dataclass(frozen=True, slots=True)
class Double:
    pass


@dataclass(frozen=True, slots=True)
class Decimal:
    precision: int
    scale: int
    number: bool
    """Whether a JSON number fits."""
    text: bool
    """Whether a JSON string holding a number fits."""
    whole: bool = False
    """Whether it is declared an integer, of more than 64 bits: with a double it is a double, as other integers are."""


@dataclass(frozen=True, slots=True)
class Text:
    pass


@dataclass(frozen=True, slots=True)
class JsonText:
    pass


@dataclass(frozen=True, slots=True)
class Variant:
    pass


@dataclass(frozen=True, slots=True)
class Timestamp:
    zoned: bool = True


@dataclass(frozen=True, slots=True)
class Date:
    pass


@dataclass(frozen=True, slots=True)
class Nothing:
    """Only null is declared. Takes the other's type in a merge; a column that ends as this is one of JSON text."""


@dataclass(frozen=True, slots=True)
class Array:
    element: Column


@dataclass(frozen=True, slots=True)
class Struct:
    fields: tuple[Field, ...]

    def get(self, name: str) -> Field | None:
        return next((field for field in self.fields if field.name == name), None)


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: Column
    nullable: bool = True


Column: TypeAlias = (
    Boolean | Integer | Double | Decimal | Text | JsonText | Variant | Timestamp | Date | Nothing | Array | Struct
)


def merge(left: Column, right: Column) -> Column:
    """The narrowest type that takes every value of both as it is. Fields alone are in the order of appearance."""
    if left == right or isinstance(right, Nothing):
        return left
    if isinstance(left, Nothing):
        return right
    if isinstance(left, Struct) and isinstance(right, Struct):
        return _merge_structs(left, right)
    if isinstance(left, Array) and isinstance(right, Array):
        return Array(merge(left.element, right.element))
    if _is_double_or_integer(left) and _is_double_or_integer(right) and Double() in (left, right):
        return Double()
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return _merge_decimal(left, right)
    if is_string(left) and is_string(right):
        return Text()
    return JsonText()


def merge_all(types: list[Column]) -> Column:
    """The merge of all; ``Nothing`` of none."""
    nothing: Column = Nothing()
    return reduce(merge, types, nothing)


def settle(column: Column) -> Column:
    """``column`` with ``Nothing`` replaced by what takes any value."""
    if isinstance(column, Nothing):
        return JsonText()
    if isinstance(column, Array):
        return Array(settle(column.element))
    if isinstance(column, Struct):
        return Struct(tuple(Field(field.name, settle(field.type), field.nullable) for field in column.fields))
    return column


def with_variants(column: Column) -> Column:
    """``column`` with variants in the place of JSON text."""
    if isinstance(column, JsonText):
        return Variant()
    if isinstance(column, Array):
        return Array(with_variants(column.element))
    if isinstance(column, Struct):
        return Struct(tuple(Field(field.name, with_variants(field.type), field.nullable) for field in column.fields))
    return column


def _merge_structs(left: Struct, right: Struct) -> Struct:
    merged = {field.name: field.type for field in left.fields}
    for field in right.fields:
        merged[field.name] = merge(merged[field.name], field.type) if field.name in merged else field.type
    return Struct(tuple(Field(name, column) for name, column in merged.items()))


def _merge_decimal(left: Column, right: Column) -> Column:
    if isinstance(right, Decimal) and not isinstance(left, Decimal):
        left, right = right, left
    if not isinstance(left, Decimal):
        return JsonText()
    if isinstance(right, Integer):
        right = Decimal(_DIGITS, 0, number=True, text=False, whole=True)
    if not isinstance(right, Decimal):
        return Text() if is_string(left) and is_string(right) else JsonText()
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale) + scale
    if left.whole != right.whole:
        # An integer beside a decimal may be of any size.
        digits = MAX_PRECISION + scale
    if digits > MAX_PRECISION and scale > MAX_OPEN_SCALE:
        return Text() if is_string(left) and is_string(right) else JsonText()
    number, text = left.number or right.number, left.text or right.text
    return Decimal(min(digits, MAX_PRECISION), scale, number, text, whole=left.whole and right.whole)


def _is_double_or_integer(column: Column) -> bool:
    return isinstance(column, Double | Integer) or (isinstance(column, Decimal) and column.whole)


def is_string(column: Column) -> bool:
    """Whether every value of it is a JSON string."""
    return isinstance(column, Text | Timestamp | Date) or (isinstance(column, Decimal) and not column.number)


def arrow_schema(columns: Struct) -> pa.Schema:
    """The schema of batches with these columns: times in UTC to the microsecond, JSON text as strings."""
    import pyarrow as pa

    return pa.schema([pa.field(field.name, _arrow(field.type), field.nullable) for field in columns.fields])


def _arrow(column: Column) -> pa.DataType:
    import pyarrow as pa

    if isinstance(column, Struct):
        return pa.struct([pa.field(field.name, _arrow(field.type), field.nullable) for field in column.fields])
    if isinstance(column, Array):
        return pa.list_(pa.field("element", _arrow(column.element)))
    if isinstance(column, Decimal):
        return pa.decimal128(column.precision, column.scale)
    if isinstance(column, Integer):
        return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[column.bits]
    if isinstance(column, Timestamp):
        return pa.timestamp("us", tz="UTC" if column.zoned else None)
    simple = {Boolean: pa.bool_(), Double: pa.float64(), Date: pa.date32()}
    return simple.get(type(column), pa.string())


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows: Polars asks a reader for one batch at least."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
