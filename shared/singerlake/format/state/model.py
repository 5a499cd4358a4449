"""The frozen models of one stream's state: what ``manifest.json`` holds, field by field."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from singerlake.format import FORMAT
from singerlake.format.decoders import prepare_decoders
from singerlake.format.state.append_only import AppendOnlyList, Identified
from singerlake.format.state.attached import Attached

T = TypeVar("T", bound=Identified)
if TYPE_CHECKING:
    AppendOnly = AppendOnlyList[T]
else:
    # What msgspec decodes to, without building a dict for each item; ``__post_init__`` makes an AppendOnlyList of it.
    AppendOnly = Sequence


class NewFile(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A data file as its writer describes it, before the fold gives it an offset.

    ``bytes`` are as stored, ``raw_bytes`` decompressed. ``messages`` counts RECORD and ACTIVATE_VERSION, ``records``
    RECORD only; ``erased`` are the messages that are holes, where records were erased. ``first`` and ``last`` are RFC
    3339 in UTC. ``members`` is ``((start, messages), ...)``: the stored byte at which a gzip member starts and how
    many messages lie in it; empty members are not in it. ``attached`` are the files of its records, in their order.
    """

    id: str
    path: str
    version: str
    messages: int
    records: int
    bytes: int
    raw_bytes: int
    sha256: str
    first: str
    last: str
    members: tuple[tuple[int, int], ...]
    erased: int = 0
    attached: tuple[Attached, ...] = ()


class StreamSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A SCHEMA message's content as the tap sent it; ``schema`` is any JSON."""

    schema: Any
    key_properties: tuple[str, ...] = ()
    bookmark_properties: tuple[str, ...] = ()


CAPTURE = "capture"
"""The kind of a run that brings messages; all others are maintenance."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run against one stream. The counts of a capture are kept by the fold, from the files it really added."""

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

    @property
    def captures(self) -> bool:
        """Whether it brought messages, and was no maintenance."""
        return self.kind == CAPTURE


class DataFile(NewFile, frozen=True, kw_only=True, gc=False):
    """A listed file: its messages have the offsets ``offset`` to ``offset + messages - 1``."""

    offset: int

    @property
    def end(self) -> int:
        """The offset after its last message."""
        return self.offset + self.messages


class SchemaVersion(StreamSchema, frozen=True, kw_only=True):
    """A schema in use: where and when it first appeared in this lineage."""

    first_offset: int
    first_seen: str


class Retired(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A data file that is no longer listed, or the object of attached files that no listed file has. ``by`` is the file
    that replaced it; None where none did. ``shown`` is by when
    ``manifest.json`` was seen to say so, ``deleted`` when it was agreed that the file goes, both on the storage's
    clock."""

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


class Manifest(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """The state of one stream. ``lake_id`` is the lake's that it was written in, None where that was not known.
    ``lineage`` is None only in a state rebuilt in memory by a reader. ``files`` and
    ``retired`` may be given as any sequence; they are kept as ``AppendOnlyList``. ``settled`` is the name of the last
    commit of an atomic run that brought messages. ``prepared`` is what the last transaction prepared: the state is
    *undecided* while it is set, and is never stored then."""

    format: int
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
    files: AppendOnly[DataFile]
    retired: AppendOnly[Retired] = msgspec.field(default_factory=AppendOnlyList)
    runs: tuple[Run, ...] = ()
    closed: str | None = None
    settled: str | msgspec.UnsetType = msgspec.UNSET
    prepared: Prepared | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        for name in ("files", "retired"):
            given = getattr(self, name)
            if not isinstance(given, AppendOnlyList):
                msgspec.structs.force_setattr(self, name, AppendOnlyList(given))

    @property
    def shown(self) -> Manifest:
        """The state as readers see it: without what is prepared and not decided."""
        return self if self.prepared is msgspec.UNSET else msgspec.structs.replace(self, prepared=msgspec.UNSET)

    @property
    def by_id(self) -> Mapping[str, DataFile]:
        """Listed files by identity."""
        return self.files.by_id

    @property
    def retired_by_id(self) -> Mapping[str, Retired]:
        """Retired files by identity."""
        return self.retired.by_id

    @property
    def floor(self) -> int:
        """The first offset that a listed file has, or will have: what was before has expired. In format 1 nothing
        can."""
        if self.format == FORMAT:
            return 0
        return self.files[0].offset if self.files else self.next_offset

    @property
    def erased(self) -> int:
        """How many messages of all listed files are holes."""
        return sum(file.erased for file in self.files)

    def files_from(self, offset: int) -> tuple[DataFile, ...]:
        """Listed files that hold any message at or after ``offset``, in offset order."""
        return self.files[bisect_right(self.files, offset, key=attrgetter("end")) :]

    def place_of(self, file: DataFile) -> int:
        """The index of a listed file. Raises ``ValueError`` where it is not listed."""
        place = bisect_left(self.files, file.offset, key=attrgetter("offset"))
        return place if self.files[place : place + 1] == (file,) else self.files.index(file)


prepare_decoders(NewFile, StreamSchema, Run, DataFile, SchemaVersion, Retired, Prepared, Position, Manifest)
