"""A stream's manifest from its data files alone.

Nothing but the files' own bytes decides: identity, version, counts and order come from their headers and messages,
never from where they lie or what they are called. ``rebuilt`` is pure. No state is made of the files of atomic runs
that were not committed (section 11.6 of ``shared/docs/format``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from singerlake.format import layout
from singerlake.format.lines.times import known_span
from singerlake.format.schema_hash import hash_among
from singerlake.format.state.attached_objects import left_behind
from singerlake.format.state.files.data_file import DataFile, NewFile
from singerlake.format.state.model import Manifest, Retired, SchemaVersion, StreamSchema
from singerlake.storage.port import Storage
from singerlake.stores.atomic.decisions import Decisions
from singerlake.upkeep.context import stream_objects
from singerlake.upkeep.rebuild.choose import TornFile
from singerlake.upkeep.rebuild.on_disk import DistinctFiles, FormerFiles, FoundFiles, Listing
from singerlake.upkeep.rebuild.survey import Survey, survey
from singerlake.upkeep.result import Finding
from singerlake.upkeep.scanned_file import FileFacts, ScannedFile
from singerlake.work.engine import Engine


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A stream's state made anew, and what was odd on the way. ``unlisted`` are the paths of files that no former state
    listed, if one was given. ``torn`` files have to be written again to have all messages that were not erased."""

    manifest: Manifest
    findings: tuple[Finding, ...]
    unlisted: tuple[tuple[str, str], ...] = ()
    torn: tuple[TornFile, ...] = ()


def rebuild_manifest(storage: Storage, birth: Manifest, *, engine: Engine | None = None) -> Rebuilt:
    """The state of a stream from all of its data files. ``birth`` is that stream without files (``fold.empty``). Its
    lineage is a new one, or None for a state in memory that a reader makes for itself.

    Broken files are left out and reported; files are chosen so that every source is covered, exactly once where that
    can be; offsets begin at 0 in the order (``created``, ``run``, ``seq``). ``engine`` is what reads, threads of this
    process by default. Raises what storage raises.
    """
    tap, stream = birth.tap, birth.stream
    surveyed = survey(storage, tap, stream, stream_objects(storage, tap, stream), engine=engine)
    return rebuilt(without_uncommitted(surveyed, storage, tap, stream), birth)


def rebuilt(surveyed: Survey, birth: Manifest, former: FormerFiles | None = None) -> Rebuilt:
    """What the stream would be had its files been committed to ``birth``, a state without files, one by one. Meets
    those of ``former`` that are listed again, and those whose messages a listed file holds. Raises what
    ``ScratchDatabase`` raises."""
    prefix = layout.stream_prefix(birth.tap, birth.stream)
    files = DistinctFiles(surveyed.files, prefix)
    choice = files.chosen()
    versions = _Versions()
    listed = Listing()
    unlisted: list[tuple[str, str]] = []
    changed: list[Finding] = []
    offset = 0
    kept = deque(surveyed.kept)
    for file in files.in_order(choice.files):
        while kept and kept[0].order < file.order:
            versions.seen(kept[0].content, kept.popleft().created, offset)
        facts = file.facts
        placed = listed_at(file, facts, versions.seen(file.schema, facts.created, offset), offset)
        if former is not None:
            known = former.meet(file.id)
            if known is None:
                unlisted.append((file.id, file.path))
            else:
                placed = timed(placed, facts, known)
                other = other_bytes(file, facts, known, prefix)
                changed += (other,) if other is not None else ()
            for source, _ in file.replaces:
                former.meet(source)
            placed = known if known is not None and known == placed else placed
        listed.append(placed)
        offset += file.messages
    for held_schema in kept:
        versions.seen(held_schema.content, held_schema.created, offset)
    retired = [Retired(id=file.id, path=file.path, by=holder, since=birth.created) for file, holder in choice.covered]
    erased: list[Retired] = []
    all_files = listed.files()
    if not any(finding.problem for finding in surveyed.findings):
        # A damaged file may have rows of such objects, and be restored.
        erased = left_behind((file.facts for file, _ in choice.covered), all_files, birth.created)
    manifest = msgspec.structs.replace(
        birth,
        next_offset=offset,
        versions=versions.labels,
        schemas=versions.schemas,
        files=all_files,
        retired=(*retired, *erased),
    )
    findings = (*surveyed.findings, *files.findings, *choice.findings, *changed)
    return Rebuilt(manifest, findings, tuple(unlisted), choice.torn)


class _Versions:
    """The labels and the schemas of a stream that begins."""

    def __init__(self) -> None:
        self.labels: dict[str, str] = {}
        self.schemas: dict[str, SchemaVersion] = {}
        self.hashes = Hashes({})
        self._latest: dict[str, StreamSchema] = {}

    def seen(self, schema: StreamSchema, created: str, offset: int) -> str:
        """The version of messages with this schema, which come next."""
        version = self.hashes.of(schema)
        if schema is not self._latest.get(version):
            self._latest[version] = schema
            self.labels.setdefault(version, f"v{len(self.labels) + 1}")
            before = self.schemas.get(version)
            first = (before.first_offset, before.first_seen) if before else (offset, created)
            self.schemas[version] = schema_version(schema, *first)
        return version


def schema_version(said: StreamSchema, first_offset: int, first_seen: str) -> SchemaVersion:
    """A version that SCHEMA messages of this content began there and then."""
    return SchemaVersion(
        schema=said.schema,
        key_properties=said.key_properties,
        bookmark_properties=said.bookmark_properties,
        first_offset=first_offset,
        first_seen=first_seen,
    )


class Hashes:
    """The versions of schemas in a stream that knows ``known`` (hash -> schema) and each schema asked for since."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._known = dict(known)
        self._seen: dict[int, tuple[StreamSchema, str]] = {}

    def of(self, schema: StreamSchema) -> str:
        """The hash of a file's SCHEMA line. Cheap for an object that was asked for before."""
        seen = self._seen.get(id(schema))
        if seen is None:
            version = hash_among(schema.schema, self._known)
            self._known.setdefault(version, schema.schema)
            seen = self._seen[id(schema)] = (schema, version)
        return seen[1]


def other_bytes(file: ScannedFile, said: FileFacts, known: DataFile, prefix: str) -> Finding | None:
    """What is to be said of a file that a state listed (``known``) with another checksum; None where it had this one.
    A gzip header has no checksum of its own, so a damaged one looks like one that somebody wrote."""
    if said.sha256 == known.sha256:
        return None
    return Finding(
        "differs",
        prefix + file.path,
        "its bytes are not those that the manifest listed, though its messages can be read; it is listed as it is now: "
        "restore it from a backup unless somebody changed it on purpose",
    )


def timed(placed: DataFile, said: FileFacts, known: DataFile) -> DataFile:
    """A file as it is placed by what it says of itself, with the times it was listed with (``known``) where its records
    have none: only the writer knew when those came. So it is where records were erased, if the others came within."""
    listed = known_span(known.first, known.last)
    if listed is None:
        return placed
    if said.first is not None:
        own = known_span(placed.first, placed.last)
        if not said.erased or own is None or not (listed[0] <= own[0] and own[1] <= listed[1]):
            return placed
    return msgspec.structs.replace(placed, first=known.first, last=known.last)


def describe(file: ScannedFile, version: str) -> NewFile:
    """A file as a transaction lists it; ``version`` is its own SCHEMA line's."""
    placed = msgspec.structs.asdict(listed_at(file, file.facts, version, 0))
    del placed["offset"]
    return NewFile(**placed)


def listed_at(file: ScannedFile, said: FileFacts, version: str, offset: int) -> DataFile:
    """A file at an offset of the log; ``said`` are its facts."""
    first, last = said.first or said.created, said.last or said.created
    return DataFile(
        id=file.id,
        path=file.path,
        version=version,
        messages=file.messages,
        records=said.records,
        bytes=said.bytes,
        raw_bytes=said.raw_bytes,
        sha256=said.sha256,
        first=first,
        # Of a million files with one record each, a second text of the same time would take 80 MB.
        last=first if last == first else last,
        members=said.members,
        erased=said.erased,
        attached=said.attached,
        offset=offset,
    )


def without_uncommitted(
    surveyed: Survey, storage: Storage, tap: str, stream: str, known: Manifest | None = None
) -> Survey:
    """What a survey found, from which the files of atomic runs that no decision commits go; each is a note. Files that
    ``known``, a state of the stream, lists or retired stay. So do all where the tap has no decision left: repeated
    perhaps, lost never.

    Raises ``CorruptObjectError``, ``UnsupportedFormatError`` for a decision that cannot be read, and what storage
    and ``ScratchDatabase`` raise. Asks storage for nothing where no file is of an atomic run.
    """
    found = surveyed.files
    if next(found.atomic(), None) is None:
        return surveyed
    listed = _listed(found, known) if known is not None else bytearray(found.numbers)
    retired = known.retired_by_id if known is not None else {}

    def unknown() -> Iterator[tuple[int, ScannedFile]]:
        return (each for each in found.atomic() if not listed[each[0]] and each[1].id not in retired)

    doubtful = {file.atomic_run for _, file in unknown()}
    if not doubtful:
        return surveyed
    decisions = Decisions(storage, tap)
    decided = decisions.all_of(decisions.listed().names)
    doubtful -= {decision.run for decision in decided if decision.committed}
    if not decided or not doubtful:
        return surveyed
    gone = sorted((each for each in unknown() if each[1].atomic_run in doubtful), key=lambda each: each[1].path)
    for number, file in gone:
        found.remove(number, file)
    prefix = layout.stream_prefix(tap, stream)
    notes = tuple(
        Finding(
            "uncommitted", prefix + file.path, "is of an atomic run that was not committed; left out", problem=False
        )
        for _, file in gone
    )
    return replace(surveyed, findings=surveyed.findings + notes)


def _listed(found: FoundFiles, known: Manifest) -> bytearray:
    listed = bytearray(found.numbers)
    for file in known.files:
        for number, same in found.with_id(file.id):
            listed[number] |= same.id == file.id
    return listed
