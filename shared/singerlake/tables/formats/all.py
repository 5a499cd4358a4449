"""Which formats there are. A new one is a module here, an entry below and a word of ``declaration.model.Format``."""

from __future__ import annotations

from singerlake.tables.declaration.model import Format, Formulas
from singerlake.tables.formats.avro import Avro
from singerlake.tables.formats.parquet import Parquet
from singerlake.tables.formats.port import FileFormat
from singerlake.tables.formats.text import Csv, JsonLines

FORMATS: dict[Format, FileFormat] = {
    Format.PARQUET: Parquet(),
    Format.CSV: Csv(),
    Format.JSONL: JsonLines(),
    Format.AVRO: Avro(),
    Format.DELTA: Parquet(),
}
_ESCAPED = Csv(escape=True)


def writer_of(format: Format, formulas: Formulas) -> FileFormat:
    """What writes the files of a table."""
    return _ESCAPED if format is Format.CSV and formulas is Formulas.ESCAPE else FORMATS[format]
