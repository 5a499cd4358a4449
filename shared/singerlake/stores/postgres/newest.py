"""The newest state in PostgreSQL: of few files from rows, of many from ``manifest.json`` and what came after it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from singerlake.errors import CorruptObjectError, LostStateError
from singerlake.format import layout
from singerlake.format.state.additions import Conflict
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList, Part, Run, touching
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest
from singerlake.stores.numbered import Record
from singerlake.stores.place import StreamPlace
from singerlake.stores.postgres.connection import Connection
from singerlake.stores.postgres.read import (
    StreamHead,
    has_more_files,
    read_files,
    read_files_between,
    read_head,
    read_retired,
    read_row,
    read_tail,
)
from singerlake.stores.postgres.session import Session
from singerlake.stores.segments.objects import SegmentObjects, checksum, to_text
from singerlake.stores.segments.on_disk import LocalSegments
from singerlake.stores.segments.stored import read_manifest, sizes_of

_MOST_BEHIND = 20_000
"""Transactions that are read after ``manifest.json``; of more, as behind a backup, rows take less memory."""

logger = logging.getLogger(__name__)


class NewestState:
    """Reads the state of one stream. Raises what storage and ``Session.read`` raise, and errors of the format."""

    def __init__(self, session: Session, place: StreamPlace, table_id: str, segments: SegmentObjects) -> None:
        self._session = session
        self._storage = place.storage
        self._key = layout.manifest_key(place.tap, place.stream)
        self._table_id = table_id
        self._segments = RowSegments(session, table_id, segments)

    def read(self) -> Manifest | None:
        """The newest state, all of it from one moment; None: no such stream."""

        def few(connection: Connection) -> tuple[bool, Manifest | None]:
            if has_more_files(connection, self._table_id, sizes_of().whole):
                return False, None
            return True, self.of_rows(connection)

        whole, manifest = self._session.read(few)
        if whole:
            return manifest
        shown = self._shown()
        return (shown and self._after(shown)) or self._session.read(self.of_rows)

    def of_rows(self, connection: Connection) -> Manifest | None:
        """The state that the rows have; None: no such stream."""
        state = read_row(connection, self._table_id)
        if state is None:
            return None
        return msgspec.structs.replace(
            state,
            files=list_of_rows(connection, self._table_id),
            retired=AppendOnlyList(read_retired(connection, self._table_id)),
        )

    def _shown(self) -> Manifest | None:
        """What is published, where it can be read."""
        stored = self._storage.get(self._key)
        try:
            return read_manifest(stored.body, key=self._key, storage=self._storage) if stored else None
        except CorruptObjectError:
            return None

    def _after(self, shown: Manifest) -> Manifest | None:
        """``shown`` with the transactions after it; None where that is not surely what the rows have."""
        begun = msgspec.structs.replace(shown, files=shown.files.with_source(self._segments))
        try:
            after = self._session.read(lambda connection: self._read_after(connection, begun))
            # Behind the end of that transaction: this may read storage for longer than a server lets one idle.
            state = None if after is None else folded(begun, after.tail, after.head)
        except CorruptObjectError:
            return None
        except LostStateError:
            # Whether an older backup of the database was restored is for the writer to say.
            return None
        same = after and state and all(getattr(state, field) == getattr(after.row, field) for field in _IN_ROW)
        return state if same else None

    def _read_after(self, connection: Connection, shown: Manifest) -> _After | None:
        """What the tables have to be held against ``shown``; None where it is of another state's past, or too old."""
        head = read_head(connection, self._table_id)
        row = read_row(connection, self._table_id)
        if head is None or row is None or _names(shown) != _names(row):
            return None
        if head.number - shown.transaction.number > _MOST_BEHIND:
            return None
        tail = read_tail(connection, self._table_id, shown, head)
        return None if tail is None else _After(head, row, tail)


@dataclass(frozen=True, slots=True)
class _After:
    head: StreamHead
    row: Manifest
    tail: list[Record]


_IN_ROW = ("lineage", "created", "transaction", "versions", "schemas", "runs")
"""What both have, beside what ``checked`` looks at."""


def folded(base: Manifest, tail: Sequence[Record], head: StreamHead) -> Manifest:
    """``base`` with the transactions after it, up to ``head``. Raises ``CorruptObjectError``."""
    state = base
    for record in tail:
        after = apply(state, record.transaction)
        if isinstance(after, Conflict):
            raise corrupt(base, f"transaction {record.number} does not fit the state before it: {after.reason}")
        state = after
    return checked(state, head)


def checked(state: Manifest, head: StreamHead) -> Manifest:
    """``state``, where the stream's row says the same of it. Raises ``CorruptObjectError``."""
    if (state.next_offset, state.closed, state.settled) != (head.next_offset, head.closed, head.settled):
        raise corrupt(state, f"the stream's row does not fit transaction {head.number}")
    return state


def corrupt(state: Manifest, what: str) -> CorruptObjectError:
    """What is wrong with the tables of a stream, of which ``state`` is one state."""
    return CorruptObjectError(
        what,
        hint="restore the database, or run 'singerlake rebuild'; nothing was changed",
        tap=state.tap,
        stream=state.stream,
        store=state.store,
    )


def _names(state: Manifest) -> tuple[str, str, str, str | None]:
    return state.tap, state.stream, state.store, state.lineage


def list_of_rows(connection: Connection, table_id: str) -> FileList:
    """All listed files, read once, many in segments on disk. Raises as ``read_files`` and ``ScratchDatabase``."""
    sizes = sizes_of()
    local = LocalSegments(FileList(), "the files that a state lists")
    parts: list[Part] = []
    tail: list[DataFile] = []
    for page in read_files(connection, table_id):
        tail += page
        while len(tail) >= sizes.segment and (parts or len(tail) > sizes.whole):
            parts.append(local.write(tail[: sizes.segment]))
            del tail[: sizes.segment]
    return FileList(tail, parts=parts, source=local)


class RowSegments:
    """The ``SegmentSource`` of one stream: rows, if they are the same, stand for a segment that is lost on storage."""

    def __init__(self, session: Session, table_id: str, objects: SegmentObjects) -> None:
        self._session = session
        self._table_id = table_id
        self._objects = objects
        self.lost: set[str] = set()
        """Names of the segments that the rows stood for."""

    def load(self, segment: Segment) -> Run:
        """The files of a segment. Raises ``CorruptObjectError`` where neither storage nor the rows have it."""
        return next(self.load_each((segment,)))

    def touching(self, segment: Segment, start: int, stop: int) -> Run:
        """Its files that hold any offset from ``start`` up to ``stop``. Raises as ``load``."""
        return touching(self.load(segment), start, stop)

    def load_each(self, segments: Sequence[Segment], *, stored: bool = False) -> Iterator[Run]:
        """The files of each in turn, ``stored`` as in ``SegmentSource``: the rows are the state. Raises as ``load``."""
        at = 0
        while at < len(segments):
            try:
                for run in self._objects.load_each(segments[at:], stored=stored):
                    yield run
                    at += 1
            except CorruptObjectError as error:
                yield self._instead(segments[at], error)
                at += 1

    def _instead(self, segment: Segment, problem: CorruptObjectError) -> Run:
        place = (self._table_id, segment.offset, segment.end)
        files = self._session.read(lambda connection: read_files_between(connection, *place))
        if not files or checksum(to_text(files)) != segment.sha256:
            raise problem
        self.lost.add(segment.name)
        logger.warning("%s; the database has its files", problem.message)
        return AppendOnlyList(files)
