"""Finished files on their way into the lake: files of different streams at once, of one stream in order. Those of an
atomic run are uploaded as they become whole, and committed all at its end."""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from msgspec import UNSET
from singer_sdk.metrics import Metric, Tag, Timer

from singerlake.adapters import ATOMIC_STORES, DEFAULT_STORE, ON_THE_LAKE
from singerlake.clock import Clock, timestamp
from singerlake.errors import (
    AccessDeniedError,
    BrokenFileError,
    NoSuchBucketError,
    SettingError,
    SingerlakeError,
    StorageFullError,
    StorageUnavailableError,
    UnknownOutcomeError,
)
from singerlake.format.layout import file_path
from singerlake.format.state.attached import Attached
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Manifest, Run, SchemaVersion, StreamSchema
from singerlake.format.state.selection import newest_version
from singerlake.format.state.table_versions import unactivated
from singerlake.format.state.transactions import AddFiles
from singerlake.interpreter.threads import Turns, waiting
from singerlake.lake import Lake
from singerlake.storage.port import Capabilities
from singerlake.stores.atomic.commit_run import AtomicRun, RunShare, commit_run, require_atomic, require_room
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.writer import Receipt, StreamWriter, Upload
from target_singerlake.files.growing import GrowingFile
from target_singerlake.input.schema import Schema
from target_singerlake.settings import Settings

logger = logging.getLogger(__name__)

WORKERS = 8
"""Files that are uploaded and committed at once."""
SENDERS = 2 * WORKERS
"""Threads that send files: the first file of each worker may be waiting for a lock meanwhile."""
NEAR_WORKERS = 4
"""The same where all is on a local disk: while one of them works, the others wait for the disk."""
PENDING_FILES = 32
"""Finished files that may wait for it, while more input is read."""
SETTLE_EVERY = 0.5
"""Seconds between two looks for the place of stored commits, where the manifest store settles them later."""

OUT_OF_REACH = (AccessDeniedError, NoSuchBucketError, StorageUnavailableError, StorageFullError, UnknownOutcomeError)
"""Errors after which asking the lake for more would only take time."""
FILES_AT_ONCE = 16
"""Files of one stream that one transaction may carry."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A file that is in the lake, and its stream's state with it."""

    growing: GrowingFile
    file: NewFile
    manifest: Manifest

    @property
    def epochs(self) -> Sequence[int]:
        """When its messages came, in STATE messages."""
        return self.growing.epochs


@dataclass(frozen=True, slots=True)
class KnownStream:
    """A stream without messages that is known now, and when its SCHEMA came."""

    epochs: Sequence[int]


@dataclass
class Channel:
    """One stream's way into the lake: its writer, the last thing it was given to do, the files that are to be committed
    next, those that were ``taken`` for the commit under way, and the commits whose place in the log is not settled yet.
    ``announced`` are the versions that the catalogue was told of, the newest one last, ``announced_at`` is the end of
    the stream when it was. ``table_version`` and ``activated`` are those of the files that were taken so far."""

    name: str
    writer: StreamWriter | None = None
    last: Future[None] | None = None
    ready: deque[GrowingFile] = field(default_factory=deque)
    taken: list[GrowingFile] = field(default_factory=list)
    unsettled: deque[tuple[Receipt, list[GrowingFile]]] = field(default_factory=deque)
    settling: Future[None] | None = None
    look_again: float = 0.0
    announced: dict[str, SchemaVersion] = field(default_factory=dict)
    announced_at: int = 0
    recorded: str = ""
    table_version: int | None = None
    activated: int | None = None

    def uploads(self, writer: StreamWriter, taken: list[GrowingFile]) -> Iterator[Upload | None]:
        """The first of ``ready``, once it is whole, and those of the same schema after it that are whole when they are
        asked for; None where none is. ``taken`` gets each."""
        while len(taken) < FILES_AT_ONCE:
            following = self.ready[0] if self.ready else None
            if following is None or (taken and not following.is_whole):
                yield None
                continue
            if taken and following.schema.content != taken[0].schema.content:
                return
            with waiting():
                rows = following.finish()
            taken.append(self._take())
            yield _upload(writer, self.name, following, rows)

    def _take(self) -> GrowingFile:
        growing = self.ready.popleft()
        self.table_version = self.table_version if growing.table_version is None else growing.table_version
        self.activated = self.activated if growing.activated is None else growing.activated
        return growing


def _upload(writer: StreamWriter, stream: str, growing: GrowingFile, rows: tuple[Attached, ...]) -> Upload:
    spool, content = growing.spool, growing.schema.content
    if spool is None or spool.messages != growing.messages:
        raise BrokenFileError(
            "a file in the spool lacks messages that were read for it",
            hint="it was not committed; run again, and report this",
            stream=stream,
            id=growing.header.id,
        )
    version = writer.version_of(content.schema)
    path = file_path(stream, version, growing.first, growing.last, growing.header.id)
    first, last = timestamp(growing.first), timestamp(growing.last)
    file = spool.describe(path=path, version=version, first=first, last=last, attached=rows)
    return Upload(spool.path, file, content)


class Looks:
    """Readers of some manifest stores see a commit only once ``manifest.json`` shows it, and the next commit, which
    brings it up, may be hours away. So a stream is looked after ``age`` seconds behind its last commit, and once more
    where the storage's clock is ahead. Threads may share it."""

    def __init__(self, clock: Clock, age: float) -> None:
        self._clock = clock
        self._age = age
        self._noting = threading.Lock()
        self._coming: dict[str, list[float]] = {}
        self.next = math.inf
        """When the next look is due, on the monotonic clock."""

    def committed(self, stream: str) -> None:
        now = self._clock.monotonic()
        with self._noting:
            self._coming[stream] = [now + self._age, now + 2 * self._age]
            self.next = min(self.next, now + self._age)

    def due(self) -> list[str]:
        """The streams to look after now; each look is given once."""
        now = self._clock.monotonic()
        if now < self.next:
            return []
        with self._noting:
            streams = [stream for stream, looks in self._coming.items() if looks[0] <= now]
            for stream in streams:
                if len(self._coming[stream]) > 1:
                    del self._coming[stream][0]
                else:
                    del self._coming[stream]
            self.next = min((looks[0] for looks in self._coming.values()), default=math.inf)
        return streams


class Publisher:
    """Uploads and commits, on its own threads. ``wake`` is called from them whenever there is something to take.

    Each stream's writer is opened, its closed files are uploaded and committed, and their outcomes handed out once they
    are settled: ``_open``, ``_publish``, ``_settle``, ``_hand_out``, and ``_finish`` at the run's end."""

    def __init__(
        self, lake: Lake, settings: Settings, *, run_id: str, writer_id: str, clock: Clock, wake: Callable[[], None]
    ) -> None:
        self._lake = lake
        self._settings = settings
        self._run_id = run_id
        self._writer_id = writer_id
        self._clock = clock
        self._wake = wake
        self._started = timestamp(clock.now())
        self._turns = Turns() if may_ask_the_disk_alone(lake, settings) else None
        self._executor = ThreadPoolExecutor(NEAR_WORKERS if self._turns else WORKERS, thread_name_prefix="publish")
        self._sending = ThreadPoolExecutor(SENDERS, thread_name_prefix="upload")
        self._channels: dict[str, Channel] = {}
        self._outcomes: SimpleQueue[Committed | KnownStream | BaseException | None] = SimpleQueue()
        self._announcing = threading.Lock()
        self._noting = threading.Lock()
        self._looking = threading.Lock()
        self._known: frozenset[str] | None = None
        self._proving: Future[Capabilities] | None = None
        self._keeping = 0
        self._to_announce: dict[str, Manifest] = {}
        self._other: list[Future[None]] = []
        self.pending = 0
        self._stored = 0
        self.looks = Looks(clock, 60.0 * lake.stores.snapshot_minutes)
        self.status = "running"

    def open(self, stream: str) -> None:
        """Look at a stream's state, in the background, so that what is wrong with it is known early."""
        if self._proving is None and not self._lake.storage.near:
            # A writer needs to know before its first write what storage honours. To prove that takes longer than all
            # reads before that write.
            self._proving = self._sending.submit(self._lake.storage.capabilities)
        self._submit(stream, self._open)

    def state(self, stream: str) -> Callable[[], Manifest]:
        """Gives, to any thread, what a stream's writer knows of its state by then. Waits until the writer knows it, and
        raises what the lake raises."""
        self._submit(stream, self._open).result()
        writer = self._channel(stream).writer
        assert writer is not None
        return writer.open

    @property
    def backlog(self) -> int:
        """Files that are still to be uploaded and stored; those that only wait for their place take no room."""
        return self.pending - self._stored

    @property
    def busy(self) -> bool:
        """Whether there is anything that ``outcomes`` has not told."""
        return self.pending > 0 or self._keeping > 0

    @property
    def unsettled(self) -> bool:
        """Whether files are stored whose place in the log is not settled yet."""
        return self._stored > 0

    def publish(self, growing: GrowingFile) -> None:
        """Commit a closed file, in the background."""
        self.pending += 1
        channel = self._channel(growing.schema.stream)
        channel.ready.append(growing)
        self._submit(channel.name, self._publish)

    def keep(self, schema: Schema, epoch: int) -> None:
        """Have a stream known by its SCHEMA alone, in the background."""
        self._keeping += 1
        self._submit(schema.stream, partial(self._keep, schema=schema, epoch=epoch))

    def outcomes(self, patience: float = 0.0) -> list[Committed | KnownStream]:
        """What was committed since the last call; where that is nothing, and something is pending, waits for it up to
        ``patience`` seconds, or until ``backlog`` is less. Raises what a commit raised, after giving what came before
        it."""
        results: list[Committed | KnownStream] = []
        self._settle_some()
        for stream in self.looks.due():
            self._submit(stream, self._bring_up)
        while True:
            try:
                wait = patience > 0 and self.busy and not results
                outcome = self._outcomes.get(block=wait, timeout=patience if wait else None)
            except Empty:
                break
            if outcome is None:
                patience = 0.0
                continue
            if isinstance(outcome, BaseException):
                if results:
                    self._outcomes.put(outcome)
                    break
                raise outcome
            results.append(outcome)
            if isinstance(outcome, KnownStream):
                self._keeping -= 1
            else:
                self.pending -= 1
        return results

    def commit_run(self) -> None:
        """After the last file: commit in the background what waits for that. Here each file is committed by itself."""

    def settle(self) -> None:
        """Wait until each stream's state says how the run ended, and the lake's own caches know what was committed.
        Raises what the lake raises."""
        for channel in self._channels.values():
            if channel.recorded:
                self._other.append(self._submit(channel.name, self._finish))
        for other in self._other:
            other.result()
        self._other = []
        if self._to_announce:
            self._announce()

    def say_failed(self, streams: Collection[str]) -> None:
        """After ``close``: have the log of each of ``streams``, those of the input, say that the run failed, as far as
        the lake still answers. A stream that is not there yet is not made for it."""
        self.status = "failed"
        for name in streams:
            channel = self._channel(name)
            try:
                is_open = channel.writer is not None and channel.writer.is_open
                if channel.recorded != self.status and (is_open or name in self._known_streams()):
                    self._writer(channel).record(self._run(channel))
            except OUT_OF_REACH as error:
                logger.debug("could not record how the run ended: %s", error)
                return
            except SingerlakeError as error:
                logger.debug("could not record of stream %r how the run ended: %s", name, error)

    def close(self) -> None:
        """End the threads: what is being committed is, what waits for it is dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        # Last, since what is being committed may still send files.
        self._sending.shutdown(wait=True)

    def _submit(self, stream: str, work: Callable[[Channel], object]) -> Future[None]:
        channel = self._channel(stream)
        channel.last = self._executor.submit(self._do, channel, channel.last, work)
        return channel.last

    def _channel(self, stream: str) -> Channel:
        return self._channels.setdefault(stream, Channel(stream))

    def _do(self, channel: Channel, before: Future[None] | None, work: Callable[[Channel], object]) -> None:
        if before is not None:
            # Submitted earlier, so it has a thread or is done: waiting for it cannot keep it from running.
            before.result()
        turns = self._turns
        try:
            with turns.taken() if turns else nullcontext():
                work(channel)
        except BaseException as error:
            self._outcomes.put(error)
            raise
        finally:
            self._wake()

    def _open(self, channel: Channel) -> StreamWriter:
        writer = self._writer(channel)
        writer.open()
        return writer

    def _writer(self, channel: Channel) -> StreamWriter:
        if channel.writer is None:
            channel.writer = self._lake.stream(self._settings.tap_id, channel.name).writer(
                writer_id=self._writer_id,
                store=self._settings.manifest_store,
                lock=self._settings.lock,
                sending=self._sending,
                queue=self._settings.queue,
            )
            channel.writer.committed = partial(self._committed, channel)
            if not channel.writer.store.abilities.followable:
                # A database is waited for by several threads at once.
                self._turns = None
        return channel.writer

    def _publish(self, channel: Channel) -> None:
        """Commit the channel's next file, and with it in one transaction those behind it that are compressed by the
        time that the one before them is uploaded."""
        if not channel.ready:
            return
        writer, group = self._open(channel), list[GrowingFile]()
        channel.taken = group
        with Timer(Metric.BATCH_PROCESSING_TIME, {Tag.STREAM: channel.name}):
            # Asked for late, so that the last files of a run need no transaction behind them that says how it ended.
            receipt = writer.submit(channel.uploads(writer, group), partial(self._run, channel))
            assert isinstance(receipt.change, AddFiles)
            assert receipt.change.run is not None
            channel.recorded = receipt.change.run.status
        _remove_spools(group)
        channel.taken = []
        self.looks.committed(channel.name)
        if receipt.manifest is None:
            self._note_stored(len(group))
        channel.unsettled.append((receipt, group))
        self._hand_out(channel)

    def _committed(self, channel: Channel, manifest: Manifest) -> None:
        """Between a commit and the look for its files, beside which the lake's caches are brought up to date. Should a
        file not be found, the log has to say that the run failed."""
        channel.recorded = next((run.status for run in manifest.runs if run.id == self._run_id), "")
        self._note(channel, manifest)
        if channel.taken and not self._lake.storage.near:
            # The kernel takes 10 ms for each 130 MB. A run that is being closed removes the whole folder.
            with suppress(RuntimeError):
                self._executor.submit(_remove_spools, channel.taken)

    def _note_stored(self, files: int) -> None:
        """There is room for more files, though these are not committed yet."""
        with self._noting:
            self._stored += files
        # A reader that waits for room gets no outcome for a while.
        self._outcomes.put(None)

    def _settle_some(self) -> None:
        """Have the places of stored commits looked for, of each stream at most once at a time."""
        if not self.unsettled:
            # Asked after each commit, so that to look at each stream would take the square of their number.
            return
        for channel in list(self._channels.values()):
            idle = channel.settling is None or channel.settling.done()
            if channel.unsettled and idle and self._clock.monotonic() >= channel.look_again:
                channel.look_again = self._clock.monotonic() + SETTLE_EVERY
                channel.settling = self._submit(channel.name, self._settle)

    def _settle(self, channel: Channel) -> None:
        self._open(channel).advance()
        self._hand_out(channel)

    def _hand_out(self, channel: Channel) -> None:
        """Give out the files of settled commits, in their order."""
        while channel.unsettled and (manifest := channel.unsettled[0][0].manifest) is not None:
            receipt, group = channel.unsettled.popleft()
            self._note(channel, manifest)
            if receipt.commit.pending is not None:
                with self._noting:
                    self._stored -= len(group)
            for growing, file in zip(group, receipt.files, strict=True):
                self._outcomes.put(Committed(growing, file, manifest))

    def _finish(self, channel: Channel) -> None:
        """A run's end in one stream: how it ended is in the log, and every commit is settled and published."""
        writer = self._open(channel)
        if channel.recorded != self.status:
            run = self._run(channel)
            writer.record(run)
            channel.recorded = run.status
        writer.finish()
        self._hand_out(channel)
        manifest = writer.open()
        left = unactivated(manifest)
        if left is not None and left.run.id == self._run_id:
            logger.warning(
                "Stream %r: records have version %d, and no ACTIVATE_VERSION followed, so tables keep rows that are "
                "gone at the source; a mapper may have dropped it",
                channel.name,
                left.version,
            )
        if _is_behind(channel, manifest):
            with self._noting:
                self._to_announce[channel.name] = manifest

    def _run(self, channel: Channel) -> Run:
        return Run(
            id=self._run_id,
            writer=self._writer_id,
            started=self._started,
            updated=timestamp(self._clock.now()),
            status=self.status,
            table_version=UNSET if channel.table_version is None else channel.table_version,
            activated=UNSET if channel.activated is None else channel.activated,
        )

    def _keep(self, channel: Channel, *, schema: Schema, epoch: int) -> None:
        if channel.name not in self._known_streams():
            self._note(channel, self._writer(channel).keep_schema(schema.content, self._run_id))
        self._outcomes.put(KnownStream((epoch,)))

    def _known_streams(self) -> frozenset[str]:
        """Streams that had a version when this run first asked: of the others each is looked at."""
        with self._looking:
            if self._known is None:
                self._known = self._lake.catalogued(self._settings.tap_id)
            return self._known

    def _bring_up(self, channel: Channel) -> None:
        """Publish what a stream's readers do not see yet, where that has become old."""
        writer = self._open(channel)
        try:
            writer.store.publish(writer.loaded)
        except SingerlakeError as error:
            logger.warning("manifest.json of stream %r does not follow its log now: %s", channel.name, error)

    def _note(self, channel: Channel, manifest: Manifest) -> None:
        """Have the lake's caches brought up to date where a version is new to them in this run. A version that comes
        back is told at the run's end: a tap may go to and fro between two of them with every file."""
        version = newest_version(manifest)
        if version is None or channel.announced.get(version) == manifest.schemas[version]:
            return
        channel.announced.pop(version, None)
        channel.announced[version] = manifest.schemas[version]
        channel.announced_at = manifest.next_offset
        with self._noting:
            waiting = bool(self._to_announce)
            self._to_announce[channel.name] = manifest
        if not waiting:
            # A run that is being closed after an error takes no more work.
            with suppress(RuntimeError):
                self._other.append(self._executor.submit(self._announce))

    def _announce(self) -> None:
        with self._announcing:
            with self._noting:
                manifests, self._to_announce = list(self._to_announce.values()), {}
            self._lake.announce(*manifests)


class AtomicPublisher(Publisher):
    """A ``Publisher`` that commits nothing before ``commit_run``, and then only a run that finished."""

    def __init__(self, lake: Lake, settings: Settings, **more: Any) -> None:
        _require_store(lake, settings)
        super().__init__(lake, settings, **more)
        self._uploaded: dict[str, list[tuple[GrowingFile, NewFile, StreamSchema]]] = {}
        self._brought: set[str] = set()
        self._bare: list[tuple[Schema, int]] = []

    @property
    def unsettled(self) -> bool:
        """Nothing that time alone settles."""
        return False

    def keep(self, schema: Schema, epoch: int) -> None:
        self._keeping += 1
        self._bare.append((schema, epoch))

    def commit_run(self) -> None:
        """Commit all that was uploaded, in the background. Of a run that did not finish nothing is committed, so that
        none of its STATE is emitted."""
        if self.status != "finished":
            self.pending = self._stored = self._keeping = 0
            logger.warning("The run is atomic and %s: nothing of it is in the lake", self.status)
            return
        before = [channel.last for channel in self._channels.values() if channel.last is not None]
        self._other.append(self._executor.submit(self._commit_run, before))

    def _open(self, channel: Channel) -> StreamWriter:
        writer = super()._open(channel)
        require_atomic(writer.store, tap=writer.tap, stream=writer.stream)
        return writer

    def _publish(self, channel: Channel) -> None:
        """Upload the channel's next files."""
        if not channel.ready:
            return
        writer, group = self._open(channel), list[GrowingFile]()
        with self._noting:
            self._brought.add(channel.name)
            require_room(writer.store, len(self._brought), tap=writer.tap)
        sent = writer.upload(channel.uploads(writer, group))
        for growing, upload in zip(group, sent, strict=True):
            upload.spool.unlink(missing_ok=True)
            self._uploaded.setdefault(channel.name, []).append((growing, upload.file, upload.schema))
        self._note_stored(len(group))

    def _commit_run(self, before: list[Future[None]]) -> None:
        """The commit, then what had to wait for it. Outcomes are told when all of it is done."""
        try:
            for uploaded in before:
                # Submitted earlier, so each has a thread or is done: waiting for them cannot keep them from running.
                uploaded.result()
            states = commit_run(
                AtomicRun(
                    [self._share(name) for name in self._uploaded],
                    Decisions(self._lake.storage, self._settings.tap_id),
                    run_id=self._run_id,
                    writer_id=self._writer_id,
                    clock=self._clock,
                    ids=self._lake.ids,
                    pool=None if self._lake.storage.near else self._sending,
                )
            )
            for name, manifest in states.items():
                channel = self._channels[name]
                self._committed(channel, manifest)
                for growing, file, _ in self._uploaded[name]:
                    self._outcomes.put(Committed(growing, file, manifest))
            for schema, epoch in self._bare:
                self._submit(schema.stream, partial(self._keep, schema=schema, epoch=epoch))
        except BaseException as error:
            self._outcomes.put(error)
            raise
        finally:
            self._wake()

    def _share(self, name: str) -> RunShare:
        writer = self._channels[name].writer
        assert writer is not None
        files = self._uploaded[name]
        schemas = {file.version: schema for _, file, schema in files}
        return RunShare(writer, tuple(file for _, file, _ in files), schemas, self._run(self._channels[name]))


def _require_store(lake: Lake, settings: Settings) -> None:
    """Raise ``SettingError`` before anything is written, where the lake's streams cannot be committed together."""
    metadata = lake.root_metadata()
    kind = (metadata.manifest_store if metadata else None) or settings.manifest_store or DEFAULT_STORE
    if kind in ATOMIC_STORES:
        return
    if metadata is None and settings.manifest_store is None:
        raise SettingError(
            f"atomic_run needs a manifest store that commits several streams together, and {kind} does not",
            hint=f"set manifest_store to {' or '.join(ATOMIC_STORES)} for this new lake, or unset atomic_run",
        )
    raise SettingError(
        f"atomic_run needs a manifest store that commits several streams together, and this lake's is {kind}",
        hint="unset atomic_run, or move the lake with 'singerlake store migrate LAKE --to log'",
    )


def _remove_spools(files: Sequence[GrowingFile]) -> None:
    for growing in files:
        if growing.spool is not None:
            growing.spool.path.unlink(missing_ok=True)


def may_ask_the_disk_alone(lake: Lake, settings: Settings) -> bool:
    """Whether commits wait for nothing but a local disk, as far as it is known before the first stream is opened."""
    on_the_lake = (settings.manifest_store or DEFAULT_STORE) in ON_THE_LAKE
    return lake.storage.near and on_the_lake and settings.queue is None


def _is_behind(channel: Channel, manifest: Manifest) -> bool:
    """Whether the catalogue may say another schema than that of the newest version: another one was committed after it
    was told, by this run or by others."""
    said = next(reversed(channel.announced), None)
    if said is not None and channel.announced[said] != manifest.schemas.get(said):
        return True
    return any(file.version != said for file in manifest.files_from(channel.announced_at))
