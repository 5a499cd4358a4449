"""Rows in order, on their way from one task to another: a file of Arrow streams of which a reader takes a range."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from singerlake.scratch.folder import local_folder
from singerlake.storage.port import Storage
from singerlake.tables.rows.order import between, values_at
from singerlake.tables.state.types import place

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_ROWS = 1 << 14


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive rows: their stored bytes [``start``, ``end``), and the values of the order in the first and the last
    of them."""

    start: int
    end: int
    rows: int
    first: tuple[Any, ...]
    last: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class SortedRun:
    """One such file. ``memory`` is what its rows take in memory."""

    key: str
    chunks: tuple[Chunk, ...]
    memory: int

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    def within(self, after: tuple[Any, ...] | None, up_to: tuple[Any, ...] | None) -> SortedRun:
        """The same with those chunks alone that have rows after one bound and not after the other."""
        low, high = (None if bound is None else place(bound) for bound in (after, up_to))
        kept = tuple(
            chunk
            for chunk in self.chunks
            if (low is None or place(chunk.last) > low) and (high is None or place(chunk.first) <= high)
        )
        share = sum(chunk.rows for chunk in kept) / max(1, self.rows)
        return SortedRun(self.key, kept, int(self.memory * share))


def write_run(storage: Storage, key: str, rows: pa.Table, order: Sequence[str]) -> SortedRun:
    """Keep the sorted ``rows`` at a new key."""
    import pyarrow as pa

    chunks = []
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with local_folder("files of a table") as folder:
        path = folder / "run"
        with path.open("wb") as file:
            for begin in range(0, rows.num_rows, CHUNK_ROWS):
                part = rows.slice(begin, CHUNK_ROWS).combine_chunks()
                start = file.tell()
                with pa.ipc.new_stream(file, part.schema, options=options) as stream:
                    stream.write_table(part)
                first, last = values_at(part, order, 0), values_at(part, order, part.num_rows - 1)
                chunks.append(Chunk(start, file.tell(), part.num_rows, first, last))
        storage.upload(key, path)
    return SortedRun(key, tuple(chunks), rows.nbytes)


def read_run(
    storage: Storage,
    run: SortedRun,
    order: Sequence[str],
    after: tuple[Any, ...] | None = None,
    up_to: tuple[Any, ...] | None = None,
    *,
    columns: Sequence[str] | None = None,
) -> pa.Table | None:
    """The rows of ``run`` that are after one bound and not after the other; None where it has none. ``columns``: with
    these alone, those of ``order`` among them."""
    import pyarrow as pa

    wanted = run.within(after, up_to)
    if not wanted.chunks:
        return None
    begin, end = wanted.chunks[0].start, wanted.chunks[-1].end
    parts = []
    with storage.open(run.key, begin, end) as stored:
        data = stored.read() if hasattr(stored, "read") else b""
    for chunk in wanted.chunks:
        with pa.ipc.open_stream(io.BytesIO(data[chunk.start - begin : chunk.end - begin])) as stream:
            rows = stream.read_all()
        parts.append(rows if columns is None else rows.select(list(columns)))
    return between(pa.concat_tables(parts), order, after, up_to)


def sample(runs: Sequence[SortedRun]) -> Iterator[tuple[tuple[Any, ...], int]]:
    """A place in the order, and about how many rows lie between it and the one before it, in order."""
    chunks = sorted((chunk for run in runs for chunk in run.chunks), key=lambda chunk: place(chunk.last))
    for chunk in chunks:
        yield chunk.last, chunk.rows
