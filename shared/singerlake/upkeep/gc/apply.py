"""Collecting one stream: what ``collect_plan`` found is agreed on through the manifest store, and only then deleted.

Nothing is deleted but objects that a listing showed under the path of a retired file, whose deletion a settled
transaction says. A collection that was stopped between any two requests is simply run again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec

from singerlake.errors import (
    BrokenFileError,
    MissingFileError,
    RetryableError,
    SingerlakeError,
    StorageUnavailableError,
)
from singerlake.format import layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.extra_fields import member_extra
from singerlake.format.state.additions import Conflict
from singerlake.format.state.attached_objects import paths_in
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.transactions import Change, CollectFiles, RetireFiles
from singerlake.singer_file import inflate
from singerlake.storage.port import Entry
from singerlake.storage.probe import storage_time
from singerlake.stores.port import Loaded
from singerlake.stores.publish import publish_manifest, published
from singerlake.upkeep.context import StreamContext, commit_change
from singerlake.upkeep.defaults import GRACE
from singerlake.upkeep.gc.plan import CollectionPlan, Garbage, attached_among, id_in, make_plan
from singerlake.upkeep.result import NONE, UNSEEN, Finding, Kind, Progress, Tally, tally
from singerlake.work.parallel import THREADS, in_parallel

_STEPS = ("shown", "deleted")
"""Of collection: each takes one more run of it. Nothing is forgotten at once: a writer whose commit got no answer finds
its file among the retired ones, and does not list it again."""
_AT_ONCE = 10_000
"""Files in one transaction, so that it stays small."""
_DELETED_AT_ONCE = 1_000
_PIECE = 1 << 20
_HEAD = 1 << 16
_RESTORED = (
    "if metadata was restored from a backup, 'singerlake rebuild --discard-manifest' makes it again from the files"
)
_WAYS = "restore it, or what it replaced and then run 'singerlake rebuild --discard-manifest'"


class _Named(msgspec.Struct, frozen=True):
    """The identity in a data file's first header, and the stream of its first message."""

    id: str = ""
    stream: str = ""


@dataclass(frozen=True, slots=True)
class Collected:
    """What was done to a stream, or without ``delete`` would be: ``retired`` orphans, and ``deleted`` objects, whose
    ``keys`` these are; the attached files among both. ``without_versions``: it was dropped, or has nothing yet."""

    plan: CollectionPlan
    retired: Tally = NONE
    retired_attached: Tally = NONE
    deleted: Tally = NONE
    deleted_attached: Tally = NONE
    keys: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    without_versions: bool = False


def collect_stream(
    context: StreamContext,
    *,
    grace: timedelta = GRACE,
    orphans: bool = False,
    delete: bool = False,
    only: Collection[str] | None = None,
    forget: bool = True,
    threads: int = THREADS,
    progress: Progress = UNSEEN,
) -> Collected:
    """Take each retired file of a stream the next step of its collection, where its time has come; without ``delete``
    change nothing, and go by this machine's clock. ``orphans``: retire files that nothing lists, too. ``only``: of
    retired files those with these ids. ``forget``: forget files that were deleted a grace time ago. The total of
    ``progress`` is the bytes to read of files that hold what is to be deleted.

    What must stay for a person to look at is a finding. Raises as ``StreamContext.load_open``,
    ``TooManyConflictsError``, ``UnknownOutcomeError`` and what storage and store raise; what was agreed on by then
    stays.
    """
    loaded = context.load_open()
    if loaded is None:
        return Collected(CollectionPlan())
    collection = _Collection(context, threads, progress, loaded)
    plan = collection.planned(grace, delete=delete, only=only)
    if not forget:
        plan = replace(plan, forgotten=())
    progress.sized(sum(file.bytes for file in collection.holders(plan)))
    collection.note(plan)
    chosen = collection.own(plan.orphans) if orphans else []
    retired = collection.retire(chosen) if delete else chosen
    deleted = collection.delete(plan) if delete else plan.going
    return Collected(
        plan,
        retired=tally(entry.size for entry in retired),
        retired_attached=attached_among(retired),
        deleted=tally(entry.size for entry in deleted),
        deleted_attached=attached_among(deleted),
        keys=tuple(entry.key for entry in deleted),
        findings=tuple(collection.findings),
        without_versions=collection.without_versions,
    )


def collected_now(context: StreamContext, only: Collection[str]) -> tuple[Collected, SingerlakeError | None]:
    """``collect_now`` after something else was done, which stays done where this fails: then why."""
    try:
        return collect_now(context, only), None
    except SingerlakeError as error:
        return Collected(CollectionPlan()), error


def collect_now(context: StreamContext, only: Collection[str] | None = None) -> Collected:
    """Delete retired files, of ``only`` these ids or all, without a grace time: readers that still read them fail,
    and so do writers that stood still. Raises as ``collect_stream``."""
    deleted, attached, keys, findings = NONE, NONE, list[str](), list[Finding]()
    for _ in _STEPS:
        collected = collect_stream(context, grace=timedelta(0), delete=True, only=only, forget=False)
        deleted += collected.deleted
        attached += collected.deleted_attached
        keys += collected.keys
        findings += collected.findings
    return Collected(
        collected.plan,
        deleted=deleted,
        deleted_attached=attached,
        keys=tuple(keys),
        findings=tuple(dict.fromkeys(findings)),
    )


@dataclass
class _Collection:
    context: StreamContext
    threads: int
    progress: Progress
    loaded: Loaded
    now: datetime = field(init=False)
    findings: list[Finding] = field(default_factory=list)
    _found: set[tuple[Kind, str]] = field(default_factory=set)

    @property
    def without_versions(self) -> bool:
        return not self.loaded.manifest.versions

    def planned(self, grace: timedelta, *, delete: bool, only: Collection[str] | None) -> CollectionPlan:
        if delete:
            self._publish()
        # Asked after what is published was seen there, so that this says no later time than it was.
        self.now = storage_time(self.context.storage, ids=self.context.ids) if delete else self.context.clock.now()
        entries = self.context.storage.list(self.context.prefix)
        return make_plan(self.loaded.manifest, entries, now=self.now, grace=grace, only=only)

    def _publish(self) -> None:
        """See to it that ``manifest.json`` shows the state, or a later one: what is retired in one stays so."""
        key = layout.manifest_key(self.context.tap, self.context.stream)
        if self.loaded.manifest.prepared is not msgspec.UNSET:
            raise RetryableError("an atomic run is being committed", hint="run again in a minute", key=key)
        # What has to be there before the state is published, its store knows.
        self.context.store.publish(self.loaded)
        publish_manifest(self.context.store.segments, self.loaded.manifest)
        there = published(self.context.storage, key)
        if there is None or there.number < self.loaded.manifest.transaction.number:
            raise StorageUnavailableError(
                "manifest.json does not show what was just published", hint="check the storage, then run again", key=key
            )

    def note(self, plan: CollectionPlan) -> None:
        fresh = self.context.store.catch_up(self.loaded) if plan.missing or plan.lost else None
        for file in plan.missing:
            # Others may have replaced and collected it since.
            if fresh is None or file.id in fresh.manifest.by_id:
                self._find("missing", file.path, f"is listed but missing; no orphan is retired; {_RESTORED}")
        attached = paths_in(fresh.manifest.files) if fresh is not None and plan.lost else None
        for path in plan.lost:
            if attached is None or path in attached:
                self._find("missing", path, "is attached but missing; no orphan is retired; restore it from a backup")
        if plan.newer:
            count = f"{len(plan.newer)} such files; " if len(plan.newer) > 1 else ""
            path = plan.newer[0].key[len(self.context.prefix) :]
            what = f"is not listed, and newer than every listed file: {count}no orphan is retired; {_RESTORED}"
            self._find("unlisted", path, f"{what}, otherwise wait for the next commit", problem=False)
        for gone in plan.stuck:
            what = f"is kept: its messages should be in file {gone.by}, which nothing lists; run 'singerlake verify'"
            self._find("manifest", gone.path, what)

    def own(self, orphans: Sequence[Entry]) -> list[Entry]:
        """Those that are this stream's data files by what they say of themselves."""
        own = []
        for entry, why in in_parallel(lambda entry: (entry, self._foreign(entry)), orphans, threads=self.threads):
            if why is None:
                own.append(entry)
            else:
                self._find("unlisted", entry.key[len(self.context.prefix) :], f"is left alone: {why}", problem=False)
        return own

    def _foreign(self, entry: Entry) -> str | None:
        """Why an unlisted file may be something else than what a writer of this stream left; None where it is not."""
        if layout.attached_name_in(self._path(entry)) is not None:
            return None
        try:
            with self.context.storage.open(entry.key) as body:
                extra = member_extra(body.read(_HEAD))
            with self.context.storage.open(entry.key) as body:
                first = next(inflate(body, where={"file": entry.key}, size=_HEAD), b"")
        except (BrokenFileError, MissingFileError) as error:
            return f"it cannot be read ({error.message})"
        try:
            told = msgspec.json.decode(extra[0] if extra and extra[0] else b"{}", type=_Named)
            message = msgspec.json.decode(first.partition(b"\n")[0], type=_Named)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return "it does not begin as a data file does"
        if told.id != layout.file_id_in(entry.key):
            return "it says that it is another file than its name does"
        return None if message.stream == self.context.stream else "it holds messages of another stream"

    def _find(self, kind: Kind, path: str, what: str, *, problem: bool = True) -> None:
        key = self.context.prefix + path
        if (kind, key) not in self._found:
            self._found.add((kind, key))
            self.findings.append(Finding(kind, key, what, problem=problem))

    def retire(self, orphans: Sequence[Entry]) -> Sequence[Entry]:
        """Have the stream's state call orphans retired; those of which it does."""
        done: list[Entry] = []
        for start in range(0, len(orphans), _AT_ONCE):
            page = orphans[start : start + _AT_ONCE]
            named = tuple((self._id(entry), self._path(entry)) for entry in page)
            if self._committed(RetireFiles(files=named)):
                done += page
        return done

    def holders(self, plan: CollectionPlan) -> tuple[DataFile, ...]:
        """The files that are read before what they replaced is deleted."""
        needed = (each for each in (*plan.due, *plan.again) if each.holder and each.entry)
        return tuple({each.holder.id: each.holder for each in needed if each.holder}.values())

    def delete(self, plan: CollectionPlan) -> list[Entry]:
        """Agree on what goes, then delete it, with what should have gone before; what was deleted."""
        broken = {file.id for file, sound in self._read(self.holders(plan)) if not sound}

        def is_safe(garbage: Garbage) -> bool:
            return not (garbage.holder and garbage.entry and garbage.holder.id in broken)

        due, again = [list(filter(is_safe, each)) for each in (plan.due, plan.again)]
        steps = [
            *((id, "shown") for id in plan.shown),
            *((each.file.id, "deleted") for each in due),
            *((id, "forgotten") for id in plan.forgotten),
            *((self._id(entry), "forgotten") for entry in plan.late),
        ]
        for start in range(0, len(steps), _AT_ONCE):
            page = steps[start : start + _AT_ONCE]
            since = {id: plan.since[id] for id, _ in page if id in plan.since}
            self._committed(
                CollectFiles(
                    shown=tuple(id for id, step in page if step == "shown"),
                    deleted=tuple(id for id, step in page if step == "deleted"),
                    forgotten=tuple(id for id, step in page if step == "forgotten"),
                    since=since or msgspec.UNSET,
                )
            )
        self._begin_anew(plan.late)
        gone = [each.entry for each in (*due, *again) if each.entry]
        # Last what data files have rows of, so that none of them ever misses it.
        gone.sort(key=lambda entry: layout.attached_name_in(self._path(entry)) is not None)
        return self._deleted(gone)

    def _begin_anew(self, late: Sequence[Entry]) -> None:
        """Retire attached files that were forgotten with their objects there, but for those that are in use again."""
        if not late:
            return
        self.loaded = self.context.store.catch_up(self.loaded) or self.loaded
        used = paths_in(self.loaded.manifest.files)
        self.retire([entry for entry in late if self._path(entry) not in used])

    def _deleted(self, entries: Sequence[Entry]) -> list[Entry]:
        """Delete the objects that the state, as it is settled now, says are deleted."""
        gone: list[Entry] = []
        for start in range(0, len(entries), _DELETED_AT_ONCE):
            # Looked at anew each time: a rebuild may have listed what was restored meanwhile.
            self.loaded = self.context.store.catch_up(self.loaded) or self.loaded
            state = self.loaded.manifest
            wanted = {self._path(each) for each in entries[start : start + _DELETED_AT_ONCE]}
            agreed = {file.id: file.path for file in state.retired if file.deleted is not None and file.path in wanted}
            listed = state.files.with_ids(agreed)
            going = {path for id, path in agreed.items() if id not in listed}
            going -= state.files.with_path(going) | paths_in(state.files)
            page = [each for each in entries[start : start + _DELETED_AT_ONCE] if self._path(each) in going]
            self.context.storage.delete_all([entry.key for entry in page])
            gone += page
        return gone

    def _read(self, files: Iterable[DataFile]) -> Iterator[tuple[DataFile, bool]]:
        """Whether each file has the bytes that the manifest says."""
        for file, digest in in_parallel(lambda file: (file, self._sha256(file)), files, threads=self.threads):
            if digest != file.sha256:
                why = "is listed but missing" if digest is None else "its bytes are not those that the manifest lists"
                kind: Kind = "missing" if digest is None else "differs"
                self._find(kind, file.path, f"{why}; the files that it replaced are kept; {_WAYS}")
            yield file, digest == file.sha256

    def _sha256(self, file: DataFile) -> str | None:
        digest = hashlib.sha256()
        try:
            with self.context.storage.open(self.context.prefix + file.path) as body:
                while piece := body.read(_PIECE):
                    digest.update(piece)
                    self.progress.advance(len(piece))
        except MissingFileError:
            return None
        return digest.hexdigest()

    def _path(self, entry: Entry) -> str:
        return entry.key[len(self.context.prefix) :]

    def _id(self, entry: Entry) -> str:
        id = id_in(self._path(entry))
        assert id is not None
        return id

    def _committed(self, change: Change) -> bool:
        outcome = commit_change(self.context, self.loaded, change, who="singerlake gc", at=self.now)
        if not isinstance(outcome, Conflict):
            self.loaded = outcome
            return True
        before = self.loaded.manifest.transaction
        self.loaded = self.context.store.catch_up(self.loaded) or self.loaded
        changed = self.loaded.manifest.transaction != before
        what = "the stream changed; run again" if changed else "its state does not allow it; run 'singerlake verify'"
        self._find("manifest", "", f"nothing was committed: {outcome.reason}: {what}", problem=not changed)
        return False


prepare_decoders(_Named)
