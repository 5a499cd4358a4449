"""The files of an atomic run on their way into the lake: uploaded as they become whole, committed all at its end."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from functools import partial
from typing import Any

from singerlake.adapters import ATOMIC_STORES, DEFAULT_STORE
from singerlake.errors import SettingError
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import StreamSchema
from singerlake.lake import Lake
from singerlake.stores.atomic.commit_run import AtomicRun, Part, commit_run, require_atomic, require_room
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.writing.writer import StreamWriter
from target_singerlake.files.growing import GrowingFile
from target_singerlake.files.publishing import Committed, Publisher
from target_singerlake.files.stream_queue import Channel
from target_singerlake.input.schema import Schema
from target_singerlake.settings import Settings

logger = logging.getLogger(__name__)


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
        """Have a stream known by its SCHEMA alone, once the run is committed."""
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
                    [self._part(name) for name in self._uploaded],
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

    def _part(self, name: str) -> Part:
        writer = self._channels[name].writer
        assert writer is not None
        files = self._uploaded[name]
        schemas = {file.version: schema for _, file, schema in files}
        return Part(writer, tuple(file for _, file, _ in files), schemas, self._run(self._channels[name]))


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
