"""The rows of a table as the bytes of a file, block by block."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from singerlake.tables.formats.encode import python_rows
from singerlake.tables.formats.encode.compiled import columns

if TYPE_CHECKING:
    import pyarrow as pa

try:
    from singerlake.tables.formats.encode import _rows as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

CSV, CSV_ESCAPED, JSON, AVRO = "c", "e", "j", "a"
BLOCK = 1 << 13
"""Rows that are made at once."""


def blocks(rows: pa.Table, form: str, end: bytes) -> Iterator[tuple[int, bytes]]:
    """How many rows each block has, and their bytes, each row with ``end`` behind it."""
    texts = False
    for batch in rows.to_batches(max_chunksize=BLOCK):
        made = None if texts else encoded(batch, form, end, texts=False)
        if made is None:
            # Arrow makes the texts of numbers whose shortest one takes more than a multiplication to find.
            texts = True
            made = encoded(batch, form, end, texts=True)
        if made is None:
            raise ValueError("a number has no text")
        yield batch.num_rows, made


def encoded(batch: pa.RecordBatch, form: str, end: bytes, *, texts: bool) -> bytes | None:
    """The bytes of these rows; None where a number needs its text, and ``texts`` is False."""
    if compiled is None or sys.byteorder != "little":
        return python_rows.encoded(batch, form, end)
    return compiled.encoded(form, columns(batch, form, texts=texts), batch.num_rows, end)


def text_of(text: str, form: str) -> bytes:
    """One text as csv."""
    return python_rows.csv_text(form)(text)
