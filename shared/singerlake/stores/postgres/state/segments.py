"""The segments of a stream in PostgreSQL, whose rows have every listed file, too."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from singerlake.errors import CorruptObjectError
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList, Part, Run, touching
from singerlake.format.state.files.segment import Segment
from singerlake.stores.postgres.session import Session
from singerlake.stores.postgres.state.read import read_files, read_files_between
from singerlake.stores.segments.objects import SegmentObjects, checksum, to_text
from singerlake.stores.segments.on_disk import LocalSegments
from singerlake.stores.segments.stored import sizes_of

if TYPE_CHECKING:
    from singerlake.stores.postgres.connection import Connection

logger = logging.getLogger(__name__)


def list_of_rows(connection: Connection, table_id: str) -> FileList:
    """All listed files, read once. Many are kept in segments on this machine's disk. Raises what ``read_files`` and
    ``ScratchDatabase`` raise."""
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
    """The ``SegmentSource`` of one stream. Segments are read from storage; one that is gone or damaged there is read
    from the rows. Rows that have changed since are never taken for it."""

    def __init__(self, session: Session, table_id: str, objects: SegmentObjects) -> None:
        self._session = session
        self._table_id = table_id
        self._objects = objects
        self.lost: set[str] = set()
        """Names of the segments that the rows stood for."""

    def load(self, segment: Segment) -> Run:
        """The files of a segment. Raises ``CorruptObjectError`` where neither storage nor the rows have it, and what
        both raise."""
        return next(self.load_each((segment,)))

    def touching(self, segment: Segment, start: int, stop: int) -> Run:
        """Its files that hold any offset from ``start`` up to ``stop``. Raises as ``load``."""
        return touching(self.load(segment), start, stop)

    def load_each(self, segments: Sequence[Segment], *, stored: bool = False) -> Iterator[Run]:
        """The files of each in turn. ``stored`` is as in ``SegmentSource``; the rows stand for nothing else, they are
        the state. Raises as ``load``."""
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
