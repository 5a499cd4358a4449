"""One task's data files: lines wait until they make a member, members make files, a full file is uploaded at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from singerlake.clock import IdSource, timestamp
from singerlake.format.extra_fields import FileHeader
from singerlake.format.file_id import timed_id
from singerlake.format.layout import file_path, stream_prefix
from singerlake.format.state.files.data_file import NewFile
from singerlake.singer_file import MEMBER_BYTES, Spool, compress_member, spool_error
from singerlake.storage.port import Storage

_TASK_FILES = 1 << 32
"""More files than one task ever writes, so that the numbers of tasks' files follow the order of the tasks."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all files of one write have in common: the stream, its schema's ``version`` (the hash) and SCHEMA line,
    the run, and the moment that counts as every record's extraction. Limits as in ``WriteOptions``."""

    tap: str
    stream: str
    version: str
    schema_line: bytes
    run: str
    moment: datetime
    compression_level: int
    max_file_bytes: int
    max_file_records: int
    lake_id: str | None = None


class TaskFiles:
    """The files of one attempt at one task, in the order of its rows. They are on storage, and listed nowhere, when
    ``close`` gives them. ``folder`` holds at most one of them at a time."""

    def __init__(self, storage: Storage, job: Job, folder: Path, task: int, *, ids: IdSource) -> None:
        self._storage = storage
        self._job = job
        self._folder = folder
        self._ids = ids
        self._sequence = task * _TASK_FILES
        self._prefix = stream_prefix(job.tap, job.stream)
        self._member_bytes = min(MEMBER_BYTES, job.max_file_bytes or MEMBER_BYTES)
        self._parts: list[bytes] = []
        self._size = 0
        self._records = 0
        self._spool: Spool | None = None
        self._uploaded: list[NewFile] = []

    @property
    def room(self) -> int | None:
        """Records that the file which grows may still take; None: no limit."""
        limit = self._job.max_file_records
        return limit - self._records - (self._spool.records if self._spool else 0) if limit else None

    def add(self, lines: bytes, records: int) -> None:
        """Whole RECORD lines, no more than ``room``. Raises what storage raises, ``StorageFullError``,
        ``AccessDeniedError`` and ``StorageUnavailableError`` of the spool."""
        self._parts.append(lines)
        self._size += len(lines)
        self._records += records
        if self._size >= self._member_bytes:
            self._close_member()
        if self.room == 0 or (self._spool and 0 < self._job.max_file_bytes <= self._spool.bytes):
            self._close_file()

    def close(self) -> tuple[NewFile, ...]:
        """All files of the task. Raises as ``add``."""
        self._close_file()
        return tuple(self._uploaded)

    def _close_member(self) -> None:
        if not self._records:
            return
        raw = b"".join(self._parts)
        member = compress_member(raw, self._job.compression_level)
        spool = self._spool or self._open_file()
        try:
            spool.append(member, raw_bytes=len(raw), messages=self._records, records=self._records)
        except OSError as error:
            raise spool_error(error, spool.path) from error
        self._parts, self._size, self._records = [], 0, 0

    def _open_file(self) -> Spool:
        self._sequence += 1
        job = self._job
        header = FileHeader(
            id=timed_id(job.moment, self._ids()),
            created=timestamp(job.moment),
            run=job.run,
            seq=self._sequence,
            lake_id=job.lake_id,
        )
        path = self._folder / header.id
        try:
            self._spool = Spool(path, job.schema_line, header, level=job.compression_level)
        except OSError as error:
            raise spool_error(error, path) from error
        return self._spool

    def _close_file(self) -> None:
        self._close_member()
        spool, job = self._spool, self._job
        if spool is None:
            return
        when = timestamp(job.moment)
        path = file_path(job.stream, job.version, job.moment, job.moment, spool.header.id)
        self._storage.upload(self._prefix + path, spool.path)
        self._uploaded.append(spool.describe(path=path, version=job.version, first=when, last=when))
        spool.path.unlink(missing_ok=True)
        self._spool = None
