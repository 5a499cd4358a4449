"""Files of lines: csv and JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from singerlake.tables.formats.encode.rows import CSV, CSV_ESCAPED, JSON, blocks, text_of
from singerlake.tables.formats.port import not_read

if TYPE_CHECKING:
    import pyarrow as pa


class Csv:
    """UTF-8, a header, lines that end with CR LF. Text stands in quotes always and nothing else but JSON does, so that
    a null, which is nothing, is not an empty text, and a text of digits no number.

    ``escape`` puts ``'`` before text that a spreadsheet would take for a formula (OWASP, "CSV Injection").
    """

    extension = "csv"
    readable = False

    def __init__(self, *, escape: bool = False) -> None:
        self._form = CSV_ESCAPED if escape else CSV

    def write(self, rows: pa.Table, path: Path) -> None:
        header = b",".join(text_of(name, self._form) for name in rows.column_names)
        with path.open("wb") as file:
            file.write(header + b"\r\n")
            for _, block in blocks(rows, self._form, b"\r\n"):
                file.write(block)

    def read(self, file: BinaryIO, size: int, columns: Sequence[str] | None) -> pa.Table:
        raise not_read(self.extension)


class JsonLines:
    """UTF-8, every column in each line. Integers and decimals are numbers with all their digits; NaN and the infinities
    are strings, since JSON has no number for them."""

    extension = "jsonl"
    readable = False

    def write(self, rows: pa.Table, path: Path) -> None:
        end = b"}\n" if rows.column_names else b"{}\n"
        with path.open("wb") as file:
            for _, block in blocks(rows, JSON, end):
                file.write(block)

    def read(self, file: BinaryIO, size: int, columns: Sequence[str] | None) -> pa.Table:
        raise not_read(self.extension)
