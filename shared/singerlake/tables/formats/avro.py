"""Avro object container files (specification 1.12.0), for pipelines that read Avro."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from isal import igzip_lib

from singerlake.clock import random_id
from singerlake.tables.formats.encode.rows import AVRO, blocks, long
from singerlake.tables.formats.port import not_read
from singerlake.tables.rows.columns import free_name

if TYPE_CHECKING:
    import pyarrow as pa

ROW = "row"
"""The name of the record that a row is."""
_ILLEGAL = re.compile(r"[^A-Za-z0-9_]")
_LEVEL = 1


class Avro:
    """Blocks of deflate, which every reader has to know. Every value may be null.

    Names become legal: what is not an ASCII letter, digit or underscore becomes an underscore, and a number behind it
    tells equal ones apart. A field whose name changes has the original in ``doc``. Nested records are named after the
    way to them.
    """

    extension = "avro"
    readable = False

    def write(self, rows: pa.Table, path: Path) -> None:
        schema = json.dumps(record_of(rows.schema, ROW, {ROW}), separators=(",", ":")).encode()
        # Readers look for the marker to split a file: nobody may know it who sends data.
        marker = hashlib.sha256(random_id().encode() + schema).digest()[:16]
        with path.open("wb") as file:
            file.write(b"Obj\1" + long(2))
            for key, value in ((b"avro.codec", b"deflate"), (b"avro.schema", schema)):
                file.write(long(len(key)) + key + long(len(value)) + value)
            file.write(long(0) + marker)
            for count, block in blocks(rows, AVRO, b""):
                body = igzip_lib.compress(block, _LEVEL, igzip_lib.COMP_DEFLATE)
                file.write(long(count) + long(len(body)) + body + marker)

    def read(self, file: BinaryIO, size: int, columns: Sequence[str] | None) -> pa.Table:
        raise not_read(self.extension)


def record_of(fields: pa.Schema | pa.StructType, name: str, taken: set[str]) -> dict[str, Any]:
    """The schema of a record with these fields. ``taken`` are the names of records."""
    made: list[dict[str, Any]] = []
    names = {field.name.lower() for field in fields if legal_name(field.name) == field.name}
    for field in fields:
        legal = legal_name(field.name)
        if legal != field.name:
            legal = _free(legal, names)
        entry = {"name": legal, "type": ["null", _type(field.type, f"{name}_{legal}", taken)], "default": None}
        made.append(entry if legal == field.name else {**entry, "doc": field.name})
    return {"type": "record", "name": name, "fields": made}


def legal_name(name: str) -> str:
    """The name with underscores for what Avro does not allow."""
    legal = _ILLEGAL.sub("_", name)
    return f"_{legal}" if not legal or legal[0].isdigit() else legal


def _free(name: str, taken: set[str]) -> str:
    """The name, or with a number where another has it, in any case."""
    free = free_name(name, taken)
    taken.add(free.lower())
    return free


def _type(own: pa.DataType, name: str, taken: set[str]) -> Any:
    import pyarrow as pa

    if pa.types.is_struct(own):
        return record_of(own, _free(name, taken), taken)
    if pa.types.is_list(own):
        return {"type": "array", "items": ["null", _type(own.value_type, name, taken)]}
    if pa.types.is_decimal(own):
        return {"type": "bytes", "logicalType": "decimal", "precision": own.precision, "scale": own.scale}
    if pa.types.is_timestamp(own):
        logical = "timestamp-micros" if own.tz else "local-timestamp-micros"
        return {"type": "long", "logicalType": logical}
    if pa.types.is_date(own):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_integer(own):
        return "int" if own.bit_width <= 32 else "long"
    if pa.types.is_boolean(own):
        return "boolean"
    return "double" if pa.types.is_floating(own) else "string"
