"""The frozen models of one table's state: what ``_table.json`` holds, field by field (section 14.1 of the format)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from singerlake.errors import CorruptObjectError, UnsupportedFormatError
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode, indented
from singerlake.format.state.model import Manifest

FORMAT = 1
RUN, COLLECT, REBUILD = "run", "collect", "rebuild"
"""The kinds of writes: that take in what is new, a collector's, and those that make a table anew."""
KEPT_RUNS = 100
"""Writes that a state remembers; by them a run finds its own commit again whose reply was lost."""
DROPPED = "its stream was dropped"
CASTS = 2
"""How casts read values: as they were captured. 1: as the type held them that the schema declares."""
MEND = "restore the object, or make the table again with 'singerlake project run --full-refresh'"
"""The next step where a state cannot be used."""


class TableSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stream, and what of it a table holds: messages with offsets from ``begin`` to below ``offset`` of that
    ``lineage``; what was before had expired when the table was made. ``erased`` were the files with holes in all of the
    stream when the state was written, as ``(end, holes)``, ``floor`` was its floor then."""

    tap: str
    stream: str
    lineage: str
    offset: int
    begin: int = 0
    erased: tuple[tuple[int, int], ...] = ()
    floor: int = 0

    def behind(self, newest: TableSource) -> int:
        """How many messages of the whole stream, as it is now, the table does not hold yet: all of them where it will
        be made anew, since the stream was rebuilt or records were erased."""
        goes_on = not self.outdated(newest)
        return newest.offset - max(self.offset if goes_on else 0, newest.floor)

    def outdated(self, newest: TableSource) -> str:
        """Why the table does not go on from the stream as it is now; empty where it does."""
        if self.lineage != newest.lineage:
            return "its stream was rebuilt" if newest.offset > newest.floor else DROPPED
        return "" if self.knows_holes_of(newest) else "records of its stream were erased"

    def knows_holes_of(self, other: TableSource) -> bool:
        """Whether all that is erased in ``other``, the stream at another time, was erased here, as far as it has not
        expired. Files are joined and never cut, so that a floor is between two files at any time."""
        floor = max(self.floor, other.floor)
        here, there = (sum(holes for end, holes in each.erased if end > floor) for each in (self, other))
        return here >= there


def source_of(manifest: Manifest) -> TableSource:
    """All of a stream as it is in that state."""
    erased = manifest.files.matching(lambda segment: segment.erased > 0)
    return TableSource(
        tap=manifest.tap,
        stream=manifest.stream,
        lineage=manifest.lineage or "",
        offset=manifest.next_offset,
        begin=manifest.floor,
        erased=tuple((file.end, file.erased) for file in erased if file.erased),
        floor=manifest.floor,
    )


class UpTo(msgspec.Struct, frozen=True, kw_only=True):
    """Where a table ended that a statement takes row by row: in the state with that ``id``, whose columns are those of
    ``columns`` (``TableState.columns_id``). ``end`` is the first offset of its stream that it did not hold, or, of a
    table of a statement, the number of its files."""

    id: str
    end: int
    columns: str


class MadeFrom(msgspec.Struct, frozen=True, kw_only=True):
    """Another table, of which a statement read one snapshot: the one with that ``generation`` and ``number``. ``rows``
    says what it held, see ``TableState.rows_id``. ``up_to`` is there where rows that come later can be told from those
    that were read, and the statement gives the same of each row whatever the others are."""

    table: str
    generation: int
    number: int
    rows: str
    up_to: UpTo | None = None


class Activation(msgspec.Struct, frozen=True, kw_only=True):
    """An ACTIVATE_VERSION message: its own offset, and the table version that it names. ``at`` is the
    ``time_extracted`` of the last record before it that has one, RFC 3339."""

    offset: int
    version: int
    at: str | None = None


class ColumnEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A column; ``type`` is in the words of ``columns.type_words``."""

    name: str
    type: Any


class FieldId(msgspec.Struct, frozen=True, kw_only=True):
    """The ``id`` of a column, whose ``parent`` is 0, or of a field or the elements within the one of that id. ``type``
    is that of a column, ``struct`` or ``array`` for nested ones."""

    id: int
    parent: int
    name: str
    type: Any


class SideFile(msgspec.Struct, frozen=True, kw_only=True):
    """A parquet file that goes with a file of rows and is not part of the table."""

    path: str
    rows: int
    bytes: int
    sha256: str


class TableFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of rows. ``first`` and ``last`` are values of the table's order, as ``columns.to_json`` writes them.
    ``path`` is None where the range holds hidden records alone; then ``rows`` is 0. ``hidden`` are records of the range
    that have no row and may yet win over late ones; ``typed`` holds the same rows as the file, in a table whose format
    does not give them back as they were."""

    id: str
    path: str | None
    rows: int
    bytes: int
    sha256: str
    first: tuple[Any, ...]
    last: tuple[Any, ...]
    offsets: tuple[int, int]
    versions: tuple[int, int] | None = None
    rescued: int = 0
    partition: tuple[str, ...] = ()
    hidden: SideFile | None = None
    typed: SideFile | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of its objects."""
        return tuple(self.sizes)

    @property
    def sizes(self) -> dict[str, int]:
        """The stored bytes of each of its objects."""
        own = {} if self.path is None else {self.path: self.bytes}
        return own | {side.path: side.bytes for side in self.sides}

    @property
    def sides(self) -> tuple[SideFile, ...]:
        """The files that go with it."""
        return tuple(side for _, side in self.named_sides)

    @property
    def named_sides(self) -> tuple[tuple[str, SideFile], ...]:
        """The same, each with what it is."""
        both = (("hidden", self.hidden), ("typed", self.typed))
        return tuple((kind, side) for kind, side in both if side is not None)


class RetiredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is no longer listed, since ``at`` by a writer's clock. ``shown``: when a collector first saw it, by
    the storage's."""

    path: str
    bytes: int
    at: str
    shown: str | None = None


class TableRun(msgspec.Struct, frozen=True, kw_only=True, rename={"start": "from", "stop": "to"}):
    """One write: which offsets it took in, and what became of their records. ``checks`` counts rows by check. Of a
    collector's, ``before`` is the storage's time: what is unlisted and not modified since may be deleted."""

    id: str
    at: str
    kind: str
    start: int = 0
    stop: int = 0
    records: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    rescued: int = 0
    checks: dict[str, int] = {}
    before: str | None = None


class EarlierRules(msgspec.Struct, frozen=True, kw_only=True):
    """What the declaration said of the records below ``offset`` that are there: a change counts from then on."""

    offset: int
    checks: list[list[str]]
    null_keys: str


class TableState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one table."""

    format: int = FORMAT
    lake_id: str
    table: str
    id: str
    number: int
    generation: int
    committed: str
    declaration: dict[str, Any]
    earlier: tuple[EarlierRules, ...] = ()
    sources: tuple[TableSource, ...]
    made_from: tuple[MadeFrom, ...] = ()
    activated: Activation | None = None
    activated_before: Activation | None = None
    version: int | None = None
    moment: str | None = None
    columns: tuple[ColumnEntry, ...]
    order: tuple[str, ...]
    key: tuple[str, ...] = ()
    files: tuple[TableFile, ...] = ()
    retired: tuple[RetiredFile, ...] = ()
    runs: tuple[TableRun, ...] = ()
    casts: int = 1
    ids: tuple[FieldId, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_published(self) -> bool:
        """Whether a run has ended: the first one writes a state before it writes any file."""
        return self.generation > 0

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Stored bytes of its files."""
        return sum(file.bytes for file in self.files)

    @property
    def is_of_statement(self) -> bool:
        """Whether a statement made its rows, and no stream."""
        return not self.sources and self.declaration.get("sql") is not None

    @property
    def rows_id(self) -> str:
        """SHA-256 of the ids of its files and of its columns: two states with the same one hold the same rows."""
        return self.rows_id_of(self.files)

    def rows_id_of(self, files: Sequence[TableFile]) -> str:
        """The same of some of its files."""
        return _sum([self.generation, [file.id for file in files], self._words])

    @property
    def columns_id(self) -> str:
        """SHA-256 of its columns."""
        return _sum(self._words)

    @property
    def _words(self) -> list[list[Any]]:
        return [[each.name, each.type] for each in self.columns]

    def knows(self, commit: str) -> bool:
        """Whether the write with that id is part of this state. False also for one that is long past."""
        return commit == self.id or any(run.id == commit for run in self.runs)

    def since(self, commit: str) -> tuple[TableRun, ...] | None:
        """The writes after that one; None where it is long past, or was never part of this state."""
        at = next((at for at, run in enumerate(self.runs) if run.id == commit), None)
        return None if at is None else self.runs[at + 1 :]

    def paths(self) -> set[str]:
        """The paths of all files that it lists."""
        return {path for file in self.files for path in file.paths}


def _sum(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()


def nothing_of(table: str) -> TableState:
    """Stands for a state that cannot be read, until another one replaces it."""
    return TableState(
        lake_id="",
        table=table,
        id="",
        number=0,
        generation=0,
        committed="",
        declaration={},
        sources=(),
        columns=(),
        order=(),
    )


class _Head(msgspec.Struct):
    format: int


def to_json(state: TableState) -> bytes:
    """``_table.json`` as it is stored."""
    return indented(state)


def from_json(body: bytes, *, key: str) -> TableState:
    """A stored state. Raises ``UnsupportedFormatError``, ``CorruptObjectError`` naming ``key``."""
    try:
        head = decode(body, _Head)
        if head.format != FORMAT:
            raise UnsupportedFormatError(
                f"the table has format {head.format}, this version knows {FORMAT}",
                hint="upgrade singerlake",
                key=key,
            )
        return decode(body, TableState)
    except msgspec.DecodeError as error:
        raise CorruptObjectError(
            f"not the state of a table: {error}",
            hint=MEND,
            key=key,
        ) from error


prepare_decoders(
    _Head,
    TableSource,
    UpTo,
    MadeFrom,
    Activation,
    ColumnEntry,
    FieldId,
    SideFile,
    TableFile,
    RetiredFile,
    TableRun,
    EarlierRules,
    TableState,
)
