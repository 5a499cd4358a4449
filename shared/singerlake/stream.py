"""One stream of the lake: an ordered log of messages in files."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from singerlake.adapters import DEFAULT_STORE, MANIFEST_STORES, by_queue, open_store
from singerlake.attached.read import attached_from, open_attached
from singerlake.clock import timestamp
from singerlake.errors import (
    LineageChangedError,
    LostBookmarkError,
    LostStateError,
    MissingFileError,
    SettingError,
    expected_errors,
)
from singerlake.format import layout
from singerlake.format.extra_fields import Provenance, read_provenance
from singerlake.format.state import fold
from singerlake.format.state.attached import Attached
from singerlake.format.state.bookmark import Bookmark, resume
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.model import Manifest
from singerlake.format.state.selection import Slice, offset_left, slices
from singerlake.glance import code
from singerlake.lock_file import LockSettings
from singerlake.newest import StateReader, kind_of
from singerlake.reading import read_slice
from singerlake.singer_file import Block
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import ManifestStore
from singerlake.stores.writer import StreamWriter
from singerlake.upkeep.caches import use_manifest_store
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.rebuild.rebuild import rebuild_manifest
from singerlake.upkeep.result import check_least, check_now
from singerlake.work.parallel import THREADS

if TYPE_CHECKING:
    import threading

    import pyarrow as pa

    from singerlake.conditions import Condition
    from singerlake.lake import Lake
    from singerlake.stores.queued.settings import QueueSettings
    from singerlake.upkeep.erase.erase import EraseResult
    from singerlake.upkeep.gc.expire import ExpireResult
    from singerlake.upkeep.put import PutResult
    from singerlake.upkeep.reports.schema_diff import DiffResult
    from singerlake.upkeep.result import Report
    from singerlake.work.engine import Engine

logger = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class LakeStream:
    """One stream of one tap: an ordered log of messages in files."""

    lake: Lake
    tap: str
    name: str

    def __post_init__(self) -> None:
        layout.stream_prefix(self.tap, self.name)

    def __repr__(self) -> str:
        return f"LakeStream({self.lake.storage.url!r}, {self.tap!r}, {self.name!r})"

    def _repr_html_(self) -> str:
        return code(repr(self))

    @property
    def prefix(self) -> str:
        """The key prefix that paths in the manifest are relative to; ends in ``/``."""
        return layout.stream_prefix(self.tap, self.name)

    def snapshot(self) -> Manifest:
        """The stream's state as it is now. Where it is missing but files are there, one is rebuilt in memory, which a
        warning says; its lineage is None. Raises ``UnknownNameError`` listing what there is where the stream is not
        there, ``CorruptObjectError``, ``UnsupportedFormatError``, ``ForeignManifestError``."""
        state = self.state()
        if state is not None:
            return state
        self.lake.existing_stream(self.tap, self.name)
        key = layout.manifest_key(self.tap, self.name)
        logger.warning("no manifest at %s: reading the data files instead; 'singerlake rebuild' writes it again", key)
        return self.rebuilt(lineage=None)

    def state(self) -> Manifest | None:
        """The newest state that the lake itself holds: ``manifest.json``, and in the stores that keep their log on the
        lake what came after it; in ``dynamodb`` with the setting ``dynamodb_query_items`` what the table has after it.
        None where there is none. Raises as ``snapshot``, but for ``UnknownNameError``."""
        return self.state_reader().once()

    def state_reader(self) -> StateReader:
        """Reads the newest state again and again, and goes on each time from the state that it read last."""
        return StateReader(self._place, self.lake.stores, self.store, self.kind, lambda: self.rebuilt(lineage=None))

    def kind(self) -> str | None:
        """The manifest store that keeps this stream, readable or not; None where it has no state on the lake."""
        return kind_of(self.lake.storage, self.tap, self.name, self.lake.root_metadata)

    def rebuilt(self, *, lineage: str | None, store: str = DEFAULT_STORE) -> Manifest:
        """A manifest from the data files alone. Raises ``LostStateError`` where such a manifest would lack messages
        that nobody erased, since the files that have them also have erased ones."""
        birth = fold.empty(
            tap=self.tap,
            stream=self.name,
            store=store,
            lake_id=self.lake._root.seen_id() if lineage else None,
            lineage=lineage,
            created=timestamp(self.lake.clock.now()),
            transaction_id=self.lake.ids(),
        )
        made = rebuild_manifest(self.lake.storage, birth)
        if made.torn:
            raise LostStateError(
                "the stream has data files and no state, and some files have erased messages beside others that "
                "no other file has",
                hint="run 'singerlake rebuild', which writes those files again without the erased messages",
                tap=self.tap,
                stream=self.name,
            )
        return made.manifest

    def read(self, part: Slice) -> Iterator[Block]:
        """The messages of one slice in blocks of whole lines, without holes; a slice that begins or ends inside a
        member does so exactly there. Raises ``MissingFileError``, ``BrokenFileError``."""
        return read_slice(self.lake.storage, self.prefix, part)

    def follow(
        self,
        from_offset: int | None = None,
        *,
        lineage: str | None = None,
        every: float = 1.0,
        skip_expired: bool = False,
        until: threading.Event | None = None,
    ) -> Iterator[Block]:
        """The messages from an offset on, and then those that come, in blocks of whole lines in offset order; it ends
        when ``until`` is set, or never. None: only those that come. A stream that is not there yet is waited for.

        Every ``every`` seconds it looks for what is new. A look that finds nothing is one request, and lists nothing.
        Save ``block.end`` with the lineage of ``snapshot()``, and follow from there another time.
        ``lineage`` says in which one ``from_offset`` is meant. ``skip_expired`` goes on behind messages that expired
        unread.

        Raises ``SettingError`` for a negative ``from_offset`` and an ``every`` that is not above 0; while it is read
        ``LineageChangedError`` where the stream was rebuilt or dropped, ``ExpiredMessagesError``, ``LostStateError``,
        and as ``snapshot`` and ``read``.

        Example:
            >>> for block in lake.stream("my-tap", "users").follow(0):
            ...     for offset, line in block.lines():
            ...         print(offset, json.loads(line)["record"])
            0 {'id': 1}
            1 {'id': 2}
        """
        if from_offset is not None and from_offset < 0:
            raise SettingError(f"from_offset is {from_offset}", hint="give 0 or more, or None for what comes")
        if not 0 < every < math.inf:
            raise SettingError(f"every is {every}", hint="give seconds above 0")
        return self._follow(from_offset, lineage, every, skip_expired, until)

    def _follow(
        self,
        from_offset: int | None,
        lineage: str | None,
        every: float,
        skip_expired: bool,
        until: threading.Event | None,
    ) -> Iterator[Block]:
        newest = self.state_reader()
        state = newest.look()
        lineage = _same_lineage(lineage, state)
        offset = state.next_offset if from_offset is None else from_offset
        while until is None or not until.is_set():
            try:
                for part in slices(state, offset=offset_left(state, offset, skip_expired=skip_expired)):
                    for block in self.read(part):
                        yield block
                        offset = block.end
                        if until is not None and until.is_set():
                            return
                    offset = part.file.end
            except MissingFileError:
                # A vacuum joined it with others and gc collected it since the state was read, or it is lost.
                before, state = state, newest.look_anew()
                if state.transaction == before.transaction:
                    raise
            else:
                if until is None:
                    self.lake.clock.sleep(every)
                elif until.wait(every):
                    return
                state = newest.look()
            lineage = _same_lineage(lineage, state)

    def to_arrow(
        self,
        *,
        columns: Sequence[str] | None = None,
        from_version: str | None = None,
        versions: Sequence[str] | None = None,
        from_offset: int | None = None,
        to_offset: int | None = None,
        as_of: str | None = None,
        from_commit: str | None = None,
        lineage: str | None = None,
        metadata: bool = False,
        record: bool = False,
        files: bool = False,
        messages: str = "records",
        mode: str = "PERMISSIVE",
        skip_expired: bool = False,
    ) -> pa.RecordBatchReader:
        """The stream as it is now, as record batches in offset order, which pandas, Polars and DuckDB take. The options
        mean what they mean to Spark (``docs/how-to/spark.md``). Needs ``pip install 'singerlake[arrow]'``.

        Raises ``SettingError``, ``UnknownNameError``, ``LineageChangedError``, ``ExpiredMessagesError``; while it is
        read ``ValueDoesNotFitError`` (mode ``FAILFAST``), ``BrokenFileError``, ``MissingFileError`` and what the
        storage raises.
        """
        from singerlake.arrow.plan.request import request_of
        from singerlake.arrow.scan import open_reader
        from singerlake.stores.atomic.bounds import bounded

        request = request_of(
            columns=columns,
            from_version=from_version,
            versions=versions,
            from_offset=from_offset,
            to_offset=to_offset,
            as_of=as_of,
            from_commit=from_commit,
            lineage=lineage,
            metadata=metadata,
            record=record,
            files=files,
            messages=messages,
            mode=mode,
            skip_expired=skip_expired,
        )
        manifest, request = bounded(self.lake.storage, self.tap, self.name, self.snapshot, request)
        return open_reader(self.lake.storage, manifest, request)

    def attached(self, from_offset: int = 0) -> Iterator[tuple[int, Attached]]:
        """The files that are attached to records as the stream is now, each as ``(offset of its record, row)``, in
        offset order. Those of records before ``from_offset``, of erased records and of expired ones are left out; of a
        file that could not be read when its record was captured, ``sha256`` is None. Raises as ``snapshot``.

        Example:
            >>> for offset, row in lake.existing_stream("my-tap", "photos").attached():
            ...     if row.sha256 is not None:
            ...         with lake.existing_stream("my-tap", "photos").open_file(row) as body:
            ...             print(offset, row.property, row.media_type, len(body.read()))
            0 path image/jpeg 48213
        """
        return attached_from(self.snapshot().files_from(from_offset).with_rows(), from_offset)

    def open_file(self, file: str | Attached) -> BinaryIO:
        """A binary stream of one attached file, to read and close. ``file`` is its SHA-256, which is looked for in the
        stream as it is now, or a row that ``attached`` gave, which takes one request less. The stream cannot seek. It
        gives the last bytes only if size and SHA-256 are those of the row.

        Raises ``UnknownNameError`` where no record has such a file, ``MissingFileError`` where the lake lost it, and
        ``SettingError`` for what is not a SHA-256; while it is read ``BrokenFileError`` and what the storage raises.
        """
        return open_attached(self.lake.storage, self.prefix, file, self.snapshot)

    def resume(self, manifest: Manifest, bookmark: Bookmark) -> int:
        """The offset at which a reader with ``bookmark`` continues. Raises ``LostBookmarkError``."""
        try:
            return resume(manifest, bookmark)
        except LostBookmarkError:
            return resume(manifest, bookmark, self._origins(manifest))

    def _origins(self, manifest: Manifest) -> Iterator[tuple[str, int, str]]:
        """What vacuumed files say they replaced, without files that hold other messages than they say."""
        for file in manifest.files:
            try:
                provenance = self.provenance(file)
            except MissingFileError:
                continue
            if provenance is None or provenance.messages != file.messages:
                continue
            offset = file.offset
            for original, messages in provenance.replaces:
                yield original, offset, file.id
                offset += messages
            for between, before in provenance.through:
                yield between, file.offset + before, file.id

    def provenance(self, file: DataFile) -> Provenance | None:
        """Which files a vacuumed file replaced; None for a file that a target wrote. Raises ``MissingFileError``."""
        first_member = file.members[0][0] if file.members else file.bytes
        return read_provenance(self.lake.storage.read_range(self.prefix + file.path, 0, first_member))

    def writer(
        self,
        *,
        writer_id: str,
        store: str | None = None,
        lock: LockSettings | None = None,
        sending: Executor | None = None,
        queue: QueueSettings | None = None,
    ) -> StreamWriter:
        """A writer to this stream. ``store`` is the manifest store's kind, or None for the one the lake has. Raises
        ``SettingError`` where it is not the lake's. ``sending`` uploads several files at once where storage is far.
        ``queue``: new files are sent there, for a committer to commit them."""
        kind = self._chosen(store)
        if kind not in MANIFEST_STORES:
            # Before anything is written, this says which there are.
            self.store(kind)
        lake_id, s3 = self.lake.lake_id(kind), self.lake.settings.s3

        def store_of(kind: str) -> ManifestStore:
            return by_queue(self.store(kind), self._place, queue, s3, lake_id=lake_id)

        return StreamWriter(
            place=self._place,
            store=store_of(kind),
            writer_id=writer_id,
            lock=lock or LockSettings(),
            rebuild=lambda kind: self.rebuilt(lineage=self.lake.ids(), store=kind),
            successor=store_of,
            lake_id=lake_id,
            sending=None if self.lake.storage.near else sending,
        )

    def diff(self, first: str | None = None, second: str | None = None) -> DiffResult:
        """How two schema versions differ, property by property, as ``singerlake diff`` shows it. Each is named by its
        label (``v1``), its hash or its path segment; None: the last but one, and the last. Raises
        ``UnknownNameError``, also where there is one version alone, and as ``snapshot``.

        Example:
            >>> difference = lake.stream("my-tap", "users").diff("v1", "v2")
            >>> print(difference.compatible, [each.path for each in difference.added])
            True ['email']
        """
        from singerlake.upkeep.reports.schema_diff import diff_of

        return diff_of(self.lake.storage.url, self.snapshot(), first, second)

    def erase(
        self,
        where: str | Condition,
        *,
        now: bool = False,
        dry_run: bool = False,
        undeclared: bool = False,
        engine: Engine | None = None,
        progress: Report | None = None,
    ) -> EraseResult:
        """Erase the records that a condition means, as ``singerlake erase --delete`` does; with ``dry_run`` only say
        where they are. Every other message keeps its offset. From then on no reader finds the records. The files that
        held them stay until ``gc`` has run twice, a grace time apart; with ``now`` they go at once, and readers that
        still read them fail.

        ``where`` is for example ``"email = 'a@b.c'"``, ``"user.id in (1, 2)"`` or ``"id in @FILE"``, with a value on
        each line of the file. ``undeclared``: it may name a property that no version declares, or have a value of
        another type. ``engine`` reads and writes the files; None: threads of this process. ``progress`` counts the
        stored bytes of all files of the stream.

        A file that cannot be read is among the ``findings`` and stays. Raises ``SettingError`` for a condition that is
        not valid, and for ``now`` with ``dry_run``, ``UnknownNameError``, ``LostStateError``, ``StreamClosedError``,
        ``TooManyConflictsError``, ``UnknownOutcomeError``, and what storage raises; what was erased until then stays.

        Example:
            >>> found = lake.stream("my-tap", "users").erase("name = 'Ada'", dry_run=True)
            >>> print(found.records, "record in", len(found.files), "of", found.looked.files, "files")
            1 record in 1 of 3 files
        """
        from singerlake.conditions import parse_where
        from singerlake.upkeep.erase.erase import erase
        from singerlake.upkeep.result import reporting

        check_now(now, dry_run)
        condition = parse_where(where) if isinstance(where, str) else where
        self.lake.existing_stream(self.tap, self.name)
        with expected_errors(tap=self.tap, stream=self.name):
            return erase(
                self.context(),
                condition,
                now=now,
                dry_run=dry_run,
                undeclared=undeclared,
                tables_from=self.lake.tables_from,
                engine=engine,
                progress=reporting(progress, f"{self.tap}/{self.name}"),
            )

    def expire(
        self,
        *,
        older_than: str | None = None,
        keep_versions: int | None = None,
        before_offset: int | None = None,
        now: bool = False,
        dry_run: bool = False,
    ) -> ExpireResult:
        """Expire the oldest messages, once, as ``singerlake expire --delete`` does; with ``dry_run`` only say which.
        Whole files expire, from the first one on; offsets and versions stay as they are, and no reader finds what
        expired. ``now`` is that of ``erase``.

        Messages expire that are older than ``older_than`` (``"400d"``, ``"12h"``) by their ``time_extracted``, or that
        came before the first message of the youngest ``keep_versions`` versions; or those before an offset.

        Raises ``SettingError`` for an age that is not valid, for an offset beyond the end, where neither or both kinds
        are given, and for ``now`` with ``dry_run``; ``UnknownNameError``, ``LostStateError``, ``StreamClosedError``,
        ``TooManyConflictsError``, ``UnknownOutcomeError``, and what storage raises.

        Example:
            >>> done = lake.stream("my-tap", "users").expire(before_offset=1)
            >>> print(done.expired.files, "file expired; the stream begins at offset", done.floor)
            1 file expired; the stream begins at offset 1
        """
        from singerlake.upkeep.gc.expire import expire

        check_now(now, dry_run)
        if keep_versions is not None:
            check_least("keep_versions", keep_versions, 1)
        if before_offset is not None:
            check_least("before_offset", before_offset)
        self.lake.existing_stream(self.tap, self.name)
        return expire(
            self.context(),
            older_than=older_than,
            keep_versions=keep_versions,
            before_offset=before_offset,
            now=now,
            dry_run=dry_run,
        )

    def put(
        self,
        files: Sequence[str | Path],
        *,
        recursive: bool = False,
        spool_dir: str | None = None,
        threads: int = THREADS,
        progress: Report | None = None,
    ) -> PutResult:
        """Keep files of this machine, as ``singerlake put`` does: a record for each, in the order of ``files``, with
        the file attached to it. The same content is kept once, and has a record each time. The lake is made if nothing
        is there.

        ``recursive``: a folder among ``files`` stands for all files below it, each called by its path there.
        ``spool_dir`` is where copies of files above 4 MB lie until they are uploaded; None: the folder of this machine
        for temporary files. ``threads`` is how many files are put at once.

        Nothing is written if a file is not there, is not a regular file, or has a name that is not UTF-8. Up to 10,000
        records are committed at once; what was committed before an error stays. Raises ``SettingError``,
        ``NotALakeError`` where something else than a lake is, ``ChangedFileError`` where a file changed while it was
        read, ``AccessDeniedError``, ``TooManyConflictsError``, ``UnknownOutcomeError``, and what storage raises.

        Example:
            >>> done = lake.stream("my-tap", "photos").put(["a.jpg", "b.jpg"])
            >>> print(done.records, "records,", done.new_files, "new files,", done.new_bytes, "bytes")
            2 records, 2 new files, 10 bytes
        """
        from singerlake.attached.put import find_files
        from singerlake.upkeep.put import PutRun, folder_of, require_nothing, spool_in
        from singerlake.upkeep.result import reporting

        if isinstance(files, str | Path):
            raise SettingError("files is one name", hint=f"give a list of names, as [{str(files)!r}]")
        check_least("threads", threads, 1)
        storage = self.lake.storage
        found = find_files([str(each) for each in files], recursive=recursive, lake=folder_of(storage))
        if not self.lake.exists():
            require_nothing(storage)
        run = PutRun(self._place, self.lake.announce, threads)
        if found:
            bar = reporting(progress, f"{self.tap}/{self.name}")
            with spool_in(spool_dir) as folder:
                bar.sized(sum(file.size for file in found))
                run.run(found, self.writer(writer_id=run.writer_id), folder, bar)
        return run.result()

    def context(self, kind: str | None = None) -> StreamContext:
        """What upkeep of this stream works with. ``kind`` and errors are those of ``store``."""
        lake = self.lake
        return StreamContext(lake.storage, self.tap, self.name, lake.clock, lake.ids, self.store(kind))

    def store(self, kind: str | None = None) -> ManifestStore:
        """The manifest store of that kind for this stream, or (None) the one that keeps it. Raises ``SettingError``."""
        lake = self.lake
        return open_store(
            kind or self._chosen(None),
            self._place,
            settings=lake.stores,
            s3=lake.settings.s3,
            lake_id=lambda: lake.known_lake_id() or lake._root.fresh_id(),
            known_lake_id=lake._root.seen_id(),
        )

    @property
    def _place(self) -> StreamPlace:
        lake = self.lake
        return StreamPlace(lake.storage, self.tap, self.name, lake.clock, lake.ids)

    def _chosen(self, kind: str | None) -> str:
        """The kind of store for a writer that was told ``kind``: a stream that has a state stays where it is."""
        metadata = self.lake.root_metadata()
        recorded = metadata.manifest_store if metadata else None
        if kind is not None and recorded is not None and kind != recorded and not self.lake.is_unborn():
            raise SettingError(
                f"manifest_store is {kind!r}, this lake's is {recorded!r}",
                hint="leave manifest_store unset, or use another lake_root",
                lake_root=self.lake.storage.url,
            )
        own = self.kind()
        if kind is not None and recorded is None and own is not None and kind != own:
            raise SettingError(
                f"manifest_store is {kind!r}, this stream's is {own!r}",
                hint="leave manifest_store unset, or move the stream with 'singerlake store migrate'",
                lake_root=self.lake.storage.url,
            )
        if kind is not None and recorded is not None and kind != recorded:
            # A first run with that other kind got no further than this, as where storage cannot keep it.
            use_manifest_store(self.lake.storage, kind, lake_id=self.lake.lake_id())
        return own or kind or recorded or DEFAULT_STORE


def _same_lineage(lineage: str | None, state: Manifest) -> str | None:
    """The lineage of a state: ``lineage``, or the first that the stream has. Raises ``LineageChangedError``."""
    if lineage is not None and state.lineage != lineage:
        raise LineageChangedError(
            "the stream was rebuilt or dropped, so its offsets mean other messages",
            hint="follow it again, from an offset of its new lineage",
            tap=state.tap,
            stream=state.stream,
        )
    return state.lineage
