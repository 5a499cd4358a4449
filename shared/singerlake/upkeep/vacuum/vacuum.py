"""Vacuuming a lake: small neighbouring files joined into one, each join put through the manifest store by itself.

A join becomes visible with its commit, and is left as it is from then on; so a vacuum that was stopped is simply run
again, several may run at once, and writers and readers notice nothing: messages keep their offsets, and the replaced
files stay where they are until a collection removes them. Nothing is deleted here but a file of this vacuum's own that
was never offered to the manifest store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import TypeVar

from singerlake.errors import (
    BrokenFileError,
    LakeError,
    MissingFileError,
    SettingError,
    SingerlakeError,
    StorageUnavailableError,
)
from singerlake.format import layout
from singerlake.format.file_id import timed_id
from singerlake.format.state.files.data_file import DataFile, NewFile
from singerlake.format.state.transactions import ReplaceFiles
from singerlake.glance import at_a_glance
from singerlake.stores.port import Loaded
from singerlake.upkeep.context import Commits, LakeContext, StreamContext, record_run
from singerlake.upkeep.defaults import MOST_WAITING
from singerlake.upkeep.policy import age_kept
from singerlake.upkeep.result import NONE, UNSEEN, Finding, Progress, Report, Tally, reporting
from singerlake.upkeep.vacuum.join import Differs, FileHead, JoinedFile, alike, checked, join, read_head
from singerlake.upkeep.vacuum.plan import VacuumPlan, make_plan
from singerlake.work.parallel import THREADS, in_parallel


@dataclass(frozen=True, slots=True)
class Join:
    """Neighbouring files of one version from an offset on, that become one file."""

    offset: int
    version: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Joins:
    """What was to be joined, in offset order, and why other files were not: ``large`` ones are large enough,
    ``between`` are alone beside files of other versions, ``others`` have too little beside them, and ``later`` ones are
    joined when a collection has made room."""

    runs: tuple[Join, ...]
    large: Tally
    between: Tally
    others: Tally
    later: Tally

    @property
    def joined(self) -> Tally:
        """The files of all joins."""
        return sum((Tally(each.files, each.bytes) for each in self.runs), NONE)


@at_a_glance
@dataclass(frozen=True, slots=True)
class StreamVacuum:
    """What was done to one stream. ``joined`` files were replaced by ``into`` new ones. Files ``apart`` have neighbours
    with other SCHEMA messages, which the files alone tell; others replaced the files ``overtaken`` meanwhile. With
    ``dry_run`` there is the ``plan`` alone."""

    tap: str
    stream: str
    plan: Joins
    joined: Tally
    into: Tally
    apart: Tally
    overtaken: Tally


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumResult:
    """What was done to each stream. ``findings`` are files that are not what the manifest says, and streams whose state
    cannot be read."""

    lake: str
    dry_run: bool
    streams: tuple[StreamVacuum, ...]
    findings: tuple[Finding, ...]


def vacuum_lake(
    lake: LakeContext,
    tap: str | None,
    stream: str | None,
    work: Callable[..., Vacuumed],
    *,
    dry_run: bool,
    progress: Report | None,
) -> VacuumResult:
    """Vacuum the streams that are meant, each as ``work`` does: a ``vacuum_stream`` with all that is asked of it. One
    whose state cannot be read stops no other."""
    done, unread, findings = list[StreamVacuum](), list[Finding](), list[Finding]()
    metadata = lake.root_metadata()
    for name, each in lake.chosen(tap, stream):
        started = lake.clock.now()
        bar = reporting(progress, f"{name}/{each}")
        try:
            context = lake.stream(name, each).context()
            vacuumed = work(context, age=age_kept(metadata, name, each), dry_run=dry_run, progress=bar)
            if vacuumed.joined.files:
                record_run(context, "vacuum", vacuumed.joined, started=started)
        except (LakeError, SettingError) as error:
            unread.append(Finding("manifest", layout.stream_prefix(name, each), f"{error.message}; {error.hint}"))
            continue
        findings += vacuumed.findings
        plan, into, apart = _joins(vacuumed.plan), vacuumed.into, vacuumed.apart
        done.append(StreamVacuum(name, each, plan, vacuumed.joined, into, apart, vacuumed.overtaken))
    return VacuumResult(lake=lake.storage.url, dry_run=dry_run, streams=tuple(done), findings=(*unread, *findings))


def _joins(plan: VacuumPlan) -> Joins:
    """The plan without the files themselves, which may be millions."""
    runs = tuple(Join(group.offset, group.version, len(group), group.bytes) for group in plan.groups)
    return Joins(runs, plan.large, plan.between, plan.others, plan.later)


_BEGINNING = 1 << 16
"""Stored bytes among which a SCHEMA message is looked for first."""
Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What was done to a stream. ``joined`` are the files that are replaced now, by ``into`` new ones; ``apart`` were
    to be joined and have neighbours with other SCHEMA messages, which the files alone tell; ``overtaken`` were replaced
    by others meanwhile."""

    plan: VacuumPlan
    joined: Tally = NONE
    into: Tally = NONE
    apart: Tally = NONE
    overtaken: Tally = NONE
    findings: tuple[Finding, ...] = ()


def vacuum_stream(
    context: StreamContext,
    *,
    target_bytes: int,
    most_waiting: int = MOST_WAITING,
    age: timedelta | None = None,
    dry_run: bool = False,
    threads: int = THREADS,
    progress: Progress = UNSEEN,
) -> Vacuumed:
    """Join the small files of a stream; with ``dry_run`` only plan to. No more than ``most_waiting`` replaced files
    wait for a collector then; the others are joined by a later run. ``age`` is that of ``make_plan``. The total of
    ``progress`` is the stored bytes to join.

    A file that is not what the manifest says is a finding, and its group of files stays as it is. Raises as
    ``StreamContext.load_open``, ``TooManyConflictsError``, ``UnknownOutcomeError`` and what storage and store raise;
    what was committed by then stays.
    """
    loaded = context.load_open()
    if loaded is None:
        return Vacuumed(VacuumPlan())
    waiting = len(loaded.manifest.retired)
    plan = make_plan(loaded.manifest.files, target_bytes, age).within(max(0, most_waiting - waiting))
    progress.sized(plan.joined.bytes)
    if dry_run or not plan.groups:
        return Vacuumed(plan)
    vacuum = _Vacuum(context, threads, Commits(context, loaded, who="singerlake vacuum"))
    # Of a million files each state takes room, and only the newest is needed.
    del loaded
    for made in vacuum.made(plan):
        vacuum.finish(made)
        progress.advance(made.bytes)
    vacuum.settle(wait=True)
    context.store.publish(vacuum.commits.loaded, run_ended=True)
    return Vacuumed(plan, vacuum.joined, vacuum.into, vacuum.apart, vacuum.overtaken, tuple(vacuum.found()))


@dataclass(frozen=True, slots=True)
class _Made:
    """What came of joining some files, of ``bytes`` in the plan: the new file to commit, or why there is none."""

    bytes: int
    joined: JoinedFile | None = None
    file: NewFile | None = None
    finding: Finding | None = None


@dataclass
class _Vacuum:
    context: StreamContext
    threads: int
    commits: Commits[tuple[JoinedFile, NewFile]]
    joined: Tally = NONE
    into: Tally = NONE
    apart: Tally = NONE
    overtaken: Tally = NONE
    findings: list[Finding] = field(default_factory=list)

    def made(self, plan: VacuumPlan) -> Iterator[_Made]:
        """The files of a plan as they become ready, in its order, few of them ahead of the caller."""
        return self._each(self._make, self._joins(plan))

    def _joins(self, plan: VacuumPlan) -> Iterator[_Made]:
        """What to join, as far as the heads of the files allow."""
        heads = self._each(self._head, (file for group in plan.groups for file in group))
        for group in plan.groups:
            heads_of_group = list(islice(heads, len(group)))
            broken = [head for head in heads_of_group if isinstance(head, Finding)]
            if broken:
                self.findings += broken
                yield _Made(group.bytes)
                continue
            for same in alike(head for head in heads_of_group if isinstance(head, FileHead)):
                size = sum(head.file.bytes for head in same)
                if len(same) > 1:
                    yield _Made(size, self._join(same))
                else:
                    self.apart += Tally(1, size)
                    yield _Made(size)

    def _each(self, work: Callable[[Item], Answer], items: Iterable[Item]) -> Iterator[Answer]:
        return map(work, items) if self.threads == 1 else in_parallel(work, items, threads=self.threads)

    def _head(self, file: DataFile) -> FileHead | Finding:
        key = self.context.prefix + file.path
        length = (file.members[0][0] if file.members else file.bytes) or min(_BEGINNING, file.bytes)
        try:
            while True:
                beginning = self.context.storage.beginning(key, length)
                if beginning.size != file.bytes:
                    raise BrokenFileError(f"has {beginning.size} bytes, listed are {file.bytes}")
                head = read_head(file, beginning.data)
                if head.schema is not None or length >= file.bytes:
                    return head
                # Where the SCHEMA message shares its member with others, it is not known where it ends.
                length = min(max(4 * length, _BEGINNING), file.bytes)
        except MissingFileError:
            return self._missing(key)
        except BrokenFileError as error:
            return self._refused(key, error.message)

    def _join(self, group: tuple[FileHead, ...]) -> JoinedFile:
        assert self.commits.loaded.manifest.lineage is not None
        return join(
            group,
            id=timed_id(self.context.clock.now(), self.context.ids()),
            lineage=self.commits.loaded.manifest.lineage,
            stream=self.context.stream,
            now=self.context.clock.now(),
            lake_id=self.commits.loaded.manifest.lake_id,
        )

    def _make(self, made: _Made) -> _Made:
        """Put the joined file on storage and read it back; on any thread."""
        wanted = made.joined
        if wanted is None or not self._listed(wanted):
            return made
        key = self.context.prefix + wanted.file.path
        try:
            self.context.storage.compose(key, wanted.pieces(self.context.prefix))
        except MissingFileError as error:
            there = str(error.context.get("key", ""))
            ends = "end" in error.context
            return _Made(made.bytes, finding=self._refused(there, error.message) if ends else self._missing(there))
        problem = self._read_back(key, wanted)
        if isinstance(problem, NewFile):
            return _Made(made.bytes, wanted, problem)
        # Its id was in no transaction, so nothing can ever list it.
        with suppress(SingerlakeError):
            self.context.storage.delete(key)
        return _Made(made.bytes, finding=self._blamed(problem.head, key))

    def _read_back(self, key: str, wanted: JoinedFile, start: int = 0) -> NewFile | Differs:
        try:
            with self.context.storage.open(key, start) as body:
                return checked(body, wanted)
        except MissingFileError:
            return Differs(None)

    def _listed(self, wanted: JoinedFile) -> bool:
        """Whether the files are still there to be replaced, as far as is known: another vacuum may be at work."""
        known = self.commits.loaded.manifest.by_id
        return all(head.file.id in known for head in wanted.heads)

    def _blamed(self, head: FileHead | None, key: str) -> Finding:
        """Which original is not what the manifest says. Raises ``StorageUnavailableError`` where they all are."""
        if head is not None:
            source = self.context.prefix + head.file.path
            if isinstance(self._read_back(source, JoinedFile((head,), b"", head.file), len(head.dropped)), Differs):
                return self._refused(source, "its bytes are not those that the manifest lists")
        raise StorageUnavailableError(
            "storage returned other bytes of a joined file than were written",
            hint="check the storage, then run again; no file was replaced",
            key=key,
        )

    def finish(self, made: _Made) -> None:
        """Commit a file that was made, or note why there is none; on the caller's thread."""
        if made.finding is not None:
            self.findings.append(made.finding)
        if made.joined is None:
            return
        if made.file is None:
            self.overtaken += made.joined.replaced
            return
        replaced = tuple(head.file.id for head in made.joined.heads)
        self.commits.submit((made.joined, made.file), ReplaceFiles(old=replaced, new=(made.file,)))
        self.settle(wait=False)

    def settle(self, *, wait: bool) -> None:
        """Note what became of the commits that are settled, with ``wait`` of all."""
        for (wanted, file), outcome in self.commits.settled(wait=wait):
            if isinstance(outcome, Loaded):
                self.joined += wanted.replaced
                self.into += Tally(1, file.bytes)
                continue
            self.overtaken += wanted.replaced
            message = f"stays unlisted, since the stream changed meanwhile: {outcome.reason}"
            self.findings.append(Finding("unlisted", self.context.prefix + file.path, message, problem=False))
            self.commits.catch_up()

    def found(self) -> Iterator[Finding]:
        """The findings, without files that others replaced and collected meanwhile."""
        lost = any(finding.kind == "missing" for finding in self.findings)
        fresh = self.context.store.catch_up(self.commits.loaded) if lost else None
        listed = (
            {self.context.prefix + file.path for file in (fresh or self.commits.loaded).manifest.files}
            if lost
            else set()
        )
        for finding in self.findings:
            if finding.kind == "missing" and finding.key not in listed:
                yield Finding(
                    "vanished", finding.key, "another process replaced and collected it meanwhile", problem=False
                )
            else:
                yield finding

    def _refused(self, key: str, why: str) -> Finding:
        return Finding("differs", key, f"{why}; it and the files to join with it stay as they are")

    def _missing(self, key: str) -> Finding:
        return Finding("missing", key, "is listed but missing; the files to join with it stay as they are")
