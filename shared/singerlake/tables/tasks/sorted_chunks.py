"""Rows in order, on their way from one task to another: a file of Arrow streams of which a reader takes a range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from singerlake.scratch import local_folder
from singerlake.storage.port import Storage
from singerlake.tables.formats.parquet import in_arrow_memory
from singerlake.tables.rows.order import between, values_at
from singerlake.tables.state.types import sort_key

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_ROWS = 1 << 14


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive rows: their stored bytes [``start``, ``end``), and the values of the order in the first and the last
    of them."""

    start: int
    end: int
    rows: int
    first: tuple[Any, ...]
    last: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class SortedChunk:
    """One such file. ``memory`` is what its rows take in memory."""

    key: str
    blocks: tuple[Block, ...]
    memory: int

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self.blocks)

    def within(self, after: tuple[Any, ...] | None, up_to: tuple[Any, ...] | None) -> SortedChunk:
        """The same with those blocks alone that have rows after one bound and not after the other."""
        low, high = (None if bound is None else sort_key(bound) for bound in (after, up_to))
        kept = tuple(
            block
            for block in self.blocks
            if (low is None or sort_key(block.last) > low) and (high is None or sort_key(block.first) <= high)
        )
        share = sum(block.rows for block in kept) / max(1, self.rows)
        return SortedChunk(self.key, kept, int(self.memory * share))


def write_chunk(storage: Storage, key: str, rows: pa.Table, order: Sequence[str]) -> SortedChunk:
    """Keep the sorted ``rows`` at a new key."""
    import pyarrow as pa

    blocks = []
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with local_folder("files of a table") as folder:
        path = folder / "chunk"
        with path.open("wb") as file:
            for begin in range(0, rows.num_rows, BLOCK_ROWS):
                piece = rows.slice(begin, BLOCK_ROWS).combine_chunks()
                start = file.tell()
                with pa.ipc.new_stream(file, piece.schema, options=options) as stream:
                    stream.write_table(piece)
                first, last = values_at(piece, order, 0), values_at(piece, order, piece.num_rows - 1)
                blocks.append(Block(start, file.tell(), piece.num_rows, first, last))
        storage.upload(key, path)
    return SortedChunk(key, tuple(blocks), rows.nbytes)


def read_chunk(
    storage: Storage,
    chunk: SortedChunk,
    order: Sequence[str],
    after: tuple[Any, ...] | None = None,
    up_to: tuple[Any, ...] | None = None,
    *,
    columns: Sequence[str] | None = None,
) -> pa.Table | None:
    """The rows of ``chunk`` that are after one bound and not after the other; None where it has none. ``columns``: with
    these alone, those of ``order`` among them."""
    import pyarrow as pa

    wanted = chunk.within(after, up_to)
    if not wanted.blocks:
        return None
    begin, end = wanted.blocks[0].start, wanted.blocks[-1].end
    pieces = []
    # A stream without a size is read in pieces of 8 kB.
    with storage.open(chunk.key, begin, end) as stored:
        data = in_arrow_memory(stored, end - begin)
    for block in wanted.blocks:
        data.seek(block.start - begin)
        with pa.ipc.open_stream(data) as stream:
            rows = stream.read_all()
        pieces.append(rows if columns is None else rows.select(list(columns)))
    return between(pa.concat_tables(pieces), order, after, up_to)


@dataclass(frozen=True)
class ChunkRange:
    """The rows of ``chunks`` after one position in their order and not after another (None: no bound)."""

    after: tuple[Any, ...] | None
    up_to: tuple[Any, ...] | None
    chunks: tuple[SortedChunk, ...]

    @property
    def memory(self) -> int:
        """What they take in memory, at most."""
        return sum(chunk.memory for chunk in self.chunks)

    def read(self, storage: Storage, order: Sequence[str]) -> list[pa.Table]:
        """Those of each chunk that has any. Raises what storage raises."""
        found = (read_chunk(storage, chunk, order, self.after, self.up_to) for chunk in self.chunks)
        return [rows for rows in found if rows is not None]


def sample(chunks: Sequence[SortedChunk]) -> Iterator[tuple[tuple[Any, ...], int]]:
    """A position in the order, and about how many rows lie between it and the one before it, in order."""
    blocks = sorted((block for chunk in chunks for block in chunk.blocks), key=lambda block: sort_key(block.last))
    for block in blocks:
        yield block.last, block.rows
