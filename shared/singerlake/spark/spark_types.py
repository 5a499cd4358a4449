"""Between the columns of a lake and the types of Spark, both ways."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from singerlake.arrow.plan.request import MessageKinds, Request, own_columns
from singerlake.arrow.plan.snapshot import unknown_column
from singerlake.arrow.schema import columns as types
from singerlake.arrow.schema.own import (
    ATTACHED_FILES,
    FILES,
    OF_READS,
    OFFSET,
    RECORD_TEXT,
    RESCUED,
    TABLE_VERSION,
    TIME,
)
from singerlake.errors import SettingError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import types as spark


def to_spark(columns: types.Struct) -> spark.StructType:
    """The schema of a DataFrame with these columns; all of it nullable, since a raw record may lack anything."""
    from pyspark.sql import types as spark

    return spark.StructType([spark.StructField(field.name, _spark(field.type), True) for field in columns.fields])


def _spark(column: types.Column) -> spark.DataType:
    from pyspark.sql import types as spark

    if isinstance(column, types.Struct):
        return to_spark(column)
    if isinstance(column, types.Array):
        return spark.ArrayType(_spark(column.element), True)
    if isinstance(column, types.Decimal):
        return spark.DecimalType(column.precision, column.scale)
    if isinstance(column, types.Integer):
        return {8: spark.ByteType, 16: spark.ShortType, 32: spark.IntegerType, 64: spark.LongType}[column.bits]()
    if isinstance(column, types.Timestamp):
        return spark.TimestampType() if column.zoned else spark.TimestampNTZType()
    simple: dict[type, spark.DataType] = {
        types.Boolean: spark.BooleanType(),
        types.Double: spark.DoubleType(),
        types.Date: spark.DateType(),
        types.Variant: spark.VariantType(),
    }
    return simple.get(type(column), spark.StringType())


def requested(schema: spark.StructType, known: types.Struct | None, request: Request | None = None) -> types.Struct:
    """What a user's schema asks for, in the light of what the lake declares (None: it declares nothing yet): a string
    column is the string itself where one is declared, otherwise the value's JSON text.

    Raises ``UnknownNameError`` for a column the lake does not declare, ``SettingError`` for a type no JSON value has,
    for other columns than ``request`` names, for one named twice, and for the lake's own columns as something else.
    """
    if request is not None and request.columns is not None and set(request.columns) != set(schema.names):
        raise SettingError(
            "option 'columns' and .schema(...) name different columns", hint="give one of them; a schema is enough"
        )
    if not schema.fields:
        raise SettingError("the schema has no columns", hint="name at least one in .schema(...)")
    twice = next((name for index, name in enumerate(schema.names) if name in schema.names[:index]), None)
    if twice is not None:
        raise SettingError(f".schema(...) names column {twice!r} twice", hint="name it once")
    own = _own(request) if request is not None else {}
    for item in schema.fields:
        if item.name not in own:
            continue
        text, kinds = own[item.name]
        if not isinstance(item.dataType, kinds) or (item.name == RESCUED.name and not item.nullable):
            raise SettingError(
                f"column {item.name!r} is the lake's own, and .schema(...) has it as something else",
                hint=f"write it as: {item.name} {text}",
            )
    if request is not None and request.messages is MessageKinds.ALL:
        _check_nullable(schema)
    if request is not None and request.files and FILES in schema.names:
        _check_files(schema[FILES].dataType)
    fields = _requested_struct(schema, known, "").fields
    fixed = {field.name: field for field in (RESCUED, RECORD_TEXT) if field.name in own}
    return types.Struct(tuple(fixed.get(field.name, field) for field in fields))


def _check_nullable(schema: spark.StructType) -> None:
    for item in schema.fields:
        if not item.nullable and OF_READS.get(item.name) is None:
            raise SettingError(
                f"column {item.name!r} is declared NOT NULL, and null in the rows of ACTIVATE_VERSION messages",
                hint="declare it without NOT NULL, or leave option 'messages' out",
            )


def _check_files(wanted: spark.DataType) -> None:
    """Files can be read as they are, with any of their fields in any order."""
    own = _spark(ATTACHED_FILES.type)
    asked = _fields_in(wanted)
    if asked and asked.items() <= _fields_in(own).items():
        return
    raise SettingError(
        f"column {FILES!r} is the lake's own, and .schema(...) has it as something else",
        hint=f"write it as: {FILES} {own.simpleString().upper()}, with all of its fields or some",
    )


def _fields_in(array: spark.DataType) -> dict[str, str]:
    """The types of the fields of an array of structs by their names; none of any other type."""
    from pyspark.sql import types as spark

    if not isinstance(array, spark.ArrayType) or not isinstance(array.elementType, spark.StructType):
        return {}
    return {field.name: field.dataType.simpleString() for field in array.elementType.fields}


def _own(request: Request) -> dict[str, tuple[str, tuple[type[spark.DataType], ...]]]:
    """The lake's own columns as SQL has them, and the types they can be read as; but for the time of extraction."""
    from pyspark.sql import types as spark

    text = ("STRING", (spark.StringType,))
    integer = ("BIGINT", (spark.LongType, spark.IntegerType, spark.ShortType, spark.ByteType))
    names = [field.name for field in own_columns(request).fields if field.name not in (TIME, FILES)]
    return {name: integer if name in (OFFSET, TABLE_VERSION) else text for name in names}


def _requested_struct(schema: spark.StructType, known: types.Struct | None, path: str) -> types.Struct:
    fields = []
    for item in schema.fields:
        declared = known.get(item.name) if known is not None else None
        if known is not None and declared is None:
            raise unknown_column(known, item.name, path)
        column = _requested(item.dataType, declared.type if declared else None, path + item.name)
        fields.append(types.Field(item.name, column, item.nullable))
    return types.Struct(tuple(fields))


def _requested(wanted: spark.DataType, declared: types.Column | None, path: str) -> types.Column:
    from pyspark.sql import types as spark

    if isinstance(wanted, spark.StructType):
        return _requested_struct(wanted, declared if isinstance(declared, types.Struct) else None, path + ".")
    if isinstance(wanted, spark.ArrayType):
        element = declared.element if isinstance(declared, types.Array) else None
        return types.Array(_requested(wanted.elementType, element, path + "[]"))
    if isinstance(wanted, spark.StringType):
        return types.Text() if declared is None or types.is_string(declared) else types.JsonText()
    if isinstance(wanted, spark.DecimalType):
        text = declared is None or isinstance(declared, types.JsonText) or types.is_string(declared)
        number = declared is None or not types.is_string(declared)
        if isinstance(declared, types.Decimal):
            text, number = declared.text, declared.number
        return types.Decimal(wanted.precision, wanted.scale, number=number, text=text)
    simple: dict[type, types.Column] = {
        spark.BooleanType: types.Boolean(),
        spark.ByteType: types.Integer(8),
        spark.ShortType: types.Integer(16),
        spark.IntegerType: types.Integer(32),
        spark.LongType: types.Integer(64),
        spark.DoubleType: types.Double(),
        spark.TimestampType: types.Timestamp(),
        spark.TimestampNTZType: types.Timestamp(zoned=False),
        spark.DateType: types.Date(),
        spark.VariantType: types.Variant(),
    }
    if type(wanted) not in simple:
        raise SettingError(
            f"column {path!r} cannot be read as {wanted.simpleString()}",
            hint="use boolean, tinyint, smallint, int, bigint, double, decimal, string, date, timestamp, "
            "timestamp_ntz, variant, array or struct; or read a string and convert it in Spark",
        )
    return simple[type(wanted)]


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """The Arrow schema that Spark expects of batches for ``schema``, times in UTC whatever the session's zone is."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)
