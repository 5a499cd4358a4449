"""One writer of one stream: birth or rebuild before anything is uploaded, then files, each published whole."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from singerlake.clock import Clock, IdSource, timestamp
from singerlake.errors import CommitRefused, MissingFile, StreamClosed
from singerlake.format import fold, layout
from singerlake.format.fold import Conflict
from singerlake.format.hashing import hash_among
from singerlake.format.model import Manifest, NewFile, Run, StreamSchema
from singerlake.format.transactions import AddFiles, Change, RecordRun, Transaction
from singerlake.lock import Lock, LockSettings
from singerlake.manifests.commit import commit_transaction
from singerlake.manifests.port import Loaded, ManifestStore
from singerlake.storage.port import Storage


@dataclass
class StreamWriter:
    """Publishes data files to one stream. Not for use by two threads at once; two writers may be, in any process."""

    storage: Storage
    store: ManifestStore
    tap: str
    stream: str
    writer_id: str
    lock: LockSettings
    rebuild: Callable[[], Manifest]
    clock: Clock
    ids: IdSource
    _loaded: Loaded | None = None
    _exclusive: bool = False
    _published: list[AddFiles] = field(default_factory=list)

    def open(self) -> Manifest:
        """The stream's state, born if it is new. Where data files are there without state, the state was lost and is
        rebuilt from them first: empty never means new. Call before the first upload; later calls cost nothing.

        Raises ``CorruptObject``, ``UnsupportedFormat``, ``ForeignManifest``, ``StreamClosed``.
        """
        if self._loaded is None:
            # Before anything else, since a store that promises less says so when it is asked.
            self._exclusive = self.store.exclusive
            self._loaded = self._checked(self.store.load() or self.store.create(self._first_state()))
        return self._loaded.manifest

    def version_of(self, schema: Any) -> str:
        """The hash under which files of ``schema`` go in this stream."""
        known = {version: held.schema for version, held in self.open().schemas.items()}
        return hash_among(schema, known)

    def publish(self, spool: Path, file: NewFile, schema: StreamSchema, run: Run | None = None) -> Manifest:
        """Upload one finished file and commit it; when this returns, it is listed and there. The spool may be gone.

        The lock is held from the upload to the commit, as courtesy to other writers; the commit is safe without it.
        Raises ``LockWaitExceeded``, ``TooManyConflicts``, ``StreamClosed`` and what storage raises; the spool and the
        upload stay where they are, and calling again with the same file is harmless.
        """
        self.open()
        with ExitStack() as held:
            for key in self._lock_keys(file.version):
                held.enter_context(Lock(self.storage, key, self.writer_id, self.lock, self.clock, self.ids).held())
            return self._publish(spool, file, schema, run)

    def record(self, run: Run) -> Manifest:
        """Commit how a run stands, where its last file was committed before that was known. Raises as ``publish``."""
        self.open()
        return self._commit(RecordRun(run=run))

    def _publish(self, spool: Path, file: NewFile, schema: StreamSchema, run: Run | None) -> Manifest:
        key = layout.stream_prefix(self.tap, self.stream) + file.path
        if spool.exists():
            self.storage.upload(key, spool)
        change = AddFiles(files=(file,), schemas={file.version: schema}, run=run)
        manifest = self._commit(change)
        if self._exclusive:
            self._published.append(change)
            manifest = self._add_lost_again()
        self._confirm(file, key)
        return manifest

    def _commit(self, change: Change) -> Manifest:
        transaction = Transaction(id=self.ids(), at=timestamp(self.clock.now()), change=change)
        assert self._loaded is not None
        self._loaded = self._checked(commit_transaction(self.store, self._loaded, transaction, clock=self.clock))
        return self._loaded.manifest

    def _add_lost_again(self) -> Manifest:
        """Without conditional writes another writer may have overwritten the manifest from an older state: every file
        this writer published is looked for, and added again where it is gone, before any STATE goes out."""
        loaded = self._checked(self.store.load() or self.store.create(self._first_state()))
        for change in self._published:
            again = Transaction(id=self.ids(), at=timestamp(self.clock.now()), change=change)
            loaded = self._checked(commit_transaction(self.store, loaded, again, clock=self.clock))
        self._loaded = loaded
        return loaded.manifest

    def _confirm(self, file: NewFile, key: str) -> None:
        """Between commit and STATE: the file is there with its bytes."""
        found = self.storage.head(key)
        if found is None or found.size != file.bytes:
            raise MissingFile(
                "a file just committed is not on storage as it was uploaded",
                hint="run 'singerlake verify'; the run's STATE was held back, so its data will be sent again",
                key=key,
            )

    def _lock_keys(self, version: str) -> tuple[str, ...]:
        own = layout.version_lock_key(self.tap, self.stream, version)
        if self._exclusive:
            return own, layout.stream_lock_key(self.tap, self.stream)
        return (own,)

    def _first_state(self) -> Manifest:
        prefix = layout.stream_prefix(self.tap, self.stream)
        if any(layout.is_data_file(entry.key[len(prefix) :]) for entry in self.storage.list(prefix)):
            return self.rebuild()
        return fold.empty(
            tap=self.tap,
            stream=self.stream,
            store=self.store.kind,
            lineage=self.ids(),
            created=timestamp(self.clock.now()),
            transaction_id=self.ids(),
        )

    def _checked(self, outcome: Loaded | Conflict) -> Loaded:
        closed = outcome.successor if isinstance(outcome, Conflict) else outcome.manifest.closed
        if closed is not None:
            raise StreamClosed(
                f"this stream moved to the manifest store {closed!r}",
                hint="unset manifest_store, then run again",
                tap=self.tap,
                stream=self.stream,
            )
        if isinstance(outcome, Conflict):
            raise CommitRefused(
                f"a finished file no longer fits its stream: {outcome.reason}",
                hint="run again; the uploaded file was left where it is",
                tap=self.tap,
                stream=self.stream,
            )
        return outcome
