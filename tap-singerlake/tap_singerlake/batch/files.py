"""One batch file while it grows on the local disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from isal import isal_zlib

from singerlake.errors import SettingError
from tap_singerlake.batch.settings import BatchConfig
from tap_singerlake.error_settings import spool_error

_GZIP = 16 + 15
"""``wbits`` of zlib for one gzip member."""
_LEVEL = 1


class Encoder(Protocol):
    """Makes a file of records. Raises ``StorageFullError``, ``AccessDeniedError``, ``StorageUnavailableError``."""

    def add(self, records: bytes | bytearray) -> None:
        """Append records, a newline behind each."""
        ...

    def finish(self) -> None:
        """Write what is left. The file is whole then."""
        ...


def encoder(config: BatchConfig, path: Path) -> Encoder:
    """What makes the file at ``path``, which is not there yet."""
    return ParquetFile(path, config.compression) if config.format == "parquet" else LinesFile(path, config.compression)


class LinesFile:
    """JSON lines: the records as they are, in one gzip member or as plain text."""

    def __init__(self, path: Path, compression: str) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._gzip = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, _GZIP) if compression == "gzip" else None

    def add(self, records: bytes | bytearray) -> None:
        self._write(records if self._gzip is None else self._gzip.compress(records))

    def finish(self) -> None:
        if self._gzip is not None:
            self._write(self._gzip.flush())
        if self._file is not None:
            self._guarded(self._file.close)

    def _write(self, data: bytes | bytearray) -> None:
        def write() -> None:
            if self._file is None:
                self._file = self._path.open("xb", buffering=0)
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]

        self._guarded(write)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:
            raise spool_error(error, self._path) from error


class ParquetFile:
    """Parquet as singer-sdk writes it: a column for each property that a record of the batch has, with the type that
    its values have in common. Holds all records of the batch in memory."""

    def __init__(self, path: Path, compression: str) -> None:
        self._path = path
        self._compression = "gzip" if compression == "gzip" else "snappy"
        self._records: list[dict[str, Any]] = []

    def add(self, records: bytes | bytearray) -> None:
        self._records += map(json.loads, records.splitlines())

    def finish(self) -> None:
        from singerlake.arrow.parquet import UnlikeRecordsError, write_parquet

        try:
            write_parquet(self._path, self._records, compression=self._compression)
        except UnlikeRecordsError as error:
            raise SettingError(
                f"the records of a batch do not fit into columns of parquet: {error}",
                hint="set the format of batch_config to jsonl",
            ) from error
        except OSError as error:
            raise spool_error(error, self._path) from error
