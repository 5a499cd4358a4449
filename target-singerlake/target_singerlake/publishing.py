"""Finished files on their way into the lake: files of different streams at once, of one stream in order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from singer_sdk.metrics import Metric, Tag, Timer

from singerlake.clock import Clock, timestamp
from singerlake.errors import BrokenFile
from singerlake.format.layout import file_path
from singerlake.format.model import Manifest, NewFile, Run
from singerlake.lake import Lake
from singerlake.manifests.writer import StreamWriter
from target_singerlake.files import GrowingFile
from target_singerlake.settings import Settings

WORKERS = 8
"""Files that are uploaded and committed at once."""
PENDING_FILES = 32
"""Finished files that may wait for it, while more input is read."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A file that is in the lake, and its stream's state with it."""

    growing: GrowingFile
    file: NewFile
    manifest: Manifest


@dataclass
class _Channel:
    """One stream's way into the lake: its writer, and the last thing it was given to do."""

    name: str
    writer: StreamWriter | None = None
    last: Future[None] | None = None
    announced: frozenset[str] = field(default_factory=frozenset)
    recorded: str = ""


class Publisher:
    """Uploads and commits, on its own threads. ``wake`` is called from them whenever there is something to take."""

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
        self._executor = ThreadPoolExecutor(WORKERS, thread_name_prefix="publish")
        self._channels: dict[str, _Channel] = {}
        self._outcomes: SimpleQueue[Committed | BaseException] = SimpleQueue()
        self._announcing = threading.Lock()
        self._noting = threading.Lock()
        self._to_announce: dict[str, Manifest] = {}
        self._other: list[Future[None]] = []
        self.pending = 0
        self.status = "running"

    def open(self, stream: str) -> None:
        """Look at a stream's state, in the background, so that what is wrong with it is known early."""
        self._submit(stream, self._open)

    def publish(self, growing: GrowingFile) -> None:
        """Commit a closed file, in the background."""
        self.pending += 1
        self._submit(growing.schema.stream, lambda channel: self._publish(channel, growing))

    def outcomes(self, patience: float = 0.0) -> list[Committed]:
        """What was committed since the last call; where that is nothing, and something is pending, waits for it up to
        ``patience`` seconds. Raises what a commit raised, after giving what came before it."""
        found: list[Committed] = []
        while True:
            try:
                wait = patience > 0 and self.pending > 0 and not found
                outcome = self._outcomes.get(block=wait, timeout=patience if wait else None)
            except Empty:
                break
            if isinstance(outcome, BaseException):
                if found:
                    self._outcomes.put(outcome)
                    break
                raise outcome
            self.pending -= 1
            found.append(outcome)
            self._note(outcome)
        return found

    def settle(self) -> None:
        """Wait until each stream's state says how the run ended, and the lake's own caches know what was committed.
        Raises what the lake raises."""
        for channel in self._channels.values():
            if channel.recorded and channel.recorded != self.status:
                self._other.append(self._submit(channel.name, self._record))
        for other in self._other:
            other.result()
        self._other = []

    def close(self) -> None:
        """End the threads: what is being committed is, what waits for it is dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _submit(self, stream: str, work: Callable[[_Channel], object]) -> Future[None]:
        channel = self._channels.setdefault(stream, _Channel(stream))
        channel.last = self._executor.submit(self._do, channel, channel.last, work)
        return channel.last

    def _do(self, channel: _Channel, before: Future[None] | None, work: Callable[[_Channel], object]) -> None:
        if before is not None:
            # Submitted earlier, so it has a thread or is done: waiting for it cannot keep it from running.
            before.result()
        try:
            work(channel)
        except BaseException as error:
            self._outcomes.put(error)
            raise
        finally:
            self._wake()

    def _open(self, channel: _Channel) -> StreamWriter:
        if channel.writer is None:
            channel.writer = self._lake.stream(self._settings.tap_id, channel.name).writer(
                writer_id=self._writer_id, store=self._settings.manifest_store, lock=self._settings.lock
            )
        channel.writer.open()
        return channel.writer

    def _publish(self, channel: _Channel, growing: GrowingFile) -> None:
        growing.ready.result()
        writer = self._open(channel)
        spool, content = growing.spool, growing.schema.content
        if spool is None or spool.messages != growing.messages:
            raise BrokenFile(
                "a file in the spool does not hold all that was read for it",
                hint="nothing of it was committed; run again, and report this",
                stream=channel.name,
                id=growing.header.id,
            )
        with Timer(Metric.BATCH_PROCESSING_TIME, {Tag.STREAM: channel.name}):
            version = writer.version_of(content.schema)
            path = file_path(channel.name, version, growing.first, growing.last, growing.header.id)
            file = spool.describe(
                path=path, version=version, first=timestamp(growing.first), last=timestamp(growing.last)
            )
            run = self._run()
            manifest = writer.publish(spool.path, file, content, run)
            channel.recorded = run.status
        spool.path.unlink(missing_ok=True)
        self._outcomes.put(Committed(growing, file, manifest))

    def _record(self, channel: _Channel) -> None:
        run = self._run()
        self._open(channel).record(run)
        channel.recorded = run.status

    def _run(self) -> Run:
        return Run(
            id=self._run_id,
            writer=self._writer_id,
            started=self._started,
            updated=timestamp(self._clock.now()),
            status=self.status,
        )

    def _note(self, committed: Committed) -> None:
        """Have the lake's caches brought up to date where a version is new to them in this run."""
        channel = self._channels[committed.growing.schema.stream]
        if committed.file.version in channel.announced:
            return
        channel.announced |= {committed.file.version}
        with self._noting:
            waiting = bool(self._to_announce)
            self._to_announce[channel.name] = committed.manifest
        if not waiting:
            self._other.append(self._executor.submit(self._announce))

    def _announce(self) -> None:
        with self._announcing:
            with self._noting:
                manifests, self._to_announce = list(self._to_announce.values()), {}
            self._lake.announce(*manifests)
