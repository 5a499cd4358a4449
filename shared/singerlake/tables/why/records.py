"""Records of a stream as a table reads them: a single one, or those of one key in the log."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from singerlake.arrow.decode.decode import BatchDecoder
from singerlake.arrow.decode.slow_path import Origin
from singerlake.arrow.plan.request import MessageKinds, Request
from singerlake.arrow.plan.splits import splits
from singerlake.arrow.scan import scan
from singerlake.arrow.schema.own import ALL, OFFSET, RESCUED, TABLE_VERSION, TIME
from singerlake.format import layout
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.model import Manifest
from singerlake.format.state.selection import schema_in_force
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import Deletions, Keep
from singerlake.tables.declaration.stored import declaration_of, earlier_declarations
from singerlake.tables.rows.columns import SDC_DELETED, TableColumns, as_it_was, columns_of
from singerlake.tables.rows.convert import RowMaker, Seen
from singerlake.tables.state.model import TableState
from singerlake.tables.why.rows import Wanted, only

if TYPE_CHECKING:
    import pyarrow as pa

_OWN = tuple(field for field in ALL.fields if field.name in (OFFSET, TABLE_VERSION, TIME, RESCUED.name))


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a table's stream, which is as ``manifest`` says. ``key`` are the names of the table's columns that
    say which records are of one row: its key, or that of the stream."""

    storage: Storage
    manifest: Manifest
    state: TableState
    maker: RowMaker
    key: tuple[str, ...]

    @classmethod
    def of(cls, storage: Storage, manifest: Manifest, state: TableState) -> Records:
        """Raises ``CorruptObjectError``, and as ``columns_of``."""
        declaration = declaration_of(state)
        columns = columns_of(declaration, as_it_was(manifest, state.sources[0].offset))
        names = state.key
        if not names and (schema := schema_in_force(manifest)) is not None:
            kept = {source: column.name for column in columns.records if column.kept for source in column.sources}
            names = tuple(dict.fromkeys(kept[name] for name in schema.key_properties if name in kept))
        key = tuple(column.source for column in columns.records if column.name in state.key and column.kept)
        return cls(storage, manifest, state, RowMaker(declaration, columns, key), names)

    @property
    def prefix(self) -> str:
        """Where the stream lies."""
        return layout.stream_prefix(self.manifest.tap, self.manifest.stream)

    def row(self, file: DataFile, offset: int, text: bytes) -> tuple[pa.Table, Seen]:
        """The row that the table makes of one message, none where it makes none, and what it saw. Raises
        ``BrokenFileError`` where it is not a Singer message."""
        columns, request = self.maker.columns, Request(metadata=True)
        reads = columns.reads(MessageKinds.RECORDS)
        decoder = BatchDecoder(reads, columns.read_schema(MessageKinds.RECORDS), request, columns.known)
        batch, _ = decoder.batch(text + b"\n", offset, Origin(file.path, file.version, file.offset))
        rules = (rules for end, rules in earlier_declarations(self.state) if offset < end)
        maker = replace(self.maker, declaration=next(rules, self.maker.declaration))
        seen = Seen()
        return maker.rows(batch, seen), seen

    def newest_first(self, wanted: Wanted, columns: Sequence[str], stop: int) -> Iterator[pa.Table]:
        """The records below offset ``stop`` that are ``wanted``, each as a row with these ``columns`` and the lake's
        own. Reads the log from there backwards, as far as it is asked for. Raises as ``scan``."""
        import pyarrow as pa

        read = self._only({*wanted, *columns})
        declaration = replace(self.maker.declaration, checks=(), keep=Keep.LATEST, deletions=Deletions.HARD)
        maker = RowMaker(declaration, read, ())
        schema = read.read_schema(MessageKinds.RECORDS)
        decoder = BatchDecoder(read.reads(MessageKinds.RECORDS), schema, Request(metadata=True))
        files = self.manifest.files_from(self.manifest.floor, stop)
        for place in range(len(files) - 1, -1, -1):
            meant = list(splits(files[place : place + 1], 0, stop, sys.maxsize))
            batches = scan(self.storage, self.prefix, meant, decoder)
            found = [only(maker.rows(batch, Seen()), wanted) for batch in batches]
            rows = pa.concat_tables(found) if found else read.schema.empty_table()
            yield from (rows.slice(at, 1) for at in range(rows.num_rows - 1, -1, -1))

    def _only(self, names: set[str]) -> TableColumns:
        """The columns with these names, and that which says whether a record is a deletion."""
        deleted = self.maker.declaration.deleted_when
        deletes = SDC_DELETED if deleted is None else deleted.column
        columns = self.maker.columns
        kept = tuple(each for each in columns.records if (each.kept and each.name in names) or deletes in each.sources)
        return replace(columns, records=kept, own=_OWN, known=None)
