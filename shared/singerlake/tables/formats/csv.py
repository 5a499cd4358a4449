"""Comma-separated values as RFC 4180 says them, for spreadsheets, databases and people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from singerlake.tables.formats.encode.rows import CSV, CSV_ESCAPED, blocks, text_of
from singerlake.tables.formats.port import not_read

if TYPE_CHECKING:
    import pyarrow as pa


class Csv:
    """UTF-8, a header, lines that end with CR LF. Text stands in quotes always and nothing else but JSON does, so that
    a null, which is nothing, is no empty text, and a text of digits no number.

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
