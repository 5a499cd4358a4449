"""Records of no known schema as a parquet file, for BATCH messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


class UnlikeRecordsError(ValueError):
    """Values of one property that no column can hold."""


def write_parquet(path: Path, records: Sequence[Mapping[str, Any]], *, compression: str) -> None:
    """A file of ``records``: a column for each property that any of them has, with the type that its values have in
    common. Raises ``UnlikeRecordsError`` where they have none, ``OSError``."""
    names = list(dict.fromkeys(name for record in records for name in record))
    try:
        columns = {name: pa.array([record.get(name) for record in records]) for name in names}
        table = pa.table(columns)
        pq.write_table(table, path, compression=compression)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise UnlikeRecordsError(str(error)) from error
