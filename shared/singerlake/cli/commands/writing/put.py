"""``singerlake put``: keeps files without a tap."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import click

from singerlake.attached.keep import Keeper
from singerlake.attached.put import CONTENT, RECORDS, SCHEMA, FoundFile, PutFile, Putter, find_files, write_data_file
from singerlake.cli.options import json_option, quiet_option, settings_in, variable, with_settings
from singerlake.cli.output import counted, progress, say, say_json, shown, size
from singerlake.clock import timestamp
from singerlake.errors import NotALakeError, SettingError, SingerlakeError
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader
from singerlake.format.file_id import timed_id
from singerlake.format.state.model import Manifest, Run
from singerlake.lake import Lake
from singerlake.settings import storage_settings, store_settings
from singerlake.singer_file import spool_error
from singerlake.spools import SpoolFolder, Spools
from singerlake.storage.probe import PROBE_PREFIX
from singerlake.storage.roots import FolderRoot, parse_root
from singerlake.stores.writer import StreamWriter, Upload
from singerlake.upkeep.result import Progress, reporting
from singerlake.work.parallel import THREADS, in_parallel


@click.command(short_help="Keep files without a tap: a record for each, and its bytes.")
@partial(with_settings, stores=True)
@click.argument("given", metavar="[LAKE] FILES...", nargs=-1)
@click.option("--tap", metavar="TAP", required=True, help="The tap id under which the lake keeps the stream.")
@click.option("--stream", metavar="STREAM", required=True, help="The stream that gets the records.")
@click.option("--recursive", is_flag=True, help="Take folders, too: all files below them.")
@click.option("--spool-dir", metavar="FOLDER", help="Where copies of files above 4 MB lie until they are uploaded.")
@click.option("--threads", type=click.IntRange(1, 64), default=THREADS, show_default=True, help="Files put at once.")
@json_option
@quiet_option
def put(
    given: tuple[str, ...],
    tap: str,
    stream: str,
    recursive: bool,
    spool_dir: str | None,
    threads: int,
    as_json: bool,
    **settings: Any,
) -> None:
    """Keep files of this machine: a record for each in a stream, with the file attached to it.

    A record has the file's name, bytes, sha256, media_type and modified, in the order in which the files are named. A
    file in a folder is called by its path below it. The same content is kept once, and has a record each time. Nothing
    is written if one of FILES is not there, is no regular file, or has a name that is not UTF-8. Up to 10,000 records
    are committed at once; what was committed before an error stays. LAKE is made if nothing is there. Where
    $SINGERLAKE_LAKE_ROOT is set, LAKE can be left out.
    """
    root, files = _lake_and_files(given)
    config = settings_in(settings)
    lake = Lake.open(root, storage_settings(config), store_settings(config))
    parsed = parse_root(root)
    folder_root = str(parsed.path) if isinstance(parsed, FolderRoot) else None
    found = find_files(files, recursive=recursive, lake=folder_root)
    there = lake.stream(tap, stream)
    _require_lake_or_nothing(lake, folder_root)
    job = _Job(lake, tap, stream, threads)
    if found:
        with _spool(spool_dir) as folder, progress() as report:
            bar = reporting(report, f"{tap}/{stream}")
            bar.sized(sum(file.size for file in found))
            try:
                job.run(found, there.writer(writer_id=job.writer_id), folder, bar)
            except SingerlakeError as error:
                error.rename("spool_dir", "--spool-dir")
                raise
    if as_json:
        say_json(job.as_json())
    else:
        say(job.told())


@dataclass
class _Job:
    """One run, and what it did."""

    lake: Lake
    tap: str
    stream: str
    threads: int
    id: str = ""
    records: int = 0
    bytes: int = 0
    data_files: int = 0
    new_files: int = 0
    new_bytes: int = 0
    _status: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.id = self.lake.ids()
        self._started = self.lake.clock.now()

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
                hint="name another --stream",
                tap=self.tap,
                stream=self.stream,
            )
        keeper = Keeper(self.lake.storage, self.lake.clock)
        putter = Putter(keeper, self.tap, self.stream, folder, self.lake.ids)
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
        self.lake.announce(manifest)

    def _kept(self, putter: Putter, part: Sequence[FoundFile], manifest: Manifest, bar: Progress) -> Iterator[PutFile]:
        for kept in in_parallel(lambda file: putter.put(file, lambda: manifest), part, threads=self.threads):
            bar.advance(kept.bytes)
            yield kept

    def _commit(
        self, writer: StreamWriter, folder: Path, version: str, kept: Sequence[PutFile], status: str
    ) -> Manifest:
        self.data_files += 1
        now = self.lake.clock.now()
        header = FileHeader(
            id=timed_id(now, self.lake.ids()),
            created=timestamp(now),
            run=self.id,
            seq=self.data_files,
            lake_id=writer.lake_id,
        )
        path = folder / header.id
        file = write_data_file(path, self.stream, version, header, kept)
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
        self.lake.announce(manifest)

    def _run(self, status: str) -> Run:
        now = timestamp(self.lake.clock.now())
        return Run(id=self.id, writer=self.writer_id, started=timestamp(self._started), updated=now, status=status)

    def told(self) -> str:
        """What the run did, on one line."""
        name = f"{shown(self.tap)}/{shown(self.stream)}"
        if not self.records:
            return f"{name}: nothing to put"
        known = self.records - self.new_files
        were = f"; {known:,} there already" if known else ""
        return f"{name}: {counted(self.records, 'file')} put, {size(self.bytes)}{were}"

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "lake": self.lake.storage.url,
            "tap": self.tap,
            "stream": self.stream,
            "run": self.id if self.records else None,
            "records": self.records,
            "bytes": self.bytes,
            "data_files": self.data_files,
            "new_files": self.new_files,
            "new_bytes": self.new_bytes,
        }


def _lake_and_files(given: Sequence[str]) -> tuple[str, Sequence[str]]:
    """LAKE and FILES. With the variable set, the first argument is LAKE only where no file can be meant: a URL, or a
    folder that is a lake. That one has a folder ``raw`` does not make it one: cameras make such folders, too."""
    root = os.environ.get(variable("lake_root"))
    if root and given and not ("://" in given[0] or os.path.isfile(os.path.join(given[0], layout.root_metadata_key()))):
        return root, given
    if len(given) < 2:
        raise click.UsageError(f"give FILES, behind LAKE where ${variable('lake_root')} is not set")
    return given[0], given[1:]


def _require_lake_or_nothing(lake: Lake, folder: str | None) -> None:
    """Raise ``NotALakeError`` where something else than a lake is: a typing mistake must not begin one there."""
    if lake.exists():
        return
    there = lake.storage.list_folder("")
    # A run that failed may have left the objects of its probe, and nothing else.
    others = set(there.folders) - {PROBE_PREFIX}
    if there.entries or others or (folder is not None and os.path.isfile(folder)):
        raise NotALakeError(
            "something else than a lake is there",
            hint="name a lake, or a place where nothing is yet",
            lake_root=lake.storage.url,
        )


def _parts(found: Sequence[FoundFile], most: int) -> Iterator[list[FoundFile]]:
    rest = iter(found)
    while part := list(islice(rest, most)):
        yield part


def _spool(parent: str | None) -> SpoolFolder:
    try:
        return Spools(parent).make()
    except OSError as error:
        failed = spool_error(error, Path(parent or "", "spool"))
        failed.rename("spool_dir", "--spool-dir")
        raise failed from error
