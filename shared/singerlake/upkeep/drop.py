"""Dropping streams of a tap whole, or what one run brought to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from singerlake.errors import SingerlakeError, UnknownNameError, expected_errors
from singerlake.upkeep.catalogue_file import CatalogueFile
from singerlake.upkeep.context import LakeContext
from singerlake.upkeep.drop_stream import delete_now, drop_stream
from singerlake.upkeep.erase.erase import EraseResult, erase
from singerlake.upkeep.erase.of_run import OfRun
from singerlake.upkeep.file_count import NONE, Tally
from singerlake.upkeep.progress import Report, reporting
from singerlake.upkeep.result import FOR_PYTHON
from singerlake.upkeep.verify.findings import Finding


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DropResult:
    """What was done to each stream, or with ``dry_run`` would be. ``failed`` streams stopped no other."""

    lake: str
    dry_run: bool
    streams: tuple[StreamDrop, ...]
    findings: tuple[Finding, ...]
    failed: tuple[DropFailure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropRunResult:
    """What of a run was taken out of each stream, or with ``dry_run`` would be. ``failed`` streams stopped no other."""

    lake: str
    dry_run: bool
    run: str
    streams: tuple[EraseResult, ...]
    failed: tuple[DropFailure, ...]


def drop_streams(
    lake: LakeContext,
    tap: str,
    stream: str | None,
    *,
    now: bool,
    dry_run: bool,
    progress: Report | None,
) -> DropResult:
    """Drop a tap's streams, or one of them; with ``now`` delete their files at once."""
    tables = lake.tables_from(tap)
    done, findings, failed = list[StreamDrop](), list[Finding](), list[DropFailure]()
    for _, name in lake.chosen(tap, stream):
        reporting(progress, f"{tap}/{name}")
        emptied = False
        try:
            with expected_errors(tap=tap, stream=name):
                context = lake.stream(tap, name).context()
                dropped = drop_stream(context, dry_run=dry_run)
                deleted, attached = NONE, NONE
                if not dry_run:
                    emptied = True
                    CatalogueFile(lake.storage, tap).remove(name)
                if now:
                    collected = delete_now(context)
                    findings += collected.findings
                    deleted, attached = collected.deleted, collected.deleted_attached
        except SingerlakeError as error:
            failed.append(DropFailure(tap, name, emptied, error))
            continue
        done.append(
            StreamDrop(
                tap=tap,
                stream=name,
                files=dropped.files,
                records=dropped.records,
                unlisted=dropped.unlisted,
                attached=dropped.attached,
                keys=dropped.keys,
                left=dropped.left,
                deleted=deleted,
                deleted_attached=attached,
                tables=tables.get(name, ()),
                needed=dropped.after is not None,
            )
        )
    return DropResult(
        lake=lake.storage.url, dry_run=dry_run, streams=tuple(done), findings=tuple(findings), failed=tuple(failed)
    )


def drop_run(
    lake: LakeContext,
    tap: str,
    stream: str | None,
    run: str,
    *,
    now: bool,
    dry_run: bool,
    progress: Report | None,
) -> DropRunResult:
    """Drop the messages of a run from a tap's streams, or from one of them. Raises ``UnknownNameError`` where no stream
    holds any."""
    done, failed = list[EraseResult](), list[DropFailure]()
    begun = set[str]()
    for _, name in lake.chosen(tap, stream):
        bar = reporting(progress, f"{tap}/{name}")
        try:
            with expected_errors(tap=tap, stream=name):
                one = erase(
                    lake.stream(tap, name).context(),
                    OfRun(run),
                    now=now,
                    dry_run=dry_run,
                    tables_from=lake.tables_from,
                    progress=bar,
                    committed=partial(begun.add, name),
                )
            done.append(one)
        except SingerlakeError as error:
            # What the run brought to the others goes even if this cannot be.
            failed.append(DropFailure(tap, name, name in begun, error))
    if not failed and not any(one.messages or one.left or one.findings for one in done):
        raise UnknownNameError(
            f"no file holds a message of run {run!r}", hint="'singerlake status --json' shows the ids of runs", tap=tap
        )
    return DropRunResult(lake=lake.storage.url, dry_run=dry_run, run=run, streams=tuple(done), failed=tuple(failed))
