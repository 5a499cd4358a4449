"""One writer of one stream: birth or rebuild before anything is uploaded, then files, each published whole.

The schema of a stream without a version comes as a whole new state, which every reader and writer understands: with the
birth, or as a ``rebase`` of the same lineage, which is made anew where another writer came first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, InvalidStateError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from singerlake.clock import Backoff, timestamp
from singerlake.errors import CommitRefusedError, ForeignManifestError, TooManyConflictsError, UnknownOutcomeError
from singerlake.format import kept_schema, layout
from singerlake.format.schema_hash import hash_among
from singerlake.format.state import fold
from singerlake.format.state.additions import Conflict
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.fold import with_schema
from singerlake.format.state.model import Manifest, Run, StreamSchema
from singerlake.format.state.transactions import AddFiles, Change, Rebase, RecordRun, Transaction, addition
from singerlake.lock_file import Lock, LockSettings
from singerlake.storage.port import Storage
from singerlake.stores.commit import Commit, await_settled, commit_once, refuse_missing, submit_transaction
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded, ManifestStore, Outdated
from singerlake.stores.publish import no_history, published, refuse_other_lake, stream_closed, too_old
from singerlake.work.bounded_map import BoundedMap

_MOVES = 3

_ATTEMPTS = 20
_LONGEST_WAIT = 1.0


@dataclass(frozen=True, slots=True)
class Upload:
    """One finished file: where it is spooled (it may be gone, if it was uploaded), what it is, and its schema."""

    spool: Path
    file: NewFile
    schema: StreamSchema


@dataclass
class Receipt:
    """One change that was committed: ``manifest`` is a state that holds it, None until that is settled."""

    change: Change
    commit: Commit
    manifest: Manifest | None = None

    @property
    def files(self) -> tuple[NewFile, ...]:
        return self.change.files if isinstance(self.change, AddFiles) else ()


@dataclass
class StreamWriter:
    """Publishes data files to one stream. Not for use by two threads at once; two writers may be, in any process."""

    place: StreamPlace
    store: ManifestStore
    writer_id: str
    lock: LockSettings
    rebuild: Callable[[str], Manifest]
    """Makes a state from the data files alone, for a store of that kind."""
    successor: Callable[[str], ManifestStore] | None = None
    """Gives the manifest store of a kind, for a stream that moved; None: stop there."""
    lake_id: str | None = None
    sending: Executor | None = None
    """Uploads several files at once, where storage is far; None: one after the other."""
    committed: Callable[[Manifest], object] = lambda _: None
    """Gets each state that holds what ``submit`` committed at once, before the files are looked for there."""
    _loaded: Loaded | None = None
    _exclusive: bool = False
    _keeping: tuple[StreamSchema, str] | None = None
    _published: list[AddFiles] = field(default_factory=list)
    _waiting: list[Receipt] = field(default_factory=list)
    _uploaded: dict[str, Any] = field(default_factory=dict)

    @property
    def tap(self) -> str:
        return self.place.tap

    @property
    def stream(self) -> str:
        return self.place.stream

    def open(self) -> Manifest:
        """The stream's state, born if it is new, or rebuilt from data files without state: empty never means new. Call
        before the first upload; later calls cost nothing. Raises ``CorruptObjectError``, ``UnsupportedFormatError``,
        ``ForeignManifestError``, ``StreamClosedError``, ``LostStateError``."""
        if self._loaded is None:
            found = self._found()
            # Reads need no answer to this, and another thread may prove it meanwhile.
            self._exclusive = self.store.exclusive
            loaded = self._moved_on(found)
            loaded = self._not_older(loaded)
            self.store.publish(loaded)
            self._loaded = loaded
        return self._loaded.manifest

    @property
    def is_open(self) -> bool:
        """Whether ``open`` has found the stream's state, or made its first."""
        return self._loaded is not None

    def keep_schema(self, schema: StreamSchema, run: str) -> Manifest:
        """Have the stream known though no message of it came: where it has no version, ``schema`` becomes its first.
        Beside that it is kept as an object of its own, so that a rebuild knows it too. ``run`` is the run's id.

        Raises as ``open``, and ``CommitRefusedError``, ``TooManyConflictsError``, ``UnknownOutcomeError``.
        """
        self._keeping = schema, run
        try:
            self.open()
            assert self._loaded is not None
            for _ in range(_MOVES):
                outcome = add_schema(self.place, self.store, self._loaded, schema, run)
                if isinstance(outcome, Conflict) and outcome.successor is not None and self._move_to(outcome.successor):
                    continue
                self._loaded = self._checked(outcome)
                return self._loaded.manifest
            raise stream_closed(self.tap, self.stream, self.store.kind)
        finally:
            self._keeping = None

    def version_of(self, schema: Any) -> str:
        """The hash under which files of ``schema`` go in this stream, beside those that were uploaded before."""
        known = {version: held.schema for version, held in self.open().schemas.items()}
        return hash_among(schema, {**self._uploaded, **known})

    def publish(self, spool: Path, file: NewFile, schema: StreamSchema, run: Run | None = None) -> Manifest:
        """Upload one finished file and commit it, so that it is listed. The spool may be gone. Raises as ``submit``."""
        return self.settled(self.submit([Upload(spool, file, schema)], run))

    def submit(self, uploads: Iterable[Upload | None], run: Run | Callable[[], Run] | None = None) -> Receipt:
        """Upload finished files of one version, at least one, and commit them in one transaction, in their order. The
        next one is asked for when the one before is on storage, or with ``sending`` on its way, so that what becomes
        whole meanwhile can go with it; None where none is whole yet. ``run`` is asked for when all are. Where the store
        settles commits later, the receipt is filled by ``advance``.

        The lock, where the store has one, is held from the upload to the commit, as courtesy to other writers. Raises
        ``LockTimeoutError``, ``TooManyConflictsError``, ``StreamClosedError`` and what storage and ``uploads`` raise;
        spools and uploads stay, and calling again with the same files is harmless.
        """
        self.open()
        coming = iter(uploads)
        first = next(coming)
        assert first is not None
        far = self.sending is not None and not self.place.storage.near
        locks = CommitLocks(self._locks(first.file.version))
        uploading = self._uploading(locks.wait)
        begin = partial(uploading.begin, first)
        # Of a far file another thread prepares the upload while the locks are taken. It sends no byte before.
        with uploading, self.confirming() as confirm, locks.held(beside=begin if far else None):
            if not far:
                begin()
            sent = uploading.all(coming)
            change = addition(
                tuple(upload.file for upload in sent),
                {upload.file.version: upload.schema for upload in sent},
                run() if callable(run) else run,
            )
            receipt = self._commit(change)
            if self._exclusive and receipt.manifest is not None:
                self._published.append(change)
                receipt.manifest = self._add_lost_again()
            if receipt.manifest is not None:
                self.committed(receipt.manifest)
                # What the locks are for is done, so that they are given back while the files are looked for.
                confirm(change.files)
        return receipt

    def upload(self, uploads: Iterable[Upload | None]) -> list[Upload]:
        """Upload finished files and commit none; gives them in their order. Raises as ``submit``."""
        with self._uploading() as uploading:
            return uploading.all(uploads)

    def _uploading(self, ready: Callable[[], object] = lambda: None) -> BoundedMap[Upload]:
        """What uploads files. ``ready`` is as in ``Storage.upload``."""
        known = self.open().by_id

        def send(upload: Upload) -> None:
            self._uploaded[upload.file.version] = upload.schema.schema
            # What is listed is never overwritten, whatever else would come under its name.
            if upload.file.id not in known and upload.spool.exists():
                self.place.storage.upload(self._key(upload.file), upload.spool, ready)

        return BoundedMap(send, self.sending)

    @property
    def loaded(self) -> Loaded:
        """The stream's state by the store that keeps it. Raises as ``open``."""
        self.open()
        assert self._loaded is not None
        return self._loaded

    def accept(self, loaded: Loaded) -> None:
        """Go on from a state that was committed to this writer's store in another way."""
        self._loaded = loaded

    def record(self, run: Run) -> Receipt:
        """Commit how a run stands, where its last file was committed before that was known. Raises as ``submit``."""
        self.open()
        return self._commit(RecordRun(run=run))

    def advance(self) -> bool:
        """Fill settled receipts; whether none is left. Raises as ``submit``, ``CommitRefusedError`` for a void one."""
        while self._waiting:
            receipt = self._waiting[0]
            assert self._loaded is not None
            outcome = receipt.commit.look(self._loaded)
            if outcome is None:
                return False
            if isinstance(outcome, Conflict) and outcome.successor is not None and self._move_to(outcome.successor):
                continue
            self._loaded = self._checked(outcome)
            receipt.manifest = self._loaded.manifest
            self._waiting.pop(0)
            self.confirm(receipt.files)
        return True

    def settled(self, receipt: Receipt) -> Manifest:
        """Wait until ``receipt`` is filled. Raises as ``advance``, and ``UnknownOutcomeError`` after too long."""

        def is_filled() -> bool:
            return receipt.manifest is not None or self.advance() or receipt.manifest is not None

        await_settled(is_filled, self.place.clock, tap=self.tap, stream=self.stream)
        assert receipt.manifest is not None
        return receipt.manifest

    def finish(self) -> None:
        """The end of a run: wait for every receipt, and publish ``manifest.json`` where that is due."""
        while self._waiting:
            self.settled(self._waiting[-1])
        if self._loaded is not None:
            self.store.publish(self._loaded, run_ended=True)

    def _commit(self, change: Change) -> Receipt:
        for _ in range(_MOVES):
            transaction = Transaction(id=self.place.ids(), at=timestamp(self.place.clock.now()), change=change)
            assert self._loaded is not None
            commit = submit_transaction(self.store, self._loaded, transaction, clock=self.place.clock)
            outcome = commit.outcome
            if outcome is None:
                self._waiting.append(Receipt(change, commit))
                return self._waiting[-1]
            if isinstance(outcome, Conflict) and outcome.successor is not None and self._move_to(outcome.successor):
                continue
            self._loaded = self._checked(outcome)
            return Receipt(change, commit, self._loaded.manifest)
        raise stream_closed(self.tap, self.stream, self.store.kind)

    def _moved_on(self, loaded: Loaded) -> Loaded:
        """``loaded``, or, where the stream was closed, its state in the store in which it continues."""
        for _ in range(_MOVES):
            closed = loaded.manifest.closed
            if closed is None:
                return self._checked(loaded)
            if not self._move_to(closed):
                break
            assert self._loaded is not None
            loaded = self._loaded
        raise stream_closed(self.tap, self.stream, loaded.manifest.closed or self.store.kind)

    def _move_to(self, kind: str) -> bool:
        """Change to the manifest store in which a closed stream continues; False if that is not possible."""
        if self.successor is None or kind == self.store.kind:
            return False
        store = self.successor(kind)
        try:
            loaded = store.load()
        except ForeignManifestError:
            # What is published is not that it was closed, yet.
            return False
        if loaded is None:
            return False
        self.store, self._loaded = store, loaded
        self._exclusive = store.exclusive
        self._carry_over()
        return True

    def _carry_over(self) -> None:
        """Commit what waited in the store that was left, in its order; what took its place there is in the state."""
        waiting, self._waiting = self._waiting, []
        for receipt in waiting:
            again = self._commit(receipt.change)
            receipt.manifest, receipt.commit = again.manifest, again.commit
            if receipt.manifest is None:
                self._waiting[-1] = receipt
            else:
                self.confirm(receipt.files)

    def _add_lost_again(self) -> Manifest:
        """Without conditional writes another writer may have overwritten the manifest from an older state: every file
        this writer published is looked for, and added again where it is gone, before any STATE goes out."""
        self._loaded = self._checked(self.store.load() or self._born())
        for change in self._published:
            self._commit(change)
        return self._loaded.manifest

    def confirm(self, files: Sequence[NewFile]) -> None:
        """Between commit and STATE: see that the files are there, or replaced since. Raises ``MissingFileError``."""
        with self.confirming() as confirm:
            confirm(files)

    @contextmanager
    def confirming(self) -> Iterator[Callable[[Sequence[NewFile]], None]]:
        """Gives what begins to ``confirm`` files, on ``sending`` if there is one. Raises where the block ends."""
        missing: dict[str, NewFile] = {}

        def look(file: NewFile) -> None:
            stored = self.place.storage.head(self._key(file))
            if stored is None or stored.size != file.bytes:
                missing[self._key(file)] = file

        with BoundedMap(look, self.sending) as looking:

            def begin(files: Sequence[NewFile]) -> None:
                for file in files:
                    looking.begin(file)

            yield begin
        if missing:
            assert self._loaded is not None
            refuse_missing(self.store, self._loaded, missing)

    def _key(self, file: NewFile) -> str:
        return self.place.prefix + file.path

    def _locks(self, version: str) -> list[Lock]:
        versions = [version] if self.store.abilities.locks else []
        return self.place.locks(self.writer_id, versions, own=self._exclusive, settings=self.lock)

    def _found(self) -> Loaded:
        """The stream's state in the store that it was in when this writer was made, or in the one that it moved to."""
        try:
            return self.store.load() or self._born()
        except ForeignManifestError:
            if (elsewhere := self._elsewhere()) is None:
                raise
            return elsewhere

    def _elsewhere(self) -> Loaded | None:
        """The stream's state in another store, where that published ``manifest.json``."""
        there = published(self.place.storage, self.place.manifest_key)
        return self._loaded if there is not None and self._move_to(there.store) else None

    def _born(self) -> Loaded:
        """A state where none was: unless another writer's is there by now, or a migration has not brought it yet."""
        data, manifest, schemas = _lying(self.place.storage, self.tap, self.stream)
        there = manifest or (data and self.place.storage.head(self.place.manifest_key) is not None)
        if (there or data) and (born := self.store.load()) is not None:
            return born
        if (there or data) and not self.store.abilities.followable:
            if (elsewhere := self._elsewhere()) is not None:
                return elsewhere
            seen = published(self.place.storage, self.place.manifest_key)
            raise no_history(self.store, seen, tap=self.tap, stream=self.stream, lake_id=self.lake_id)
        if there:
            raise stream_closed(self.tap, self.stream, self.store.kind)
        # Before anything is written, since a store that promises less says so when it is asked, or refuses.
        self._exclusive = self.store.exclusive
        if data or schemas:
            return self.store.create(self.rebuild(self.store.kind))
        return self.store.create(self._first_state())

    def _not_older(self, loaded: Loaded) -> Loaded:
        """``loaded``, or what came after it: an older state than readers have seen would give offsets out twice."""
        there = None if self.store.abilities.followable else published(self.place.storage, self.place.manifest_key)
        if there is not None:
            refuse_other_lake(self.store, there, key=self.place.manifest_key, lake_id=self.lake_id)
        if there is None or there.number <= loaded.manifest.transaction.number:
            return loaded
        loaded = self.store.catch_up(loaded) or loaded
        if there.number > loaded.manifest.transaction.number:
            number = loaded.manifest.transaction.number
            raise too_old(self.store, number, there, tap=self.tap, stream=self.stream)
        return self._checked(loaded)

    def _first_state(self) -> Manifest:
        """A stream's birth, with the schema that it is born for."""
        empty = fold.empty(
            tap=self.tap,
            stream=self.stream,
            store=self.store.kind,
            lake_id=self.lake_id,
            lineage=self.place.ids(),
            created=timestamp(self.place.clock.now()),
            transaction_id=self.place.ids(),
        )
        if self._keeping is None:
            return empty
        schema, run = self._keeping
        put_schema(self.place.storage, empty, schema, run, empty.created)
        return fold.with_schema(empty, schema, empty.created)

    def _checked(self, outcome: Loaded | Conflict) -> Loaded:
        """What came of a commit. A state that was closed after it holds it all the same: the next commit moves on."""
        if isinstance(outcome, Loaded):
            return outcome
        if outcome.successor is not None:
            raise stream_closed(self.tap, self.stream, outcome.successor)
        raise CommitRefusedError(
            f"a finished file no longer fits its stream: {outcome.reason}",
            hint="run again; the uploaded file stays where it is",
            tap=self.tap,
            stream=self.stream,
        )


class _Lying(NamedTuple):
    """What lies in a stream's folder, and before the first of its data files: ``manifest.json``, kept schemas."""

    data: bool
    manifest: bool
    schemas: bool


def _lying(storage: Storage, tap: str, stream: str) -> _Lying:
    """What lies in a stream's folder, by one listing of it. Raises what storage raises."""
    prefix = layout.stream_prefix(tap, stream)
    manifest = schemas = False
    for entry in storage.list(prefix):
        path = entry.key[len(prefix) :]
        if layout.is_data_file(path):
            return _Lying(True, manifest, schemas)
        manifest = manifest or path == layout.MANIFEST
        schemas = schemas or layout.is_kept_schema(path)
    return _Lying(False, manifest, schemas)


class CommitLocks:
    """The locks of one commit, as its uploads see them."""

    def __init__(self, locks: Sequence[Lock]) -> None:
        self._locks = locks
        self._taken: Future[None] = Future()

    @contextmanager
    def held(self, beside: Callable[[], object] | None = None) -> Iterator[None]:
        """All locks taken, in their order, for the length of a block. ``beside`` is done before: what it begins on
        other threads may ``wait``. Raises as ``Lock.acquire``."""
        try:
            if beside is not None:
                beside()
            with ExitStack() as held:
                for lock in self._locks[:-1]:
                    held.enter_context(lock.held())
                for last in self._locks[-1:]:
                    held.enter_context(last.held(self._note_taken))
                self._note_taken()
                yield
        except BaseException as error:
            # What waits must not wait for locks that nobody takes any more.
            with suppress(InvalidStateError):
                self._taken.set_exception(error)
            raise

    def wait(self) -> None:
        """On another thread: wait until all locks are this writer's. Raises what keeps it from taking them."""
        self._taken.result()

    def _note_taken(self) -> None:
        with suppress(InvalidStateError):
            self._taken.set_result(None)


def put_schema(storage: Storage, state: Manifest, schema: StreamSchema, run: str, at: str) -> None:
    """Keep ``schema`` as an object, before any state says that it is there. What is there already stays."""
    held = kept_schema.kept(schema, tap=state.tap, stream=state.stream, created=at, run=run, lake_id=state.lake_id)
    key = layout.stream_prefix(state.tap, state.stream) + layout.schema_path(hash_among(schema.schema, {}))
    storage.put(key, kept_schema.to_json(held), if_absent=True)


def add_schema(
    place: StreamPlace, store: ManifestStore, base: Loaded, schema: StreamSchema, run: str
) -> Loaded | Conflict:
    """The state with ``schema`` as its first version, or the newest one where it has a version; a conflict where the
    stream was closed. Raises ``TooManyConflictsError``, ``UnknownOutcomeError`` and what the store raises."""
    unknown: UnknownOutcomeError | None = None
    backoff = Backoff(place.clock, first=_LONGEST_WAIT, longest=_LONGEST_WAIT)
    for attempt in range(_ATTEMPTS):
        manifest = base.manifest
        if manifest.versions:
            return base
        if manifest.closed is not None:
            return Conflict(f"the stream continues in {manifest.closed}", successor=manifest.closed)
        now = timestamp(place.clock.now())
        if attempt == 0:
            put_schema(place.storage, manifest, schema, run, now)
        with place.alone("schema", store):
            change = Rebase(manifest=with_schema(manifest, schema, now))
            try:
                outcome = commit_once(
                    store, base, Transaction(id=place.ids(), at=now, change=change), clock=place.clock
                )
            except UnknownOutcomeError as error:
                unknown, outcome = error, Outdated()
        if isinstance(outcome, Loaded) and outcome.manifest.versions:
            store.publish(outcome, run_ended=True)
            return outcome
        if not isinstance(outcome, Outdated) or attempt:
            backoff.wait()
        base = store.catch_up(base) or base
    if unknown is not None:
        raise unknown
    raise TooManyConflictsError(
        "other writers kept changing a stream while its schema was added",
        hint="run again; nothing is lost",
        tap=place.tap,
        stream=place.stream,
    )
