"""Writing the rows of one range as files of a table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from singerlake.arrow.schema.own import OFFSET, RESCUED, TABLE_VERSION
from singerlake.clock import random_id
from singerlake.scratch import local_folder
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import Format, Formulas
from singerlake.tables.formats.all import FORMATS, writer_of
from singerlake.tables.formats.port import FileFormat
from singerlake.tables.rows.convert import DELETED, without_working
from singerlake.tables.rows.order import rows_up_to, values_at
from singerlake.tables.rows.partitions import PartitionColumn
from singerlake.tables.rows.types import place as place_of
from singerlake.tables.rows.types import to_json
from singerlake.tables.state.keys import file_path, side_path, table_prefix
from singerlake.tables.state.model import SideFile, TableFile

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run writes: the table's name, its generation, its format, and what its rows are in order of, which begins
    with the partitions. ``of_records``: each row was made of a record, and has the lake's columns."""

    table: str
    generation: int
    format: Format
    order: tuple[str, ...]
    file_rows: int
    partitions: tuple[PartitionColumn, ...] = ()
    formulas: Formulas = Formulas.KEEP
    of_records: bool = True

    @property
    def prefix(self) -> str:
        return table_prefix(self.table)


def write_files(storage: Storage, place: Place, rows: pa.Table, hidden: pa.Table | None) -> list[TableFile]:
    """The sorted ``rows`` as one file, or several of about one size. ``hidden`` are records of the same range that have
    no row, in order too; each goes with the file whose range it is in."""
    parts = list(_parts(rows, place))
    if hidden is None or not hidden.num_rows:
        return [_file(storage, place, part, None) for part in parts]
    if not parts:
        return [_file(storage, place, rows, hidden)]
    files, begin = [], 0
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        bound = values_at(part, place.order, part.num_rows - 1)
        end = hidden.num_rows if last else rows_up_to(hidden, place.order, bound)
        files.append(_file(storage, place, part, hidden.slice(begin, end - begin)))
        begin = end
    return files


def _parts(rows: pa.Table, place: Place) -> Iterator[pa.Table]:
    """``rows`` in parts of about ``file_rows`` rows and one partition each."""
    begin = 0
    while begin < rows.num_rows:
        rest = rows.slice(begin)
        if place.partitions:
            partition = values_at(rest, [each.working for each in place.partitions], 0)
            rest = rest.slice(0, rows_up_to(rest, [each.working for each in place.partitions], partition))
        count, done = max(1, round(rest.num_rows / place.file_rows)), 0
        for index in range(count):
            end = rest.num_rows * (index + 1) // count
            if done < end < rest.num_rows:
                # Rows of one place, as the intervals of a key, stay together.
                end = rows_up_to(rest, place.order, values_at(rest, place.order, end - 1))
            if end > done:
                yield rest.slice(done, end - done)
                done = end
        begin += rest.num_rows


def _file(storage: Storage, place: Place, rows: pa.Table, hidden: pa.Table | None) -> TableFile:
    import pyarrow as pa

    id = random_id()
    kept = typed = None
    ranged = [part for part in (rows, hidden) if part is not None and part.num_rows]
    if hidden is not None and hidden.num_rows:
        kept = _side(storage, place, "hidden", id, without_working(hidden, DELETED))
    firsts = [values_at(part, place.order, 0) for part in ranged]
    lasts = [values_at(part, place.order, part.num_rows - 1) for part in ranged]
    path = None
    stored, digest = 0, ""
    partition = tuple(str(value) for value in values_at(ranged[0], [each.working for each in place.partitions], 0))
    if rows.num_rows:
        folders = [(each.folder, value) for each, value in zip(place.partitions, partition, strict=True)]
        writer = writer_of(place.format, place.formulas)
        path = file_path(place.table, place.generation, folders, id, writer.extension)
        rows = without_working(rows)
        stored, digest = _upload(storage, place.prefix + path, rows, writer)
        if not writer.readable:
            typed = _side(storage, place, "typed", id, rows)
    names = [OFFSET, TABLE_VERSION, RESCUED.name]
    both = pa.concat_tables([part.select(names) for part in ranged]) if place.of_records else None
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


def _side(storage: Storage, place: Place, kind: str, id: str, rows: pa.Table) -> SideFile:
    path = side_path(kind, id)
    stored, digest = _upload(storage, place.prefix + path, rows, FORMATS[Format.PARQUET])
    return SideFile(path=path, rows=rows.num_rows, bytes=stored, sha256=digest)


def _least(ends: Sequence[tuple[Any, ...]], choose: Any) -> tuple[Any, ...]:
    return tuple(map(to_json, choose(ends, key=place_of)))


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
