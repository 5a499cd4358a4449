"""From the types that a statement gives to those that tables have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from singerlake.arrow.schema.columns import (
    Array,
    Boolean,
    Column,
    Date,
    Decimal,
    Double,
    Field,
    Integer,
    Struct,
    Text,
    Timestamp,
)
from singerlake.errors import SettingError

if TYPE_CHECKING:
    from pyspark.sql import types as spark

_INSTEAD = {
    "binary": "base64({})",
    "map": "to_json({})",
    "variant": "to_json({})",
}


def table_columns(schema: spark.StructType) -> Struct:
    """The columns of a table with the rows of a DataFrame. Raises ``SettingError`` where it has none, and for a type
    that tables do not have, with what to write instead."""
    if not schema.fields:
        raise SettingError("the statement gives no columns", hint="select at least one")
    return _struct(schema, "")


def _struct(schema: spark.StructType, path: str) -> Struct:
    if path and len({field.name.lower() for field in schema.fields}) < len(schema.fields):
        raise SettingError(f"column {path!r} has two fields of one name", hint="name its fields otherwise")
    fields = (Field(each.name, _column(each.dataType, f"{path}.{each.name}" if path else each.name)) for each in schema)
    return Struct(tuple(fields))


def _column(given: spark.DataType, path: str) -> Column:
    from pyspark.sql import types as spark

    if isinstance(given, spark.StructType):
        return _struct(given, path)
    if isinstance(given, spark.ArrayType):
        return Array(_column(given.elementType, path))
    if isinstance(given, spark.DecimalType):
        return Decimal(given.precision, given.scale, number=True, text=True)
    if isinstance(given, spark.StringType | spark.CharType | spark.VarcharType):
        return Text()
    simple: dict[type, Column] = {
        spark.BooleanType: Boolean(),
        spark.ByteType: Integer(),
        spark.ShortType: Integer(),
        spark.IntegerType: Integer(),
        spark.LongType: Integer(),
        spark.FloatType: Double(),
        spark.DoubleType: Double(),
        spark.DateType: Date(),
        spark.TimestampType: Timestamp(),
        spark.TimestampNTZType: Timestamp(zoned=False),
    }
    found = simple.get(type(given))
    if found is None:
        name = given.typeName()
        instead = _INSTEAD.get(name, "CAST({} AS STRING)").format(path.rpartition(".")[2] or "...")
        raise SettingError(
            f"column {path!r} of the statement is of type {given.simpleString()}, which tables do not have",
            hint=f"write {instead}",
        )
    return found
