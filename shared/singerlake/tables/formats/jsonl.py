"""JSON lines: an object a line, for programs that read JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from singerlake.tables.formats.encode.rows import JSON, blocks
from singerlake.tables.formats.port import not_read

if TYPE_CHECKING:
    import pyarrow as pa


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
