"""Faulty locks and commits: what goes wrong where a lock, or the lack of an answer, is believed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from unittest import mock

import msgspec

import singerlake.stores.place
from singerlake.clock import timestamp
from singerlake.errors import UnknownOutcomeError
from singerlake.format.state.additions import Conflict
from singerlake.format.state.fold import apply
from singerlake.format.state.manifest import to_json
from singerlake.format.state.model import Run
from singerlake.format.state.transactions import AddFiles, Transaction
from singerlake.lock_file import Lock, LockBody
from singerlake.storage.port import Refused, Written
from singerlake.stores.commit import Commit
from singerlake.stores.lockfile import LockfileStore
from singerlake.stores.port import Loaded, Outdated
from singerlake.stores.writer import Receipt, StreamWriter, Upload
from tests.simulation.jobs import WriterJob
from tests.simulation.stores.kinds import KINDS, Kind
from tests.simulation.watches.watch import ManifestWatch, Watches
from tests.simulation.world.files import STREAM, TAP
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World


class LockAlone(LockfileStore):
    """The lock, read back, is the only guard: the manifest is replaced whatever is there. Two writers can both find
    their own lock (4 of the 20 ways in which two may interleave)."""

    @property
    def exclusive(self) -> bool:
        return False

    def commit(self, base: Loaded, transaction: Transaction) -> Loaded | Outdated | Conflict:
        after = apply(base.manifest, transaction)
        if isinstance(after, Conflict):
            return after
        outcome = self._storage.put(self._key, to_json(after))
        assert isinstance(outcome, Written)
        return Loaded(after, outcome.etag)


class Fooled(LockfileStore):
    """Was answered 412 by a balancer for writes that took effect, and takes the storage for one that ignores
    conditions: it looks, writes without condition and reads back, behind the stream's own lock."""

    @property
    def exclusive(self) -> bool:
        return True

    def commit(self, base: Loaded, transaction: Transaction) -> Loaded | Outdated | Conflict:
        after = apply(base.manifest, transaction)
        if isinstance(after, Conflict):
            return after
        before = self.catch_up(base)
        if before is None or before.manifest.transaction != base.manifest.transaction:
            return Outdated()
        self._storage.put(self._key, to_json(after))
        found = self.load()
        return found if found and found.manifest.transaction == after.transaction else Outdated()


class BlindHeartbeat(Lock):
    """Refreshes the lock whoever has it by now."""

    def _replace(self, body: LockBody, etag: str) -> Written | Refused:
        del etag
        return self._storage.put(self._key, msgspec.json.encode(body))


class BlindRelease(Lock):
    """Deletes the lock whoever has it by now."""

    def release(self) -> None:
        if self._mine is not None:
            self._mine = None
            self._storage.delete(self._key)


class Hasty(WriterJob):
    """Takes "refused" for another's success without looking for its own files, and sends them again as new ones."""

    def submit(self, writer: StreamWriter, uploads: list[Upload], run: Run) -> Receipt:
        writer.open()
        while True:
            for upload in uploads:
                self.world.storage.upload(self.world.prefix + upload.file.path, upload.spool)
            change = AddFiles(
                files=tuple(upload.file for upload in uploads),
                schemas={upload.file.version: upload.schema for upload in uploads},
                run=run,
            )
            transaction = Transaction(id=self.world.ids(), at=timestamp(writer.place.clock.now()), change=change)
            base = writer.store.load()
            assert base is not None
            try:
                outcome = writer.store.commit(base, transaction)
            except UnknownOutcomeError:
                self.after_unknown(uploads)
                raise
            if isinstance(outcome, Loaded):
                return Receipt(change, Commit(writer.store, writer.clock, outcome), outcome.manifest)
            uploads[:] = [
                self.file(run, self.world.truth.batch_of(upload.file.id), upload.file.messages) for upload in uploads
            ]

    def after_unknown(self, uploads: list[Upload]) -> None:
        """Nothing."""


class Tidy(Hasty):
    """Deletes what it uploaded when it does not know whether it was committed."""

    def after_unknown(self, uploads: list[Upload]) -> None:
        for upload in uploads:
            self.world.storage.delete(self.world.prefix + upload.file.path)


def _with_lock(lock: type[Lock]) -> AbstractContextManager[object]:
    return mock.patch.object(singerlake.stores.place, "Lock", lock)


def _unguarded(world: World) -> Watches:
    return Watches(
        world.truth,
        world.fail,
        world.prefix,
        locks=None,
        manifest=ManifestWatch(world.truth, world.fail, commits=True),
        log=None,
    )


def _some_fooled(world: World, process: Process) -> LockfileStore:
    del process
    return (LockfileStore if world.choices.below(3) else Fooled)(world.storage, TAP, STREAM)


def _lock_alone(world: World, process: Process) -> LockAlone:
    del process
    return LockAlone(world.storage, TAP, STREAM)


_LOCKFILE, _LOG = KINDS["lockfile"], KINDS["log"]
COMMITS = (
    Kind("lock-alone", _lock_alone, _unguarded, conditions=False),
    replace(_LOCKFILE, name="fooled", store_of=_some_fooled),
    replace(_LOCKFILE, name="blind-heartbeat", patched=partial(_with_lock, BlindHeartbeat)),
    replace(_LOCKFILE, name="blind-release", patched=partial(_with_lock, BlindRelease)),
    replace(_LOCKFILE, name="hasty", writer_job=Hasty),
    replace(_LOG, name="tidy", writer_job=Tidy),
)
