"""Bringing one stream's stored state in line with its data files: a plan (pure), then its one transaction.

A state that can be read keeps its lineage and its offsets; only one that is gone, or that a person asks to discard,
is made anew from files alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import msgspec

from singerlake.format import ATTACHED_FORMAT, layout
from singerlake.format.kept_schema import KeptSchema
from singerlake.format.schema_hash import hash_among
from singerlake.format.state import attached_objects
from singerlake.format.state.additions import Conflict, format_of
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest, SchemaVersion
from singerlake.format.state.transactions import AddFiles, Rebase, Transaction, addition
from singerlake.maintenance.file_count import NONE, Tally
from singerlake.maintenance.rebuild.choose import choose, distinct
from singerlake.maintenance.rebuild.rebuild import Hashes, describe, place, rebuilt, timed
from singerlake.maintenance.rebuild.scanned_file import ScannedFile
from singerlake.maintenance.rebuild.survey import Survey
from singerlake.maintenance.verify.check_state import check_state, is_of
from singerlake.maintenance.verify.findings import Finding


@dataclass(frozen=True, slots=True)
class Difference:
    """How a stream's files change, in file ids. ``moved`` have another offset, ``mended`` other facts (path, size,
    checksum, members) at the same offset."""

    added: tuple[str, ...]
    dropped: tuple[str, ...]
    moved: tuple[str, ...]
    mended: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.dropped or self.moved or self.mended)

    @property
    def by_kind(self) -> dict[str, tuple[str, ...]]:
        """The ids under the names of their fields."""
        return {"added": self.added, "dropped": self.dropped, "moved": self.moved, "mended": self.mended}


@dataclass(frozen=True, slots=True)
class Repair:
    """What a stream's state is to become. ``change`` is the transaction's content; None where there is nothing to
    commit: the state is as it should be, or (``before`` None) is to be created. ``read`` is what was read of the data
    files, ``noted`` what a journal says was read before."""

    before: Manifest | None
    after: Manifest
    change: Rebase | AddFiles | None
    findings: tuple[Finding, ...]
    read: Tally = NONE
    noted: Tally = NONE

    @property
    def difference(self) -> Difference:
        new = self.after.by_id
        if self.before is None:
            return Difference(added=tuple(new), dropped=(), moved=(), mended=())
        old = self.before.by_id
        both = [(old[id], file) for id, file in new.items() if id in old]
        return Difference(
            added=tuple(id for id in new if id not in old),
            dropped=tuple(id for id in old if id not in new),
            moved=tuple(file.id for was, file in both if was.offset != file.offset),
            mended=tuple(file.id for was, file in both if was.offset == file.offset and was != file),
        )

    @property
    def needed(self) -> bool:
        """Whether anything has to be written."""
        if self.before is None:
            return bool(self.after.files or self.after.versions)
        return self.change is not None


def plan_anew(before: Manifest | None, surveyed: Survey, birth: Manifest) -> Repair:
    """A state from the data files alone, in place of ``before`` (None: there is none, or none that can be read).

    ``birth`` is a state without files under a new lineage. Files that ``before`` did not list are noted: they may
    never have been committed, so that their messages come twice.
    """
    made = rebuilt(surveyed, birth, before.by_id if before else None)
    if before is None:
        return Repair(None, made.manifest, None, made.findings, surveyed.read, surveyed.noted)
    prefix = layout.stream_prefix(birth.tap, birth.stream)
    unknown = tuple(
        Finding("uncommitted", prefix + file.path, "was not listed before; its messages may come twice", problem=False)
        for file in made.manifest.files
        if file.id not in before.by_id and file.id not in before.retired_by_id
    )
    kept = made.held | made.manifest.by_id.keys() | made.manifest.retired_by_id.keys()
    lost = tuple(
        Finding("missing", prefix + file.path, "was listed and is not among the sound files; its offsets go to others")
        for file in before.files
        if file.id not in kept
    )
    after = _still_collected(made.manifest, before)
    change = Rebase(manifest=after)
    return Repair(before, after, change, made.findings + unknown + lost, surveyed.read, surveyed.noted)


def _still_collected(made: Manifest, before: Manifest) -> Manifest:
    """A state made anew with the objects of attached files that were retired, and how far their collection is: no file
    tells of them."""
    retired = {file.id: file for file in attached_objects.still_retired(before.retired, made.files)}
    if not retired:
        return made
    others = (file for file in made.retired if file.id not in retired)
    return msgspec.structs.replace(made, format=ATTACHED_FORMAT, retired=(*others, *retired.values()))


def plan_repair(before: Manifest, surveyed: Survey, *, adopt: bool, at: str) -> Repair:
    """``before`` with the facts that its files really have, every offset as it was, and, with ``adopt``, the sound
    files that it does not list after the others. ``at`` is the time of the commit.

    A listed file that is gone, broken or holds other messages stays listed, and is a finding: its offsets are taken.
    """
    prefix = layout.stream_prefix(before.tap, before.stream)
    sound = {version: held for version, held in before.schemas.items() if is_of(held.schema, version)}
    hashes = Hashes({version: held.schema for version, held in sound.items()})
    files, copies = distinct(surveyed.files, prefix=prefix, listed=before.by_id)
    by_id = {file.id: file for file in files}
    findings = [*surveyed.findings, *copies]
    listed = tuple(_mended(file, by_id.get(file.id), hashes, prefix, findings) for file in before.files)
    versions, schemas = _versions(before, sound, by_id, surveyed.kept)
    newest = max(before.format, format_of(listed))
    mended = msgspec.structs.replace(before, files=listed, versions=versions, schemas=schemas, format=newest)
    if (mended.files, versions, schemas) == (before.files, before.versions, before.schemas):
        mended = before
    change: Rebase | AddFiles | None = None if mended is before else Rebase(manifest=mended)
    after = mended
    fresh = _unlisted(before, files, prefix, findings)
    if not adopt:
        findings += [
            Finding("unlisted", prefix + file.path, "is not listed; --adopt adds it", problem=False) for file in fresh
        ]
    elif fresh:
        adding = _adding(mended, fresh)
        outcome = apply(mended, Transaction(id=before.transaction.id, at=at, change=adding))
        if isinstance(outcome, Conflict):
            findings.append(Finding("unlisted", prefix, f"files could not be added: {outcome.reason}"))
        else:
            after = outcome
            change = adding if change is None else Rebase(manifest=after)
    findings += check_state(after, prefix + layout.MANIFEST)
    return Repair(before, after, change, tuple(findings), surveyed.read, surveyed.noted)


def _versions(
    before: Manifest, sound: Mapping[str, SchemaVersion], by_id: Mapping[str, ScannedFile], kept: Sequence[KeptSchema]
) -> tuple[dict[str, str], dict[str, SchemaVersion]]:
    """Labels and schemas of a state, where one is gone or is another's taken from the first file of its version, or
    from what is ``kept`` of it. That also gives a stream its first version that has none."""
    labels, schemas = dict(before.versions), dict(before.schemas)
    right = set(sound)
    for file in before.files:
        if file.version in right and file.version in labels:
            continue
        scanned = by_id.get(file.id)
        if scanned is None or not is_of(scanned.schema.schema, file.version):
            continue
        labels.setdefault(file.version, next(f"v{n}" for n in count(1) if f"v{n}" not in labels.values()))
        if file.version not in right:
            right.add(file.version)
            schemas[file.version] = SchemaVersion(
                schema=scanned.schema.schema,
                key_properties=scanned.schema.key_properties,
                bookmark_properties=scanned.schema.bookmark_properties,
                first_offset=file.offset,
                first_seen=scanned.facts.created,
            )
    for held in kept:
        version = next((known for known in labels if is_of(held.schema, known)), None)
        if version in right or (version is None and labels):
            continue
        if version is None:
            version = hash_among(held.schema, {})
            labels[version] = "v1"
        right.add(version)
        schemas[version] = SchemaVersion(
            schema=held.schema,
            key_properties=held.key_properties,
            bookmark_properties=held.bookmark_properties,
            first_offset=before.schemas[version].first_offset if version in before.schemas else before.next_offset,
            first_seen=held.created,
        )
    return labels, schemas


def _mended(
    listed: DataFile, file: ScannedFile | None, hashes: Hashes, prefix: str, findings: list[Finding]
) -> DataFile:
    if file is None:
        findings.append(Finding("missing", prefix + listed.path, "is listed and not among the sound files"))
        return listed
    version = hashes.of(file.schema)
    if (file.messages, version) == (listed.messages, listed.version):
        mended = timed(place(file, version, listed.offset), file.facts, listed)
        # Of a million that are as they are listed, no second one is kept.
        return listed if mended == listed else mended
    findings.append(
        Finding(
            "differs",
            prefix + file.path,
            f"holds {file.messages} messages of version {version}, listed are {listed.messages} of "
            f"{listed.version}; restore it, or run again with --discard-manifest",
        )
    )
    return listed


def _unlisted(
    before: Manifest, files: list[ScannedFile], prefix: str, findings: list[Finding]
) -> tuple[ScannedFile, ...]:
    """Files whose messages nothing listed holds, in the order of a rebuild."""
    rest = [file for file in files if file.id not in before.by_id and file.id not in before.retired_by_id]
    never = {file.id: why for file in rest if (why := _why_never(before, file)) is not None}
    findings += [
        Finding("unlisted", prefix + file.path, f"is not listed: {never[file.id]}", problem=False)
        for file in rest
        if file.id in never
    ]
    rest = [file for file in rest if file.id not in never]
    if not rest:
        return ()
    held = {source for file in files if file.id in before.by_id for source, _ in file.sources}
    known = before.by_id.keys() | before.retired_by_id.keys()
    choice = choose(rest, prefix=prefix, done=frozenset(held | known))
    findings += choice.findings
    return tuple(choice.files)


def _why_never(state: Manifest, file: ScannedFile) -> str | None:
    """Why a state cannot list a file; None where it can."""
    if _has_expired(state, file):
        return "its messages have expired"
    if attached_objects.going(state.retired, (file.facts,)):
        return "attached files of its records are being deleted; capture the records again"
    return None


def _has_expired(state: Manifest, file: ScannedFile) -> bool:
    """Whether a vacuumed file that is not listed was made of messages below the floor; what it holds of others is in
    listed files."""
    stood = file.facts.stood
    return stood is not None and stood[0] == state.lineage and stood[1] < state.floor


def _adding(mended: Manifest, fresh: tuple[ScannedFile, ...]) -> AddFiles:
    hashes = Hashes({version: held.schema for version, held in mended.schemas.items()})
    described = tuple(describe(file, hashes.of(file.schema)) for file in fresh)
    schemas = {new.version: file.schema for new, file in zip(described, fresh, strict=True)}
    return addition(described, schemas)
