"""Bringing one stream's stored state in line with its data files: a plan (pure), then its one transaction.

A state that can be read keeps its lineage and its offsets; only one that is gone, or that a person asks to discard,
is made anew from files alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import count, islice
from operator import attrgetter

import msgspec

from singerlake.format import layout
from singerlake.format.kept_schema import KeptSchema
from singerlake.format.schema_hash import hash_among
from singerlake.format.state import attached_objects
from singerlake.format.state.additions import Conflict
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.files.totals import totals_of
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest, SchemaVersion
from singerlake.format.state.transactions import AddFiles, Rebase, Transaction, addition
from singerlake.upkeep.checks import check_state, is_of
from singerlake.upkeep.rebuild.choose import TornFile, choose
from singerlake.upkeep.rebuild.on_disk import DistinctFiles, FormerFiles, Listing
from singerlake.upkeep.rebuild.rebuild import Hashes, describe, listed_at, other_bytes, rebuilt, schema_version, timed
from singerlake.upkeep.rebuild.survey import Survey
from singerlake.upkeep.result import NONE, Finding, Tally
from singerlake.upkeep.scanned_file import ScannedFile

KINDS = ("added", "dropped", "moved", "mended")
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Difference:
    """How a stream's files change, in file ids. ``moved`` have another offset; of ``mended`` the state has
    other facts (path, size, checksum, members) at the same offset, the files are as they were found."""

    added: tuple[str, ...]
    dropped: tuple[str, ...]
    moved: tuple[str, ...]
    mended: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.dropped or self.moved or self.mended)

    @property
    def by_kind(self) -> dict[str, tuple[str, ...]]:
        return {kind: getattr(self, kind) for kind in KINDS}


@dataclass(frozen=True, slots=True)
class KindTotals:
    """The files of one kind of difference: how many, their stored bytes, and the paths of the first few."""

    files: Tally = NONE
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Repair:
    """What a stream's state is to become. ``change`` is the transaction's content; None where there is nothing to
    commit: the state is as it should be, or (``before`` None) is to be created. ``totals`` are those of the
    ``difference``. ``read`` is what was read of the data files, ``noted`` what a journal says was read before. ``torn``
    are files that have to be written again before the plan can have all messages that were not erased."""

    before: Manifest | None
    after: Manifest
    change: Rebase | AddFiles | None
    findings: tuple[Finding, ...]
    totals: dict[str, KindTotals]
    read: Tally = NONE
    noted: Tally = NONE
    torn: tuple[TornFile, ...] = ()

    @property
    def difference(self) -> Difference:
        """How the listed files change: the ids of all of them are held."""
        return difference(self.before.files if self.before else None, self.after.files)

    @property
    def needed(self) -> bool:
        if self.before is None:
            return bool(self.after.files or self.after.versions)
        return self.change is not None


def difference(old: FileList | None, new: FileList) -> Difference:
    """The difference of two lists; None: there was no state."""
    ids: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for kind, file in _changes(old, new):
        ids[kind].append(file.id)
    return Difference(**{kind: tuple(found) for kind, found in ids.items()})


def difference_totals(old: FileList | None, new: FileList) -> dict[str, KindTotals]:
    """What that comes to by kind, in little memory."""
    if old is None:
        added = KindTotals(Tally(len(new), totals_of(new).bytes), tuple(file.path for file in islice(new, _NAMED)))
        return {"added": added} | {kind: KindTotals() for kind in KINDS[1:]}
    files = dict.fromkeys(KINDS, 0)
    stored = dict.fromkeys(KINDS, 0)
    paths: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for kind, file in _changes(old, new):
        files[kind] += 1
        stored[kind] += file.bytes
        if files[kind] <= _NAMED:
            paths[kind].append(file.path)
    return {kind: KindTotals(Tally(files[kind], stored[kind]), tuple(paths[kind])) for kind in KINDS}


def _changes(old: FileList | None, new: FileList) -> Iterator[tuple[str, DataFile]]:
    """Each file that changes, as it is to be listed, or was where it is no more."""
    if old is None:
        yield from (("added", file) for file in new)
        return
    same = 0
    if old.parts == new.parts:
        if old.tail == new.tail:
            return
        same = len(old) - len(old.tail)
    # Of a state that keeps its offsets, all files are where they were.
    for was, file in zip(old.between(same), new.between(same), strict=False):
        if was.id != file.id:
            break
        same += 1
        yield from _changed(was, file)
    if same == len(old):
        yield from (("added", file) for file in new.between(same))
        return
    former = FormerFiles(old.between(same))
    for file in new.between(same):
        known = former.meet(file.id)
        if known is None:
            yield "added", file
        else:
            yield from _changed(known, file)
    yield from (("dropped", file) for file in former.unmet)


def _changed(was: DataFile, file: DataFile) -> Iterator[tuple[str, DataFile]]:
    if was.offset != file.offset:
        yield "moved", file
    elif was != file:
        yield "mended", file


def plan_anew(before: Manifest | None, surveyed: Survey, birth: Manifest) -> Repair:
    """A state from the data files alone, in place of ``before`` (None: there is none, or none that can be read).
    ``birth`` is a state without files under a new lineage. Files that ``before`` did not list are noted: they may never
    have been committed, so that their messages come twice."""
    if before is None:
        made = rebuilt(surveyed, birth)
        totals = difference_totals(None, made.manifest.files)
        return Repair(None, made.manifest, None, made.findings, totals, surveyed.read, surveyed.noted, made.torn)
    former = FormerFiles(before.files)
    made = rebuilt(surveyed, birth, former)
    prefix = layout.stream_prefix(birth.tap, birth.stream)
    unknown = tuple(
        Finding("uncommitted", prefix + path, "was not listed before; its messages may come twice", problem=False)
        for id, path in made.unlisted
        if id not in before.retired_by_id
    )
    for gone in made.manifest.retired:
        former.meet(gone.id)
    lost = tuple(
        Finding("missing", prefix + file.path, "was listed and is not among the sound files; its offsets go to others")
        for file in former.unmet
    )
    del former
    after = _still_collected(made.manifest, before)
    totals = difference_totals(before.files, after.files)
    findings = made.findings + unknown + lost
    return Repair(before, after, Rebase(manifest=after), findings, totals, surveyed.read, surveyed.noted, made.torn)


def _still_collected(made: Manifest, before: Manifest) -> Manifest:
    """A state made anew with the retired objects of attached files and their collection, which no file tells of."""
    retired = {file.id: file for file in attached_objects.still_retired(before.retired, made.files)}
    if not retired:
        return made
    others = (file for file in made.retired if file.id not in retired)
    return msgspec.structs.replace(made, retired=(*others, *retired.values()))


def plan_repair(before: Manifest, surveyed: Survey, *, adopt: bool, at: str) -> Repair:
    """``before`` with the facts that its files really have, every offset as it was, and, with ``adopt``, the sound
    files that it does not list after the others. ``at`` is the time of the commit. A listed file that is gone, broken
    or holds other messages stays listed, and is a finding: its offsets are taken."""
    prefix = layout.stream_prefix(before.tap, before.stream)
    sound = {version: held for version, held in before.schemas.items() if is_of(held.schema, version)}
    hashes = Hashes({version: held.schema for version, held in sound.items()})
    files = DistinctFiles(surveyed.files, prefix, before.files)
    findings = [*surveyed.findings, *files.findings]
    versions = _Versions(before, sound)
    listing = Listing(before.files)
    listed = _Listed(files)
    same = True
    for part, run in before.files.segments_with_files():
        mended_run: list[DataFile] = []
        for file in run:
            scanned = listed.meet(file.id)
            versions.see(file, scanned)
            mended_run.append(_mended(file, scanned, hashes, prefix, findings))
        if all(one is two for one, two in zip(run, mended_run, strict=True)):
            listing.keep(part, run)
        else:
            same = False
            for file in mended_run:
                listing.append(file)
    labels, schemas = versions.completed(surveyed.kept)
    if same and (labels, schemas) == (before.versions, before.schemas):
        mended = before
    else:
        fields = {"files": listing.files(), "versions": labels, "schemas": schemas}
        mended = msgspec.structs.replace(before, **fields)
    change: Rebase | AddFiles | None = None if mended is before else Rebase(manifest=mended)
    after = mended
    fresh, torn = _unlisted(before, listed, prefix, findings)
    del files, listed
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
    totals = difference_totals(before.files, after.files)
    return Repair(before, after, change, tuple(findings), totals, surveyed.read, surveyed.noted, torn if adopt else ())


class _Listed:
    """Which of many files a state lists."""

    def __init__(self, files: DistinctFiles) -> None:
        self.files = files
        self._plain = bytearray(files.numbers // 8 + 1)
        self._odd: set[str] = set()

    def meet(self, id: str) -> ScannedFile | None:
        """The file with this id, which is listed; None where there is none."""
        found = self.files.find(id)
        if found is None:
            return None
        number, file = found
        if number is None:
            self._odd.add(id)
        else:
            self._plain[number >> 3] |= 1 << (number & 7)
        return file

    def each(self) -> Iterator[tuple[bool, ScannedFile]]:
        for number, file in self.files.plain():
            yield bool(self._plain[number >> 3] >> (number & 7) & 1), file
        for file in self.files.odd:
            yield file.id in self._odd, file


class _Versions:
    """Labels and schemas of a state, where one is gone or is another's taken from the last file of its version, or
    from what is kept of it, if that is newer. That also gives a stream its first version that has none."""

    def __init__(self, before: Manifest, sound: Mapping[str, SchemaVersion]) -> None:
        self._before = before
        self._labels, self._schemas = dict(before.versions), dict(before.schemas)
        self._right = set(sound)
        self._mended: dict[str, ScannedFile] = {}

    def see(self, file: DataFile, scanned: ScannedFile | None) -> None:
        """A listed file, and what was found of it."""
        labels = self._labels
        if file.version in self._right and file.version in labels:
            return
        if scanned is None:
            return
        before = self._mended.get(file.version)
        if before is not None and scanned.schema is before.schema:
            # Files of one version mostly have the same object, whose hash takes long.
            self._mended[file.version] = scanned
            return
        if not is_of(scanned.schema.schema, file.version):
            return
        labels.setdefault(file.version, next(f"v{n}" for n in count(1) if f"v{n}" not in labels.values()))
        if file.version not in self._right:
            known = self._schemas[file.version] if file.version in self._mended else None
            self._mended[file.version] = scanned
            first = (known.first_offset, known.first_seen) if known else (file.offset, scanned.facts.created)
            self._schemas[file.version] = schema_version(scanned.schema, *first)

    def completed(self, kept: Sequence[KeptSchema]) -> tuple[dict[str, str], dict[str, SchemaVersion]]:
        """Both, once all files were seen."""
        before, labels = self._before, self._labels
        for held in kept:
            version = next((known for known in labels if is_of(held.schema, known)), None)
            if version in self._right or (version is None and labels):
                continue
            if version is None:
                version = hash_among(held.schema, {})
                labels[version] = "v1"
            file = self._mended.get(version)
            if file is not None:
                known = self._schemas[version]
                if file.order < held.order:
                    self._schemas[version] = schema_version(held, known.first_offset, known.first_seen)
                continue
            self._right.add(version)
            offset = before.schemas[version].first_offset if version in before.schemas else before.next_offset
            self._schemas[version] = schema_version(held, offset, held.created)
        return labels, self._schemas


def _mended(
    listed: DataFile, file: ScannedFile | None, hashes: Hashes, prefix: str, findings: list[Finding]
) -> DataFile:
    if file is None:
        findings.append(Finding("missing", prefix + listed.path, "is listed and not among the sound files"))
        return listed
    version = hashes.of(file.schema)
    if (file.messages, version) == (listed.messages, listed.version):
        facts = file.facts
        other = other_bytes(file, facts, listed, prefix)
        findings += (other,) if other is not None else ()
        mended = timed(listed_at(file, facts, version, listed.offset), facts, listed)
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
    before: Manifest, listed: _Listed, prefix: str, findings: list[Finding]
) -> tuple[tuple[ScannedFile, ...], tuple[TornFile, ...]]:
    """Files whose messages nothing listed holds, in the order of a rebuild, and those that are torn."""
    rest: list[ScannedFile] = []
    never: list[Finding] = []
    for met, file in listed.each():
        if met or file.id in before.retired_by_id:
            continue
        why = _why_never(before, file)
        if why is None:
            rest.append(file)
        else:
            never.append(Finding("unlisted", prefix + file.path, f"is not listed: {why}", problem=False))
    findings += sorted(never, key=attrgetter("key"))
    if not rest:
        return (), ()
    asked = {source for file in rest for source, _ in file.sources}
    done = {source for met, file in listed.each() if met for source, _ in file.sources if source in asked}
    done.update(before.files.with_ids(asked), (id for id in asked if id in before.retired_by_id))
    erased = [file for met, file in listed.each() if met and _has_holes(file, asked)]
    choice = choose(rest, prefix=prefix, done=frozenset(done), listed=erased)
    findings += choice.findings
    return tuple(choice.files), choice.torn


def _has_holes(file: ScannedFile, asked: Set[str]) -> bool:
    return any(source in asked for source, _ in file.replaces) and file.holes > 0


def _why_never(state: Manifest, file: ScannedFile) -> str | None:
    """Why a state cannot list a file; None where it can."""
    if _has_expired(state, file):
        return "its messages have expired"
    if attached_objects.going(state.retired, (file.facts,)):
        return "attached files of its records are being deleted; capture the records again"
    return None


def _has_expired(state: Manifest, file: ScannedFile) -> bool:
    """Whether an unlisted vacuumed file was made of messages below the floor; listed files have what else it holds."""
    stood = file.facts.stood
    return stood is not None and stood[0] == state.lineage and stood[1] < state.floor


def _adding(mended: Manifest, fresh: tuple[ScannedFile, ...]) -> AddFiles:
    hashes = Hashes({version: held.schema for version, held in mended.schemas.items()})
    described = tuple(describe(file, hashes.of(file.schema)) for file in fresh)
    schemas = {new.version: file.schema for new, file in zip(described, fresh, strict=True)}
    return addition(described, schemas)
