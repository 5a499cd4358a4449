"""Parquet: what tables are kept in, and what every engine reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from singerlake.errors import BrokenFileError
from singerlake.projections.formats.port import existing

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP = 1 << 17
"""Rows of a row group: what a reader that filters leaves out or reads at once."""


class Parquet:
    """Zstandard, dictionaries where they help, statistics of every column."""

    extension = "parquet"
    readable = True

    def write(self, rows: pa.Table, path: Path) -> None:
        import pyarrow.parquet as pq

        pq.write_table(
            rows,
            path,
            compression="zstd",
            compression_level=1,
            row_group_size=ROW_GROUP,
            version="2.6",
            coerce_timestamps="us",
        )

    def read(self, file: BinaryIO, size: int, columns: Sequence[str] | None) -> pa.Table:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            opened = pq.ParquetFile(pa.BufferReader(file.read(size)))
            return opened.read(columns=existing(columns, opened.schema_arrow.names))
        except pa.ArrowInvalid as error:
            raise BrokenFileError("not a parquet file", hint="run 'singerlake project verify'") from error
