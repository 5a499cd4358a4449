"""Reading a file of a table, checked against what the table's state says of it."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from singerlake.errors import BrokenFileError, MissingFileError
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import Format
from singerlake.tables.formats.all import FORMATS
from singerlake.tables.state.model import SideFile, TableFile

if TYPE_CHECKING:
    import pyarrow as pa


class Opened(Protocol):
    """A file whose bytes were read and checked: a call gives its rows, with these columns or all of them. Raises
    ``BrokenFileError``."""

    def __call__(self, columns: Sequence[str] | None, /) -> pa.Table: ...


def open_rows(storage: Storage, prefix: str, file: TableFile) -> Opened | None:
    """The rows of a file of the table at ``prefix``; None where it holds hidden records alone. Raises
    ``MissingFileError``, ``BrokenFileError``, and what storage raises."""
    if file.path is None:
        return None
    if file.typed is not None:
        return _open_side(storage, prefix, file.typed)
    key = prefix + file.path
    return partial(_rows, _body(storage, key, file.bytes, file.sha256), key, file.rows)


def open_hidden(storage: Storage, prefix: str, file: TableFile) -> Opened | None:
    """The records of its range that have no row; None where there are none. Raises as ``open_rows``."""
    return None if file.hidden is None else _open_side(storage, prefix, file.hidden)


def read_rows(storage: Storage, prefix: str, file: TableFile, columns: Sequence[str] | None = None) -> pa.Table | None:
    """``open_rows`` where the rows are wanted once."""
    opened = open_rows(storage, prefix, file)
    return None if opened is None else opened(columns)


def read_hidden(storage: Storage, prefix: str, file: TableFile) -> pa.Table | None:
    """``open_hidden`` where the records are wanted once."""
    opened = open_hidden(storage, prefix, file)
    return None if opened is None else opened(None)


def check_written(storage: Storage, prefix: str, file: TableFile) -> None:
    """Check the bytes of a file that ``read_rows`` does not read, since others give the same rows. Raises as it."""
    if file.path is not None and file.typed is not None:
        _body(storage, prefix + file.path, file.bytes, file.sha256)


def _open_side(storage: Storage, prefix: str, side: SideFile) -> Opened:
    key = prefix + side.path
    return partial(_rows, _body(storage, key, side.bytes, side.sha256), key, side.rows)


def _rows(body: bytes, key: str, rows: int, columns: Sequence[str] | None) -> pa.Table:
    table = FORMATS[_format(key)].read(io.BytesIO(body), len(body), columns)
    if table.num_rows != rows:
        raise BrokenFileError(f"it holds {table.num_rows} rows, {rows} were committed", hint="restore it", file=key)
    return table


def _body(storage: Storage, key: str, size: int, sha256: str) -> bytes:
    try:
        with storage.open(key) as stored:
            body = stored.read(size + 1)
    except MissingFileError as error:
        raise MissingFileError(
            "a file of the table is gone",
            hint="read the table again; if it is still missing, run 'singerlake project run --full-refresh'",
            file=key,
        ) from error
    if len(body) != size or hashlib.sha256(body).hexdigest() != sha256:
        raise BrokenFileError(
            "its bytes are not those that were committed",
            hint="restore it from a backup, or run 'singerlake project run --full-refresh'",
            file=key,
        )
    return body


def _format(key: str) -> Format:
    return Format(key.rpartition(".")[2])
