"""From the schema of a DataFrame to the JSON Schema of a stream, such that reading it gives the same types back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from singerlake.arrow.schema.own import OF_READS
from singerlake.errors import SettingError, UnknownNameError

if TYPE_CHECKING:
    from pyspark.sql import types as spark

_RESERVED = tuple(field.name for field in OF_READS.fields)
_HINTS = {
    "binary": "write base64(...) of it",
    "map": "make its keys strings: map_from_arrays(transform(map_keys(m), k -> string(k)), map_values(m))",
}
"""What to do with a type that JSON has no counterpart of; others are best written as strings."""
_BITS = {"ByteType": 8, "ShortType": 16, "IntegerType": 32, "LongType": 64}


def json_schema(schema: spark.StructType, key_properties: Sequence[str]) -> dict[str, Any]:
    """The schema of the RECORDs of rows of ``schema``. The columns of ``key_properties`` are never null.

    Raises ``SettingError`` for a column that JSON or a reader of the lake cannot hold, ``UnknownNameError`` for a key
    that is no column.
    """
    if not schema.fields:
        raise SettingError("the DataFrame has no columns", hint="select at least one")
    for name in key_properties:
        if name not in schema.names:
            raise UnknownNameError(
                f"key property {name!r} is not a column", hint=f"there are: {', '.join(schema.names)}"
            )
    reserved = [name for name in schema.names if name in _RESERVED]
    if reserved:
        raise SettingError(
            f"column {reserved[0]!r} has a name that reading a lake gives to a column of its own",
            hint=f"drop it: df.drop({', '.join(map(repr, reserved))}); or rename it",
        )
    return {"type": "object", "properties": _properties(schema, "", key_properties)}


def _properties(schema: spark.StructType, prefix: str, never_null: Sequence[str] = ()) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for field in schema.fields:
        path = prefix + field.name
        if field.name in properties:
            raise SettingError(f"two columns have the name {path!r}", hint="rename one of them")
        nullable = field.nullable and field.name not in never_null
        properties[field.name] = _property(field.dataType, nullable, path)
    return properties


def _property(kind: spark.DataType, nullable: bool, path: str) -> dict[str, Any]:
    from pyspark.sql import types as spark

    if isinstance(kind, spark.VariantType):
        return {}
    if isinstance(kind, spark.NullType):
        return {"type": "null"}
    described = _described(kind, path)
    if nullable:
        described["type"] = ["null", described["type"]]
    return described


def _described(kind: spark.DataType, path: str) -> dict[str, Any]:
    """The keywords of one type, with a single name under ``type``."""
    from pyspark.sql import types as spark

    if isinstance(kind, spark.StructType):
        return {"type": "object", "properties": _properties(kind, path + ".")}
    if isinstance(kind, spark.ArrayType):
        return {"type": "array", "items": _property(kind.elementType, kind.containsNull, path + "[]")}
    if isinstance(kind, spark.MapType) and isinstance(kind.keyType, spark.StringType):
        values = _property(kind.valueType, kind.valueContainsNull, path + "{}")
        return {"type": "object", "additionalProperties": values}
    if isinstance(kind, spark.DecimalType) and 0 <= kind.scale <= kind.precision:
        return {"type": "string", "format": "singer.decimal", "precision": kind.precision, "scale": kind.scale}
    if isinstance(kind, spark.IntegralType):
        # A target that knows the bounds makes a column as wide as it has to be.
        limit = 1 << (_BITS[type(kind).__name__] - 1)
        return {"type": "integer", "minimum": -limit, "maximum": limit - 1}
    if isinstance(kind, spark.StringType | spark.CharType | spark.VarcharType):
        return {"type": "string"}
    simple: dict[type[spark.DataType], dict[str, Any]] = {
        spark.BooleanType: {"type": "boolean"},
        spark.FloatType: {"type": "number"},
        spark.DoubleType: {"type": "number"},
        spark.DateType: {"type": "string", "format": "date"},
        spark.TimestampType: {"type": "string", "format": "date-time"},
        spark.TimestampNTZType: {"type": "string", "format": "date-time"},
    }
    if type(kind) not in simple:
        raise SettingError(
            f"column {path!r} is of the type {kind.simpleString()}, for which JSON has no counterpart",
            hint=_HINTS.get(kind.typeName(), "write it as a string: cast(... as string)"),
        )
    return dict(simple[type(kind)])
