"""The frozen models of one stream's state: what ``manifest.json`` holds, field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from singerlake.format.decoders import prepare_decoders
from singerlake.format.state import features
from singerlake.format.state.append_only import AppendOnlyList, Identified
from singerlake.format.state.files.data_file import DataFile, NewFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.files.segment import Segment
from singerlake.glance import code

T = TypeVar("T", bound=Identified)
if TYPE_CHECKING:
    AppendOnly = AppendOnlyList[T]
    Files = FileList
else:
    # What msgspec decodes to, without building a dict for each item; ``__post_init__`` makes of it what it shall be.
    AppendOnly = Sequence
    Files = Sequence[DataFile]


class StreamSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A SCHEMA message's content as the tap sent it; ``schema`` is any JSON."""

    schema: Any
    key_properties: tuple[str, ...] = ()
    bookmark_properties: tuple[str, ...] = ()


CAPTURE = "capture"
"""The kind of a run that brings messages; all others are maintenance."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run against one stream: section 5.2 of ``shared/docs/format``. The fold counts a capture from the files it
    added."""

    id: str
    writer: str
    started: str
    updated: str = ""
    status: str = "running"
    files: int = 0
    messages: int = 0
    records: int = 0
    bytes: int = 0
    kind: str = CAPTURE
    table_version: int | msgspec.UnsetType = msgspec.UNSET
    activated: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def captures(self) -> bool:
        """Whether it brought messages, and was not maintenance."""
        return self.kind == CAPTURE


class SchemaVersion(StreamSchema, frozen=True, kw_only=True):
    """A schema in use: one of the ``schemas`` of section 5 of ``shared/docs/format``, ``newest`` as of 5.4."""

    first_offset: int
    first_seen: str
    newest: bool | msgspec.UnsetType = msgspec.UNSET


class Retired(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of the ``retired`` of section 5 of ``shared/docs/format``; times are on the storage's clock."""

    id: str
    path: str
    by: str | None
    since: str
    shown: str | None = None
    deleted: str | None = None


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """What an atomic run adds to the stream once its commit ``commit`` is decided."""

    commit: str
    files: tuple[NewFile, ...]
    schemas: dict[str, StreamSchema]
    run: Run | None = None


class Position(msgspec.Struct, frozen=True):
    """Which transaction made this state; ``number`` never restarts."""

    number: int
    id: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one stream: section 5 of ``shared/docs/format``. ``lineage`` is None only in a state that a reader
    rebuilt in memory. ``files`` and ``retired`` may be given as any sequence. ``features`` and ``segments`` are set in
    what is stored alone, where ``files`` are those behind the segments. A state with ``prepared`` is *undecided*, and
    never stored."""

    format: int
    features: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    tap: str
    stream: str
    store: str
    lake_id: str | None = None
    lineage: str | None
    created: str
    transaction: Position
    next_offset: int
    versions: dict[str, str]
    schemas: dict[str, SchemaVersion]
    segments: tuple[Segment, ...] | msgspec.UnsetType = msgspec.UNSET
    files: Files
    retired: AppendOnly[Retired] = msgspec.field(default_factory=AppendOnlyList)
    runs: tuple[Run, ...] = ()
    closed: str | None = None
    settled: str | msgspec.UnsetType = msgspec.UNSET
    prepared: Prepared | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if not isinstance(self.files, FileList):
            parts = () if self.segments is msgspec.UNSET else self.segments
            msgspec.structs.force_setattr(self, "files", FileList(self.files, parts=parts))
            features.check(self.format, self.features or ())
            msgspec.structs.force_setattr(self, "segments", msgspec.UNSET)
            msgspec.structs.force_setattr(self, "features", msgspec.UNSET)
        if not isinstance(self.retired, AppendOnlyList):
            msgspec.structs.force_setattr(self, "retired", AppendOnlyList(self.retired))

    def __repr__(self) -> str:
        return (
            f"Manifest({self.tap!r}, {self.stream!r}, transaction={self.transaction.number}, "
            f"next_offset={self.next_offset}, files=<{len(self.files):,}>, versions=<{len(self.versions):,}>)"
        )

    def _repr_html_(self) -> str:
        return code(repr(self))

    @property
    def shown(self) -> Manifest:
        """The state as readers see it: without what is prepared and not decided."""
        return self if self.prepared is msgspec.UNSET else msgspec.structs.replace(self, prepared=msgspec.UNSET)

    @property
    def is_dropped(self) -> bool:
        """Whether it has neither a version nor a file: it was dropped, or its first run has committed nothing yet. Such
        a stream does not count."""
        return not self.versions and not len(self.files)

    @property
    def by_id(self) -> Mapping[str, DataFile]:
        return self.files.by_id

    @property
    def retired_by_id(self) -> Mapping[str, Retired]:
        return self.retired.by_id

    @property
    def floor(self) -> int:
        """The first offset that a listed file has, or will have: what was before has expired."""
        begin = self.files.begin
        return self.next_offset if begin is None else begin

    def files_from(self, offset: int, stop: int | None = None) -> FileList:
        """Listed files that hold any message at or after ``offset``, and begin before ``stop``, in offset order."""
        return self.files.touching(offset, stop)

    def place_of(self, file: DataFile) -> int:
        """The index of a listed file. Raises ``ValueError`` where it is not listed."""
        place = self.files.index_behind(file.offset)
        return place if self.files[place : place + 1] == (file,) else self.files.index(file)


prepare_decoders(StreamSchema, Run, SchemaVersion, Retired, Prepared, Position, Manifest)
