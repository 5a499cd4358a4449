"""Keeping files of this machine without a tap: a record for each in a stream, with the file attached to it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from singerlake.attached.keep import Keeper
from singerlake.attached.put import CONTENT, RECORDS, SCHEMA, FoundFile, PutFile, Putter, write_data_file
from singerlake.clock import timestamp
from singerlake.errors import NotALakeError, SettingError, SingerlakeError
from singerlake.format.extra_fields import FileHeader
from singerlake.format.file_id import timed_id
from singerlake.format.state.model import Manifest, Run
from singerlake.glance import at_a_glance
from singerlake.singer_file import spool_error
from singerlake.spools import SpoolFolder, Spools
from singerlake.storage.port import Storage
from singerlake.storage.probe import PROBE_PREFIX
from singerlake.stores.place import StreamPlace
from singerlake.stores.writer import StreamWriter, Upload
from singerlake.upkeep.result import Progress
from singerlake.work.parallel import in_parallel


@at_a_glance
@dataclass(frozen=True, slots=True)
class PutResult:
    """The ``records`` that the run with the id ``run`` brought, one a file, and the ``bytes`` of these files; None
    where there was none. ``data_files`` hold the records. ``new_files``, of ``new_bytes``, had content that the lake
    did not have."""

    lake: str
    tap: str
    stream: str
    run: str | None
    records: int
    bytes: int
    data_files: int
    new_files: int
    new_bytes: int


@dataclass
class PutRun:
    """One run, and what it did. ``announce`` gets the state of the stream when all is there."""

    place: StreamPlace
    announce: Callable[[Manifest], object]
    threads: int
    id: str = ""
    records: int = 0
    bytes: int = 0
    data_files: int = 0
    new_files: int = 0
    new_bytes: int = 0
    _status: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.id = self.place.ids()
        self._started = self.place.clock.now()

    @property
    def writer_id(self) -> str:
        return f"{socket.gethostname()}-{os.getpid()}-{self.id}"

    def run(self, found: Sequence[FoundFile], writer: StreamWriter, folder: Path, bar: Progress) -> None:
        """Keep all of ``found``. Raises what storage, writer and files raise."""
        manifest = writer.open()
        version = writer.version_of(SCHEMA)
        if manifest.versions and version not in manifest.versions:
            raise SettingError(
                "this stream holds records of another kind",
                hint="name another stream",
                tap=self.place.tap,
                stream=self.place.stream,
            )
        keeper = Keeper(self.place.storage, self.place.clock)
        putter = Putter(keeper, self.place.tap, self.place.stream, folder, self.place.ids)
        try:
            left = len(found)
            for part in _parts(found, RECORDS):
                left -= len(part)
                kept = list(self._kept(putter, part, manifest, bar))
                manifest = self._commit(writer, folder, version, kept, "running" if left else "finished")
        except BaseException as error:
            if self._status == "running":
                with suppress(SingerlakeError):
                    self._record(writer, "failed" if isinstance(error, Exception) else "stopped")
            raise
        writer.finish()
        self.announce(manifest)

    def _kept(self, putter: Putter, part: Sequence[FoundFile], manifest: Manifest, bar: Progress) -> Iterator[PutFile]:
        for kept in in_parallel(lambda file: putter.put(file, lambda: manifest), part, threads=self.threads):
            bar.advance(kept.bytes)
            yield kept

    def _commit(
        self, writer: StreamWriter, folder: Path, version: str, kept: Sequence[PutFile], status: str
    ) -> Manifest:
        self.data_files += 1
        now = self.place.clock.now()
        header = FileHeader(
            id=timed_id(now, self.place.ids()),
            created=timestamp(now),
            run=self.id,
            seq=self.data_files,
            lake_id=writer.lake_id,
        )
        path = folder / header.id
        file = write_data_file(path, self.place.stream, version, header, kept)
        manifest = writer.settled(writer.submit([Upload(path, file, CONTENT)], self._run(status)))
        path.unlink(missing_ok=True)
        self._status = status
        self.records += len(kept)
        self.bytes += sum(each.bytes for each in kept)
        self.new_files += sum(each.new for each in kept)
        self.new_bytes += sum(each.bytes for each in kept if each.new)
        return manifest

    def _record(self, writer: StreamWriter, status: str) -> None:
        """Have the stream's log say how the run ended."""
        manifest = writer.settled(writer.record(self._run(status)))
        writer.finish()
        self.announce(manifest)

    def _run(self, status: str) -> Run:
        now = timestamp(self.place.clock.now())
        return Run(id=self.id, writer=self.writer_id, started=timestamp(self._started), updated=now, status=status)

    def result(self) -> PutResult:
        place = self.place
        return PutResult(
            lake=place.storage.url,
            tap=place.tap,
            stream=place.stream,
            run=self.id if self.records else None,
            records=self.records,
            bytes=self.bytes,
            data_files=self.data_files,
            new_files=self.new_files,
            new_bytes=self.new_bytes,
        )


def folder_of(storage: Storage) -> str | None:
    """The folder of a lake on this machine."""
    return None if "://" in storage.url else storage.url


def require_nothing(storage: Storage) -> None:
    """Raise ``NotALakeError`` where something is, which is not a lake: a typing mistake must not begin one there."""
    there, folder = storage.list_folder(""), folder_of(storage)
    # A run that failed may have left the objects of its probe, and nothing else.
    others = set(there.folders) - {PROBE_PREFIX}
    if there.entries or others or (folder is not None and os.path.isfile(folder)):
        raise NotALakeError(
            "something else than a lake is there",
            hint="name a lake, or a place where nothing is yet",
            lake_root=storage.url,
        )


def spool_in(parent: str | None) -> SpoolFolder:
    """A folder for copies of files, in ``parent`` or in that of this machine. Raises what the disk makes of it."""
    try:
        return Spools(parent).make()
    except OSError as error:
        raise spool_error(error, Path(parent or "", "spool")) from error


def _parts(found: Sequence[FoundFile], most: int) -> Iterator[list[FoundFile]]:
    rest = iter(found)
    while part := list(islice(rest, most)):
        yield part
