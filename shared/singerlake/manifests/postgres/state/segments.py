"""The segments of a stream in PostgreSQL, whose rows have every listed file, too."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from singerlake.errors import CorruptObjectError
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList, Part, Run, touching
from singerlake.format.state.files.segment import Segment, describe
from singerlake.manifests.postgres.session import Session
from singerlake.manifests.postgres.state.read import read_files, read_files_between
from singerlake.manifests.segments.objects import SegmentObjects, checksum, to_text
from singerlake.manifests.segments.stored import sizes_of

if TYPE_CHECKING:
    from singerlake.manifests.postgres.connection import Connection

logger = logging.getLogger(__name__)

_ROWS = ""
"""The name of what is no object: its files are in rows alone."""


class RowSegments:
    """The ``SegmentSource`` of one stream. Segments are read from storage. One that is gone or damaged there is read
    from the rows, and so is one that is in rows alone. Rows that have changed since are never taken for it."""

    def __init__(self, session: Session, table_id: str, objects: SegmentObjects) -> None:
        self._session = session
        self._table_id = table_id
        self._objects = objects

    def list_of(self, connection: Connection) -> FileList:
        """All listed files, read once. Of many, none is held: they are segments in rows alone. Raises what
        ``read_files`` raises."""
        sizes = sizes_of(None)
        parts: list[Part] = []
        tail: list[DataFile] = []
        for page in read_files(connection, self._table_id):
            tail += page
            while len(tail) >= sizes.segment and (parts or len(tail) > sizes.whole):
                parts.append(_in_rows(tail[: sizes.segment]))
                del tail[: sizes.segment]
        return FileList(tail, parts=parts, source=self)

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
            if segments[at].name == _ROWS:
                yield self._of_rows(segments[at])
                at += 1
                continue
            stop = next((place for place in range(at, len(segments)) if segments[place].name == _ROWS), len(segments))
            try:
                for run in self._objects.load_each(segments[at:stop], stored=stored):
                    yield run
                    at += 1
            except CorruptObjectError as error:
                yield self._instead(segments[at], error)
                at += 1

    def _instead(self, segment: Segment, problem: CorruptObjectError) -> Run:
        files = self._read(segment)
        if files is None:
            raise problem
        logger.warning("%s; the database has its files", problem.message)
        return files

    def _of_rows(self, segment: Segment) -> Run:
        files = self._read(segment)
        if files is None:
            raise CorruptObjectError(
                "the listed files changed while they were read from the database",
                hint="run again; nothing was changed",
                stream=self._table_id,
            )
        return files

    def _read(self, segment: Segment) -> Run | None:
        """What the rows have in the place of a segment, where it is the same."""
        place = (self._table_id, segment.offset, segment.end)
        files = self._session.read(lambda connection: read_files_between(connection, *place))
        return AppendOnlyList(files) if files and checksum(to_text(files)) == segment.sha256 else None


def _in_rows(files: Sequence[DataFile]) -> Segment:
    return describe(files, name=_ROWS, sha256=checksum(to_text(files)))
