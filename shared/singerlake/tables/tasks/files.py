"""The files of a table: read as rows, and written."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from singerlake.arrow.schema.own import OFFSET, RESCUED, TABLE_VERSION
from singerlake.clock import random_id
from singerlake.errors import BrokenFileError, MissingFileError
from singerlake.scratch import local_folder
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import Format, Formulas
from singerlake.tables.formats.avro import Avro
from singerlake.tables.formats.parquet import Parquet, with_ids
from singerlake.tables.formats.port import FileFormat
from singerlake.tables.formats.text import Csv, JsonLines
from singerlake.tables.rows.columns import DELETED
from singerlake.tables.rows.convert import without_working
from singerlake.tables.rows.order import rows_up_to, values_at
from singerlake.tables.rows.partitions import PartitionColumn
from singerlake.tables.state.ids import Numbered
from singerlake.tables.state.keys import file_path, side_path, table_prefix
from singerlake.tables.state.model import SideFile, TableFile
from singerlake.tables.state.types import sort_key, value_to_json

if TYPE_CHECKING:
    import pyarrow as pa


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


@dataclass(frozen=True, slots=True)
class FileSpec:
    """Where a run writes: the table's name, its generation, its format, and what its rows are in order of, which begins
    with the partitions. ``of_records``: each row was made of a record, and has the lake's columns. ``ids``: the files
    say the ids of these columns."""

    table: str
    generation: int
    format: Format
    order: tuple[str, ...]
    file_rows: int
    partitions: tuple[PartitionColumn, ...] = ()
    formulas: Formulas = Formulas.KEEP
    of_records: bool = True
    ids: tuple[Numbered, ...] = ()

    @property
    def prefix(self) -> str:
        return table_prefix(self.table)


def write_files(storage: Storage, spec: FileSpec, rows: pa.Table, hidden: pa.Table | None) -> list[TableFile]:
    """The sorted ``rows`` as one file, or several of about one size. ``hidden`` are records of the same range that have
    no row, in order too; each goes with the file whose range it is in."""
    pieces = list(_pieces(rows, spec))
    if hidden is None or not hidden.num_rows:
        return [_file(storage, spec, piece, None) for piece in pieces]
    if not pieces:
        return [_file(storage, spec, rows, hidden)]
    files, begin = [], 0
    for index, piece in enumerate(pieces):
        last = index == len(pieces) - 1
        bound = values_at(piece, spec.order, piece.num_rows - 1)
        end = hidden.num_rows if last else rows_up_to(hidden, spec.order, bound)
        files.append(_file(storage, spec, piece, hidden.slice(begin, end - begin)))
        begin = end
    return files


def _pieces(rows: pa.Table, spec: FileSpec) -> Iterator[pa.Table]:
    """``rows`` in pieces of about ``file_rows`` rows and one partition each."""
    begin = 0
    while begin < rows.num_rows:
        rest = rows.slice(begin)
        if spec.partitions:
            partition = values_at(rest, [each.working for each in spec.partitions], 0)
            rest = rest.slice(0, rows_up_to(rest, [each.working for each in spec.partitions], partition))
        count, done = max(1, round(rest.num_rows / spec.file_rows)), 0
        for index in range(count):
            end = rest.num_rows * (index + 1) // count
            if done < end < rest.num_rows:
                # Rows of one spec, as the intervals of a key, stay together.
                end = rows_up_to(rest, spec.order, values_at(rest, spec.order, end - 1))
            if end > done:
                yield rest.slice(done, end - done)
                done = end
        begin += rest.num_rows


def _file(storage: Storage, spec: FileSpec, rows: pa.Table, hidden: pa.Table | None) -> TableFile:
    import pyarrow as pa

    id = random_id()
    kept = typed = None
    ranged = [piece for piece in (rows, hidden) if piece is not None and piece.num_rows]
    if hidden is not None and hidden.num_rows:
        kept = _side(storage, spec, "hidden", id, without_working(hidden, DELETED))
    firsts = [values_at(piece, spec.order, 0) for piece in ranged]
    lasts = [values_at(piece, spec.order, piece.num_rows - 1) for piece in ranged]
    path = None
    stored, digest = 0, ""
    partition = tuple(str(value) for value in values_at(ranged[0], [each.working for each in spec.partitions], 0))
    if rows.num_rows:
        folders = [(each.folder, value) for each, value in zip(spec.partitions, partition, strict=True)]
        writer = writer_of(spec.format, spec.formulas)
        path = file_path(spec.table, spec.generation, folders, id, writer.extension)
        rows = with_ids(without_working(rows), spec.ids)
        stored, digest = _upload(storage, spec.prefix + path, rows, writer)
        if not writer.readable:
            typed = _side(storage, spec, "typed", id, rows)
    names = [OFFSET, TABLE_VERSION, RESCUED.name]
    both = pa.concat_tables([piece.select(names) for piece in ranged]) if spec.of_records else None
    return TableFile(
        id=id,
        path=path,
        rows=rows.num_rows,
        bytes=stored,
        sha256=digest,
        first=_least(firsts, min),
        last=_least(lasts, max),
        offsets=(both is not None and _span(both, OFFSET)) or (0, 0),
        versions=None if both is None else _span(both, TABLE_VERSION),
        rescued=0 if both is None else both.num_rows - both.column(RESCUED.name).null_count,
        partition=partition,
        hidden=kept,
        typed=typed,
    )


def _side(storage: Storage, spec: FileSpec, kind: str, id: str, rows: pa.Table) -> SideFile:
    path = side_path(kind, id)
    stored, digest = _upload(storage, spec.prefix + path, rows, FORMATS[Format.PARQUET])
    return SideFile(path=path, rows=rows.num_rows, bytes=stored, sha256=digest)


def _least(ends: Sequence[tuple[Any, ...]], choose: Any) -> tuple[Any, ...]:
    return tuple(map(value_to_json, choose(ends, key=sort_key)))


def _span(rows: pa.Table, name: str) -> tuple[int, int] | None:
    """Least and greatest; None where any row has none."""
    import pyarrow.compute as pc

    if rows.column(name).null_count:
        return None
    ends = pc.min_max(rows.column(name)).as_py()
    return None if ends["min"] is None else (ends["min"], ends["max"])


def _upload(storage: Storage, key: str, rows: pa.Table, writer: FileFormat) -> tuple[int, str]:
    """Stored bytes and SHA-256 of a new file at ``key``."""
    with local_folder("files of a table") as folder:
        path = folder / "file"
        writer.write(rows, path)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return storage.upload(key, path), digest
