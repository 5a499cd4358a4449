"""Dropping streams of a tap whole, or what one run brought to them.

The state of a dropped stream becomes one without files under a new lineage, which calls retired all that was there.
Nothing is deleted here but kept schemas: ``singerlake.upkeep.gc`` deletes retired files. The rules are in section 12.1
of ``shared/docs/format``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

import msgspec

from singerlake.clock import timestamp
from singerlake.errors import (
    LakeError,
    SingerlakeError,
    UnknownNameError,
    UnknownOutcomeError,
    expected_errors,
)
from singerlake.format import layout
from singerlake.format.state.additions import Conflict
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.attached_objects import objects_in
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.files.totals import totals_of
from singerlake.format.state.model import Manifest, Retired, Run
from singerlake.format.state.transactions import Rebase, Transaction
from singerlake.glance import at_a_glance
from singerlake.storage.port import Entry
from singerlake.storage.probe import storage_time
from singerlake.stores.commit import commit_once
from singerlake.stores.port import Loaded
from singerlake.stores.publish import stream_closed
from singerlake.upkeep.caches import CatalogueFile
from singerlake.upkeep.context import LakeContext, StreamContext
from singerlake.upkeep.erase.erase import EraseResult, erase
from singerlake.upkeep.erase.match import OfRun
from singerlake.upkeep.gc.apply import Collected, collect_now
from singerlake.upkeep.gc.segments import collect_segments
from singerlake.upkeep.result import FOR_PYTHON, NONE, Finding, Report, Tally, reporting, tally


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDrop:
    """What was done to one stream, or would be: its ``files`` with ``records`` in them, ``unlisted`` data files, and
    ``attached`` files. ``keys`` are the objects of all these, and of what waited for collection already; ``left`` are
    those of objects that stay, since the format does not put them there. ``deleted`` are the objects that went at once,
    with the attached files among them; ``tables`` were made from the stream, and stay. A stream without anything to
    drop is not ``needed``."""

    tap: str
    stream: str
    files: Tally
    records: int
    unlisted: Tally
    attached: Tally
    keys: tuple[str, ...]
    left: tuple[str, ...]
    deleted: Tally
    deleted_attached: Tally
    tables: tuple[str, ...]
    needed: bool = field(metadata=FOR_PYTHON)


@dataclass(frozen=True, slots=True)
class DropFailure:
    """A stream of which something could not be done, and why. ``dropped``: it was dropped before, at least in part."""

    tap: str
    stream: str
    dropped: bool
    error: SingerlakeError


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class DropResult:
    """What was done to each stream, or with ``dry_run`` would be. ``failed`` streams stopped no other."""

    lake: str
    dry_run: bool
    streams: tuple[StreamDrop, ...]
    findings: tuple[Finding, ...]
    failed: tuple[DropFailure, ...]


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class DropRunResult:
    """What of a run was taken out of each stream, or with ``dry_run`` would be. ``failed`` streams stopped no other."""

    lake: str
    dry_run: bool
    run: str
    streams: tuple[EraseResult, ...]
    failed: tuple[DropFailure, ...]


def drop_streams(
    lake: LakeContext, tap: str, stream: str | None, *, now: bool, dry_run: bool, progress: Report | None
) -> DropResult:
    """Drop a tap's streams, or one of them; with ``now`` delete their files at once."""
    pairs = lake.chosen(tap, stream)
    tables = {name: lake.tables_from(name) for name in dict.fromkeys(name for name, _ in pairs)}
    done, findings, failed = list[StreamDrop](), list[Finding](), list[DropFailure]()
    for each, name in pairs:
        reporting(progress, f"{each}/{name}")
        emptied = False
        try:
            with expected_errors(tap=each, stream=name):
                context = lake.stream(each, name).context()
                dropped = drop_stream(context, dry_run=dry_run)
                deleted, attached = NONE, NONE
                if not dry_run:
                    emptied = True
                    CatalogueFile(lake.storage, each).remove(name)
                if now:
                    collected = delete_now(context)
                    findings += collected.findings
                    deleted, attached = collected.deleted, collected.deleted_attached
        except SingerlakeError as error:
            failed.append(DropFailure(each, name, emptied, error))
            continue
        done.append(
            StreamDrop(
                tap=each,
                stream=name,
                files=dropped.files,
                records=dropped.records,
                unlisted=dropped.unlisted,
                attached=dropped.attached,
                keys=dropped.keys,
                left=dropped.left,
                deleted=deleted,
                deleted_attached=attached,
                tables=tables[each].get(name, ()),
                needed=dropped.after is not None,
            )
        )
    return DropResult(
        lake=lake.storage.url, dry_run=dry_run, streams=tuple(done), findings=tuple(findings), failed=tuple(failed)
    )


def drop_run(
    lake: LakeContext, tap: str, stream: str | None, run: str, *, now: bool, dry_run: bool, progress: Report | None
) -> DropRunResult:
    """Drop the messages of a run, named by its id or its writer, from a tap's streams, or from one of them. Raises
    ``UnknownNameError`` where no stream holds any."""
    done, failed = list[EraseResult](), list[DropFailure]()
    begun = set[tuple[str, str]]()
    pairs = lake.chosen(tap, stream)
    run = _id_of(lake, pairs, run)
    for each, name in pairs:
        bar = reporting(progress, f"{each}/{name}")
        try:
            with expected_errors(tap=each, stream=name):
                one = erase(
                    lake.stream(each, name).context(),
                    OfRun(run),
                    now=now,
                    dry_run=dry_run,
                    tables_from=lake.tables_from,
                    progress=bar,
                    committed=partial(begun.add, (each, name)),
                )
            done.append(one)
        except SingerlakeError as error:
            # What the run brought to the others goes even if this cannot be.
            failed.append(DropFailure(each, name, (each, name) in begun, error))
    if not failed and not any(one.messages or one.left or one.findings for one in done):
        raise UnknownNameError(
            f"no file holds a message of run {run!r}",
            hint="'singerlake status --by-run' shows the writers of runs",
            tap=tap,
        )
    return DropRunResult(lake=lake.storage.url, dry_run=dry_run, run=run, streams=tuple(done), failed=tuple(failed))


def _id_of(lake: LakeContext, pairs: Sequence[tuple[str, str]], run: str) -> str:
    """The id of the run that ``run`` is the writer of, or else ``run``."""
    for each, name in pairs:
        with suppress(LakeError):
            manifest = lake.stream(each, name).state()
            for known in manifest.runs if manifest else ():
                if known.writer == run:
                    return known.id
    return run


_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Drop:
    """What a drop takes from a stream. ``files`` were listed, with ``records`` in them; ``unlisted`` are data files
    that nothing knows; ``attached`` are attached files; ``schemas`` are kept without a message. ``keys`` are the
    objects of all these, and of what waits for collection already. ``left`` are the keys of objects that stay: they are
    not data files, or end in no id of their own. ``after`` is the new state, None where nothing is to be dropped."""

    files: Tally = NONE
    records: int = 0
    unlisted: Tally = NONE
    attached: Tally = NONE
    schemas: tuple[Entry, ...] = ()
    keys: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    after: Manifest | None = None


def drop_stream(context: StreamContext, *, dry_run: bool) -> Drop:
    """Drop a stream, or with ``dry_run`` say what that would take. A writer that commits meanwhile keeps what it
    commits after the drop. Raises as ``StreamContext.load_open``, ``TooManyConflictsError`` where writers kept coming
    first, ``UnknownOutcomeError``, and what storage and store raise."""
    unknown: UnknownOutcomeError | None = None
    tried: dict[str | None, Drop] = {}
    for _ in range(_ATTEMPTS):
        base = context.load()
        if base is None:
            return Drop()
        manifest = base.manifest
        if manifest.lineage in tried:
            return _dropped(context, base, tried[manifest.lineage])
        if manifest.closed is not None:
            raise stream_closed(context.tap, context.stream, manifest.closed)
        drop = plan_drop(manifest, list(context.storage.list(context.prefix)), run=_run(context), lineage=context.ids())
        if dry_run or drop.after is None:
            return drop
        tried[drop.after.lineage] = drop
        try:
            loaded = _committed(context, base, drop.after)
        except UnknownOutcomeError as error:
            unknown = error
            continue
        if loaded is not None:
            return _dropped(context, loaded, drop)
    message = "writers kept changing the stream; nothing was dropped"
    raise unknown or context.overtaken(message, "run again when they are done")


def delete_now(context: StreamContext) -> Collected:
    """Delete the files of a stream that was dropped, and its old transactions, without a grace time: readers that still
    read it fail, and so do writers that stood still since before the drop. Raises as ``collect_now``."""
    collected = collect_now(context)
    context.store.trim(keep=0, dry_run=False)
    time = partial(storage_time, context.storage, ids=context.ids)
    for _ in ("unnamed", "abandoned", "deleted"):
        collect_segments(context.store.segments, time=time, grace=timedelta(0), delete=True)
    return collected


def plan_drop(before: Manifest, entries: Sequence[Entry], *, run: Run, lineage: str) -> Drop:
    """The drop of a stream in the state ``before`` whose folder holds ``entries``, by ``run``. Pure."""
    prefix = layout.stream_prefix(before.tap, before.stream)
    retired = {file.id: msgspec.structs.replace(file, by=None) for file in before.retired}
    retired |= {file.id: _retired(file.id, file.path, run.updated) for file in before.files}
    retired |= {name: _retired(name, path, run.updated) for name, path in objects_in(before.files).items()}
    known = {file.path for file in retired.values()}
    data = [entry for entry in entries if layout.is_data_file(entry.key[len(prefix) :])]
    unknown = [entry for entry in data if entry.key[len(prefix) :] not in known]
    names = Counter(layout.file_id_in(entry.key) for entry in unknown)
    unlisted: dict[str, Entry] = {}
    left = [entry.key for entry in entries if _is_foreign(entry.key[len(prefix) :])]
    for entry in unknown:
        id = layout.file_id_in(entry.key)
        if id is None or id in retired or names[id] > 1:
            left.append(entry.key)
        else:
            unlisted[id] = entry
    named = [(layout.attached_name_in(entry.key[len(prefix) :]), entry) for entry in entries]
    attached = {name: entry for name, entry in named if name is not None}
    schemas = tuple(entry for entry in entries if layout.is_kept_schema(entry.key[len(prefix) :]))
    stays = frozenset(left)
    totals = totals_of(before.files)
    drop = Drop(
        files=Tally(len(before.files), totals.bytes),
        records=totals.records,
        unlisted=tally(entry.size for entry in unlisted.values()),
        attached=tally(entry.size for entry in attached.values()),
        schemas=schemas,
        keys=tuple(entry.key for entry in (*data, *attached.values(), *schemas) if entry.key not in stays),
        left=tuple(left),
    )
    waiting = {file.id for file in before.retired}
    if not (before.files or before.versions or unlisted or attached.keys() - waiting or schemas):
        return drop
    retired |= {id: _retired(id, entry.key[len(prefix) :], run.updated) for id, entry in unlisted.items()}
    for name, entry in attached.items():
        retired.setdefault(name, _retired(name, entry.key[len(prefix) :], run.updated))
    gone = drop.files + drop.unlisted + drop.attached
    after = msgspec.structs.replace(
        before,
        lineage=lineage,
        next_offset=0,
        versions={},
        schemas={},
        files=FileList(),
        retired=AppendOnlyList(retired.values()),
        runs=(msgspec.structs.replace(run, files=gone.files, bytes=gone.bytes),),
    )
    return replace(drop, after=after)


def _retired(id: str, path: str, since: str) -> Retired:
    return Retired(id=id, path=path, by=None, since=since)


def _is_foreign(path: str) -> bool:
    """Whether an object of a stream's folder is nothing that the format puts there."""
    name = path.rpartition("/")[2]
    own = path == layout.MANIFEST or name == layout.LOCK or path.startswith(f"{layout.LOG}/")
    own = own or layout.attached_name_in(path) is not None
    return not (own or layout.is_data_file(path) or layout.is_kept_schema(path))


def _run(context: StreamContext) -> Run:
    id, now = context.ids(), timestamp(context.clock.now())
    return Run(id=id, writer=f"singerlake drop {id}", started=now, updated=now, status="finished", kind="drop")


def _committed(context: StreamContext, base: Loaded, after: Manifest) -> Loaded | None:
    """The state that the drop made; None where a writer came first: a whole state is committed to its base alone."""
    store, clock = context.store, context.clock
    transaction = Transaction(id=context.ids(), at=timestamp(clock.now()), change=Rebase(manifest=after))
    with context.alone("singerlake drop", store):
        outcome = commit_once(store, base, transaction, clock=clock)
    if isinstance(outcome, Conflict) and outcome.successor is not None:
        raise stream_closed(context.tap, context.stream, outcome.successor)
    return outcome if isinstance(outcome, Loaded) else None


def _dropped(context: StreamContext, loaded: Loaded, drop: Drop) -> Drop:
    """Show readers the new state, and delete the schemas that were kept before it."""
    context.store.publish(loaded, run_ended=True)
    _delete(context, drop.schemas)
    return drop


def _delete(context: StreamContext, schemas: Iterable[Entry]) -> None:
    conditional = context.storage.capabilities().conditional_delete
    for entry in schemas:
        context.storage.delete(entry.key, if_match=entry.etag if conditional else None)
