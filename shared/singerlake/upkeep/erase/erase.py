"""Erasing messages from one stream: files without them take the place of the files that hold them.

Each file becomes visible with its own commit, so an erasure that was stopped is simply run again. It ends when every
file that the stream lists was looked into, also those that came meanwhile. Nothing is deleted here but a file of this
run's own that no state can list, and what a collection deletes at once: ``singerlake.upkeep.gc`` deletes the replaced
files later. The rules are in section 12.2 of ``shared/docs/format``.
"""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from singerlake.conditions import Condition
from singerlake.errors import SingerlakeError
from singerlake.format import layout
from singerlake.format.file_id import timed_id
from singerlake.format.state.features import ATTACHED, features_of
from singerlake.format.state.files.data_file import DataFile, NewFile
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import EraseFiles
from singerlake.glance import at_a_glance
from singerlake.storage.port import Entry
from singerlake.stores.port import Loaded
from singerlake.upkeep.context import Commits, StreamContext, record_run
from singerlake.upkeep.erase.declared import as_declared, doubt
from singerlake.upkeep.erase.find import FindMessages, FoundMessages, Sought, look_at_unfinished
from singerlake.upkeep.erase.match import Meant, OfRun, Ready
from singerlake.upkeep.erase.members import (
    LeftObject,
    RowsOf,
    added,
    left_objects,
    rows_of,
    tally_of,
    unfinished_objects,
)
from singerlake.upkeep.erase.rewrite import Rewrite, RewriteFiles, Rewritten
from singerlake.upkeep.gc.apply import Collected, collected_now
from singerlake.upkeep.gc.plan import CollectionPlan
from singerlake.upkeep.result import FOR_PYTHON, NONE, UNSEEN, Finding, Progress, Tally
from singerlake.work.engine import Engine, Threads


@dataclass(frozen=True, slots=True)
class ErasedFile:
    """A data file at ``key`` with so many messages that are meant, ``records`` of them RECORD messages."""

    key: str
    messages: int
    records: int


@dataclass(frozen=True, slots=True)
class LeftFile(ErasedFile):
    """The same of a file that no reader is led to. One that is not ``retired`` is listed nowhere."""

    retired: bool


@dataclass(frozen=True, slots=True)
class UnownedFile:
    """An attached file at ``key`` that no record has. ``bytes`` is None where it is not whole. One that is not
    ``retired`` is listed nowhere."""

    key: str
    bytes: int | None
    retired: bool


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class EraseResult:
    """What was erased from a stream, or with ``dry_run`` would be: so many messages, ``records`` of them RECORD
    messages, from ``files``. All files that were read are ``looked``.

    Files ``left`` still hold what was erased, until they are deleted. ``values_held`` are the values of the condition
    that some record holds, counted from 0; it names ``values``. ``attached`` are the attached files of erased records
    that no other record has, ``unowned`` those on storage that no record has. ``deleted`` are the objects that went at
    once, with the attached files among them. ``tables`` are made from the stream: their next run makes them anew.
    ``error`` is why not all files that should have gone at once did. ``run`` is the id of the run whose messages were
    meant, None where a condition was.
    """

    tap: str
    stream: str
    messages: int
    records: int
    files: tuple[ErasedFile, ...]
    looked: Tally
    left: tuple[LeftFile, ...]
    values_held: tuple[int, ...]
    attached: Tally
    unowned: tuple[UnownedFile, ...]
    deleted: Tally
    deleted_attached: Tally
    tables: tuple[str, ...]
    findings: tuple[Finding, ...]
    error: SingerlakeError | None
    values: int = field(metadata=FOR_PYTHON)
    run: str | None = field(metadata=FOR_PYTHON)
    dry_run: bool = field(metadata=FOR_PYTHON)
    now: bool = field(metadata=FOR_PYTHON)


def erase(
    context: StreamContext,
    meant: Meant,
    *,
    now: bool,
    dry_run: bool,
    tables_from: Callable[[str], Mapping[str, tuple[str, ...]]],
    undeclared: bool = False,
    engine: Engine | None = None,
    progress: Progress = UNSEEN,
    committed: Callable[[], object] = lambda: None,
) -> EraseResult:
    """Erase what is ``meant`` from a stream. ``now``: delete the files that held it, and the attached files of what was
    erased. ``tables_from`` gives the tables that are made from each stream of a tap. ``committed`` is called when
    something was erased: an error does not undo it. Raises as ``erase_messages``, and what storage raises."""
    started = context.clock.now()
    done = erase_messages(
        context,
        meant,
        who=who_erases(),
        dry_run=dry_run,
        undeclared=undeclared,
        engine=engine,
        progress=progress,
        committed=committed,
    )
    if not dry_run and done.messages:
        record_run(context, "erase", done.replaced, records=done.records, started=started)
    held = frozenset(trace.id for trace in done.left if trace.id is not None)
    collected, failed = collected_now(context, held | done.objects) if now else (Collected(CollectionPlan()), None)
    gone = frozenset(collected.keys)
    left = [each for each in done.left if not now or each.id is None or context.storage.head(each.key)]
    return EraseResult(
        tap=context.tap,
        stream=context.stream,
        messages=done.messages,
        records=done.records,
        files=tuple(ErasedFile(each.key, each.messages, each.records) for each in done.traces),
        looked=done.looked,
        left=tuple(LeftFile(each.key, each.messages, each.records, each.id is not None) for each in left),
        values_held=tuple(sorted(done.entries)),
        attached=done.attached,
        unowned=tuple(
            UnownedFile(each.key, each.bytes, each.id is not None) for each in done.unowned if each.key not in gone
        ),
        deleted=collected.deleted,
        deleted_attached=collected.deleted_attached,
        tables=tables_from(context.tap).get(context.stream, ()),
        findings=done.findings + collected.findings,
        error=failed,
        values=meant.entries if isinstance(meant, Condition) else 0,
        run=meant.run if isinstance(meant, OfRun) else None,
        dry_run=dry_run,
        now=now,
    )


def who_erases() -> str:
    """Who erases, as the new files say it for as long as they are there."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "unknown"
    # The environment may hold bytes that are not text, and the new files hold nothing else.
    return f"{user}@{socket.gethostname()}"[:200].encode("utf-8", "replace").decode()


_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Trace:
    """An object with ``messages`` that are meant, ``records`` of them RECORD messages. ``id`` is a retired file's."""

    key: str
    messages: int
    records: int
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased from a stream, or with ``dry_run`` would be. ``traces`` are the listed files with what is, or
    was, to be erased of them. ``looked`` are all files that were looked into. ``left`` are data files that no reader
    is led to, and hold such records still: retired ones, and those that nothing lists. ``entries`` are the values of
    the condition that some record holds. ``replaced`` are the files that others took the place of. ``attached`` are
    attached files that no record has then, ``objects`` the names of all that erased records had, whenever they were
    erased, and ``unowned`` those on storage that no record has, whosever they were."""

    traces: tuple[Trace, ...] = ()
    looked: Tally = NONE
    left: tuple[Trace, ...] = ()
    entries: frozenset[int] = frozenset()
    replaced: Tally = NONE
    findings: tuple[Finding, ...] = ()
    attached: Tally = NONE
    objects: frozenset[str] = frozenset()
    unowned: tuple[LeftObject, ...] = ()

    @property
    def messages(self) -> int:
        return sum(trace.messages for trace in self.traces)

    @property
    def records(self) -> int:
        return sum(trace.records for trace in self.traces)


def erase_messages(
    context: StreamContext,
    meant: Meant,
    *,
    who: str,
    dry_run: bool,
    undeclared: bool = False,
    engine: Engine | None = None,
    progress: Progress = UNSEEN,
    committed: Callable[[], object] = lambda: None,
) -> Erased:
    """Erase the messages of a stream that are ``meant``, or with ``dry_run`` say where they are. ``who`` is noted in
    the new files. ``undeclared``: look also for what no record has that is as the stream's versions declare it.
    ``engine`` reads and writes the files, threads of this process by default. The total of ``progress`` is the stored
    bytes of all data files. ``committed`` is called when messages of a file were erased.

    A file that cannot be read, or is not what the manifest says, is a finding, and stays as it is. Raises what
    ``doubt`` gives, as ``StreamContext.load_open``, ``TooManyConflictsError`` where files kept being replaced by
    others, ``UnknownOutcomeError`` and what storage and store raise; what was committed by then stays.
    """
    loaded = context.load_open()
    if loaded is None:
        return Erased()
    if isinstance(meant, Condition) and not undeclared and (error := doubt(meant, loaded.manifest)) is not None:
        raise error
    if isinstance(meant, Condition):
        meant = as_declared(meant, loaded.manifest)
    commits: Commits[tuple[DataFile, Rewritten]] = Commits(context, loaded, who="singerlake erase")
    erasure = _Erasure(context, Ready(meant), who, engine or Threads(context.storage), progress, commits, committed)
    there = _Objects.of(context)
    progress.sized(sum(entry.size for entry in there.data))
    erasure.run(dry_run=dry_run)
    if not dry_run:
        context.store.publish(commits.loaded, run_ended=True)
        there = _Objects.of(context)
    erasure.look_beside(there)
    return erasure.result()


@dataclass(frozen=True, slots=True)
class _Objects:
    data: list[Entry]
    attached: list[Entry]

    @classmethod
    def of(cls, context: StreamContext) -> _Objects:
        found = cls([], [])
        for entry in context.storage.list(context.prefix):
            path = entry.key[len(context.prefix) :]
            if layout.is_data_file(path):
                found.data.append(entry)
            elif layout.attached_name_in(path) is not None:
                found.attached.append(entry)
        return found


@dataclass
class _Erasure:
    context: StreamContext
    ready: Ready
    who: str
    engine: Engine
    progress: Progress
    commits: Commits[tuple[DataFile, Rewritten]]
    committed: Callable[[], object]
    dry_run: bool = True
    clean: set[str] = field(default_factory=set)
    traces: list[Trace] = field(default_factory=list)
    left: list[Trace] = field(default_factory=list)
    looked: Tally = NONE
    replaced: Tally = NONE
    entries: set[int] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)
    rows: list[RowsOf] = field(default_factory=list)
    rows_beside: list[RowsOf] = field(default_factory=list)
    unowned: list[LeftObject] = field(default_factory=list)

    @property
    def manifest(self) -> Manifest:
        return self.commits.loaded.manifest

    def result(self) -> Erased:
        rows = added(*self.rows)
        return Erased(
            tuple(self.traces),
            self.looked,
            tuple(self.left),
            frozenset(self.entries),
            self.replaced,
            tuple(self.findings),
            tally_of(rows, self._gone(rows)),
            frozenset(self._gone(added(*self.rows, *self.rows_beside))),
            tuple(self.unowned),
        )

    def _gone(self, rows: Mapping[str, tuple[int, int]]) -> Iterator[str]:
        """The objects of erased records, which ``rows`` name, that no record has then."""
        if not rows:
            return
        listed = added(rows_of(row for file in self.manifest.files for row in file.attached))
        # Without a change, rows of what would be erased are among those of the listed files.
        ours = added(*self.rows) if self.dry_run else {}
        for name in rows:
            if listed.get(name, (0, 0))[0] <= ours.get(name, (0, 0))[0]:
                yield name

    def run(self, *, dry_run: bool) -> None:
        """Look into every listed file, and write those again that hold what is meant, until all were looked into."""
        self.dry_run = dry_run
        for _ in range(_ROUNDS):
            unknown = [file for file in self.manifest.files if file.id not in self.clean]
            if not unknown:
                return
            holding = list(self._look_into(unknown))
            if dry_run:
                self.traces += [Trace(self._key(file), found.messages, found.records) for file, found in holding]
                self.rows += [found.attached for _, found in holding]
                return
            self._write_again([file for file, _ in holding])
            self.commits.catch_up()
        message = "files kept being replaced by others; what was erased by then stays erased"
        raise self.context.overtaken(message, "run again when vacuum and rebuild are done")

    def _look_into(self, files: list[DataFile]) -> Iterator[tuple[DataFile, FoundMessages]]:
        """The files that hold what is meant, with how much of it."""
        sought = {self._key(file): file for file in files}
        items = (Sought(key, file.bytes) for key, file in sought.items())
        asked = self.dry_run and any(file.attached for file in files)
        for item, found in self.engine(FindMessages(self.ready, asked), items):
            file = sought[item.key]
            self.progress.advance(item.bytes)
            self.looked += Tally(1, file.bytes)
            self.entries |= found.entries
            if found.trouble is not None and not self._was_replaced(file, found.trouble):
                self.findings.append(found.trouble)
            if found.messages:
                yield file, found
            else:
                self.clean.add(file.id)

    def _was_replaced(self, file: DataFile, trouble: Finding) -> bool:
        """Whether a file is missing since others replaced and collected it meanwhile."""
        if trouble.kind != "missing":
            return False
        fresh = self.context.store.catch_up(self.commits.loaded)
        return fresh is not None and file.id not in fresh.manifest.by_id

    def _write_again(self, files: list[DataFile]) -> None:
        lineage = self.manifest.lineage
        assert lineage is not None
        now, ids = self.context.clock.now(), self.context.ids
        task = RewriteFiles(self.ready, self.context.prefix, self.context.stream, now, self.who)
        items = [Rewrite(file, timed_id(now, ids()), lineage, self.manifest.lake_id) for file in files]
        for item, answer in self.engine(task, items):
            if isinstance(answer, Finding):
                self._refused(item.file, answer)
            elif answer.file is not None:
                self._commit(item.file, answer, answer.file)
        self._settle(wait=True)

    def _refused(self, file: DataFile, finding: Finding) -> None:
        if not self._was_replaced(file, finding):
            # Findings of the first read are repeated here.
            self.findings = [known for known in self.findings if known.key != finding.key] + [finding]
        # It is read once: what cannot be read now cannot be erased by trying again.
        self.clean.add(file.id)

    def _commit(self, file: DataFile, made: Rewritten, new: NewFile) -> None:
        if self.commits.submit((file, made), EraseFiles(old=(file.id,), new=(new,))).outcome is None:
            # It is stored, and takes effect unless it turns out to be void.
            self.committed()
        self._settle(wait=False)

    def _settle(self, *, wait: bool) -> None:
        """Note what became of the commits that are settled, with ``wait`` of all."""
        for (file, made), outcome in self.commits.settled(wait=wait):
            assert made.file is not None
            if isinstance(outcome, Loaded):
                self.committed()
                self.clean.add(made.file.id)
                self.traces.append(Trace(self._key(file), made.messages, made.records))
                self.rows.append(made.attached)
                self.replaced += Tally(1, file.bytes)
                continue
            # A conflict is final, so no state can ever list the file; the records are looked for again where they are.
            with suppress(SingerlakeError):
                self.context.storage.delete(self._key(made.file))

    def look_beside(self, there: _Objects) -> None:
        """Look into the data files that readers are not led to, and for the attached files that no record has."""
        self._look_beside(Sought(entry.key, entry.size) for entry in there.data)
        if there.attached:
            # What a writer has listed meanwhile is none of them.
            self.commits.catch_up()
        self.unowned += left_objects(self.manifest, there.attached, self.context.prefix)
        self.unowned += unfinished_objects(self.context.storage, self.context.prefix)

    def _look_beside(self, objects: Iterable[Sought]) -> None:
        listed = {self._key(file) for file in self.manifest.files}
        retired = {self.context.prefix + file.path: file.id for file in self.manifest.retired}
        known = {trace.key: trace for trace in self.traces if trace.key in retired}
        beside = []
        for item in objects:
            if item.key in known:
                self.left.append(replace(known[item.key], id=retired[item.key]))
            elif item.key not in listed:
                beside.append(item)
        asked = ATTACHED in features_of(self.manifest)
        for item, found in self.engine(FindMessages(self.ready, asked), beside):
            self.progress.advance(item.bytes)
            self.rows_beside.append(found.attached)
            if found.messages:
                self.left.append(Trace(item.key, found.messages, found.records, retired.get(item.key)))
            elif found.trouble is not None and found.trouble.kind != "missing":
                message = f"is unlisted and cannot be read: {found.trouble.message}"
                self.findings.append(Finding("broken", item.key, message, problem=False))
        for name, found in look_at_unfinished(self.context.storage, self.context.prefix, self.ready):
            self.left.append(Trace(name, found.messages, found.records))

    def _key(self, file: NewFile) -> str:
        return self.context.prefix + file.path
