"""Checking what is on storage against its metadata, and changing nothing: each stream, then taps and lake."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from hashlib import blake2b
from heapq import nsmallest
from math import ceil
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from singerlake.conditions import Condition
from singerlake.errors import LakeError, SettingError
from singerlake.format import layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import encode
from singerlake.format.metadata import catalogue, root
from singerlake.format.metadata.root import RootMetadata
from singerlake.format.state.attached_objects import paths_in
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.model import Manifest
from singerlake.glance import at_a_glance
from singerlake.humanize import size
from singerlake.scratch import ListedPaths
from singerlake.storage.port import Entry, Storage
from singerlake.stores.atomic.decisions import Decisions
from singerlake.upkeep.checks import (
    AttachedObject,
    AttachedTask,
    VerifyTask,
    attached_objects,
    check_state,
    lost,
    missing,
    of_other_size,
)
from singerlake.upkeep.context import LakeContext, data_files, stream_objects
from singerlake.upkeep.erase.declared import check_somewhere, doubt, names_in
from singerlake.upkeep.erase.find import find_traces
from singerlake.upkeep.policy import odd_rules
from singerlake.upkeep.rebuild.survey import read_kept
from singerlake.upkeep.result import NONE, UNSEEN, Finding, Kind, Progress, Report, Tally, reporting, tally
from singerlake.upkeep.root_file import lost_root, root_findings
from singerlake.work.engine import Engine, Threads
from singerlake.work.journal_file import STAMP_BYTES, JournalFile, StampSet, open_file, said_of, stamp


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamVerify:
    """What was checked of a stream. ``dropped`` is as in ``Manifest.is_dropped``."""

    tap: str
    stream: str
    files: int
    messages: int
    bytes: int
    attached: Tally
    read: Tally
    noted: Tally
    dropped: bool


@dataclass(frozen=True, slots=True)
class Traces:
    """How many ``records`` that should be erased so many ``objects`` hold. The condition named these ``properties``."""

    properties: tuple[str, ...]
    objects: int = 0
    records: int = 0


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """What was checked, and what was found. In all ``streams`` so many ``files``, ``messages`` and ``bytes`` are
    listed, and ``attached`` files. Of the files, ``read`` ones were read whole, and ``noted`` ones were not, since a
    journal says that they are sound. ``seed`` draws the same sample once more. ``traces`` are those of what should be
    erased, where that was asked for. Findings that are not a ``problem`` are notes."""

    lake: str
    streams: tuple[StreamVerify, ...]
    files: int
    messages: int
    bytes: int
    attached: Tally
    read: Tally
    noted: Tally
    seed: str | None
    traces: Traces | None
    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing has to be done."""
        return not any(finding.problem for finding in self.findings)


_COUNTS: Mapping[str, Any] = {"files": 0, "messages": 0, "bytes": 0, "attached": NONE, "read": NONE, "noted": NONE}
"""What is counted of each stream and of all, and what a sum of it begins with."""


def verify_lake(
    lake: LakeContext,
    tap: str | None,
    stream: str | None,
    *,
    sample: Sample | None,
    journal: Path | None,
    erased: Condition | None,
    undeclared: bool,
    ignore: Collection[str],
    engine: Engine | None,
    progress: Report | None,
    beside: Callable[[Collection[tuple[str, str]] | None, Callable[[Manifest], bool]], Iterable[Finding]],
) -> VerifyResult:
    """Verify the streams that are meant, and what is said of them elsewhere. Where something was ``erased``, ``beside``
    gives the findings about what was made from them, or from any stream (None), if such a record may be of it by the
    state of the stream."""
    found = list[int]()
    storage, reads = lake.storage, engine or Threads(lake.storage)
    with open_journal(journal, storage.url) if journal else nullcontext() as noted:
        pairs = lake.chosen(tap, stream)
        if erased is not None and not undeclared:
            check_somewhere(erased, lake, pairs)
        findings = list(verify_metadata(storage, None if tap is None else {name for name, _ in pairs}))
        by_tap: dict[str, dict[str, Verified]] = {name: {} for name, _ in pairs}
        for name, each in pairs:
            bar, state = reporting(progress, f"{name}/{each}"), lake.stream(name, each).state
            checked = verify_stream(
                storage, name, each, state, sample=sample, journal=noted, engine=reads, progress=bar
            )
            findings += checked.findings
            if erased is not None:
                findings += find_traces(storage, name, each, erased, reads, state, found.append)
            by_tap[name][each] = replace(checked, findings=())
        if erased is not None:
            may_hold = partial(_may_hold, None if undeclared else erased)
            findings += beside(None if tap is None and stream is None else pairs, may_hold)
        metadata, missing = _root(lake)
        findings += odd_rules(metadata, by_tap, None if stream is None else pairs)
        for name, streams in by_tap.items():
            findings += verify_catalogue(storage, name, streams)
            findings += verify_identity(metadata, name, streams)
            named = [each for each, checked in streams.items() if missing and checked.lake_id is not None]
            findings += [lost_root(name, each) for each in named[:1]]
    done = [
        StreamVerify(
            tap=name, stream=each, dropped=checked.dropped, **{count: getattr(checked, count) for count in _COUNTS}
        )
        for name, streams in by_tap.items()
        for each, checked in streams.items()
    ]
    return VerifyResult(
        lake=storage.url,
        streams=tuple(done),
        **{count: sum((getattr(each, count) for each in done), start) for count, start in _COUNTS.items()},
        seed=sample.seed if sample else None,
        traces=None if erased is None else Traces(names_in(erased), len(found), sum(found)),
        findings=tuple(finding for finding in findings if finding.kind not in ignore),
    )


def _may_hold(condition: Condition | None, manifest: Manifest) -> bool:
    return condition is None or doubt(condition, manifest) is None


def _root(lake: LakeContext) -> tuple[RootMetadata | None, bool]:
    """What root metadata or its copy says, and whether both are missing."""
    try:
        metadata = lake.root_metadata()
    except LakeError:
        # A finding of its own.
        return None, False
    return metadata, metadata is None


@dataclass(frozen=True, slots=True)
class Verified:
    """What was checked of one stream, and what is wrong with it. ``files``, ``messages`` and ``bytes`` are what the
    manifest lists; ``read`` is what was read of that now, ``noted`` what a journal says was read before. ``attached``
    are the attached files. ``entry`` is the stream's catalog entry, None where it has none or cannot be told;
    ``running``: its last run has not ended; ``lake_id`` is what its manifest says."""

    files: int
    messages: int
    bytes: int
    findings: tuple[Finding, ...]
    read: Tally = NONE
    noted: Tally = NONE
    attached: Tally = NONE
    entry: dict[str, Any] | None = None
    running: bool = False
    lake_id: str | None = None
    dropped: bool = False


def verify_stream(
    storage: Storage,
    tap: str,
    stream: str,
    state: Callable[[], Manifest | None],
    *,
    sample: Sample | None = None,
    journal: Journal | None = None,
    engine: Engine | None = None,
    progress: Progress = UNSEEN,
) -> Verified:
    """Read every listed file of a stream whole and compare it with the newest state, which each call of ``state``
    gives. With a ``sample`` only its files are read; of the others presence and size are checked. Files that
    ``journal`` says are as they were when found sound are not read again. ``engine`` reads the files, threads of this
    process by default. The total of ``progress`` is the stored bytes to read. Raises what storage raises."""
    key = layout.manifest_key(tap, stream)
    prefix = layout.stream_prefix(tap, stream)
    log: tuple[Finding, ...] = ()
    try:
        manifest = state()
        listed = _Listed(stamped=journal is not None)
        if manifest is not None:
            log = check_state(manifest, key, listed.add)
    except LakeError as error:
        # Of a state that is read from several objects, the one that is to be restored.
        return Verified(0, 0, 0, (Finding("manifest", str(error.context.get("key", key)), _said(error)),))
    if manifest is None:
        beside = sum(1 for _ in data_files(storage, tap, stream))
        kept = beside or any(True for _ in stream_objects(storage, tap, stream))
        missing = Finding("manifest", key, f"is missing beside {beside} data files; run 'singerlake rebuild'")
        return Verified(0, 0, 0, (missing,) if kept else ())
    objects = attached_objects(manifest.files.with_rows())
    listing = _compare(storage, manifest, listed.paths, objects, sizes=sample is not None, stamped=journal is not None)
    log += (*_kept(storage, listing.kept, tap, stream), *_lost_decision(storage, manifest))
    chosen = manifest.files if sample is None else sample.of(manifest.files)
    wanted = objects if sample is None else attached_objects(chosen)
    apart = frozenset((*(file.path for file in chosen), *wanted)) if sample is not None else frozenset[str]()
    findings = [finding for path, finding in listing.findings if path not in apart]
    rest = chosen if journal is None else _Unknown(chosen, journal, listed.paths)
    read = listed.tally if rest is manifest.files else tally(file.bytes for file in rest)
    unseen = [each for each in wanted.values() if journal is None or not journal.knows(listing.attached.get(each.path))]
    progress.sized(read.bytes + sum(each.bytes for each in unseen))
    for file, problems in (engine or Threads(storage))(VerifyTask(stream, prefix), rest):
        findings += problems
        if journal is not None:
            journal.note(prefix + file.path, file.bytes, listed.paths.stamp(file.path), problems)
        progress.advance(file.bytes)
    for each, problems in (engine or Threads(storage))(AttachedTask(prefix), unseen):
        findings += problems
        if journal is not None:
            journal.note(prefix + each.path, each.bytes, listing.attached.get(each.path), problems)
        progress.advance(each.bytes)
    drawn = listed.tally if chosen is manifest.files else tally(file.bytes for file in chosen)
    verified = Verified(
        files=listed.tally.files,
        messages=listed.messages,
        bytes=listed.tally.bytes,
        findings=log,
        read=read,
        noted=Tally(drawn.files - read.files, drawn.bytes - read.bytes),
        attached=tally(each.bytes for each in objects.values()),
        entry=_entry(manifest),
        running=[run.status for run in manifest.runs if run.captures][-1:] == ["running"],
        lake_id=manifest.lake_id,
        dropped=manifest.is_dropped,
    )
    # The fresh state must not stand beside this one.
    del manifest, chosen, rest
    return replace(verified, findings=log + tuple(_still(findings, listing.strays, state, prefix)))


class _Listed:
    """The listed files, as each of them was read once."""

    def __init__(self, *, stamped: bool) -> None:
        self.paths = ListedPaths()
        self._stamped = stamped
        self.messages = self._files = self._bytes = 0

    def add(self, file: DataFile) -> None:
        self.paths.add(file.path, file.bytes, said_of(file) if self._stamped else b"")
        self._files += 1
        self._bytes += file.bytes
        self.messages += file.messages

    @property
    def tally(self) -> Tally:
        return Tally(self._files, self._bytes)


@dataclass(frozen=True, slots=True)
class _Listing:
    """What a listing of a stream's folder shows beside its state: data files that nothing lists, findings about listed
    files by path, stamps of attached files by path, and schemas that are kept."""

    strays: list[Entry]
    findings: list[tuple[str, Finding]]
    attached: dict[str, bytes]
    kept: list[Entry]


def _compare(
    storage: Storage,
    manifest: Manifest,
    known: ListedPaths,
    objects: Mapping[str, AttachedObject],
    *,
    sizes: bool,
    stamped: bool,
) -> _Listing:
    """``known`` are the paths of the listed files, which are shown what storage has; ``objects`` are the attached ones,
    by path. ``sizes``: say which files are missing or have another size. ``stamped``: make stamps of both. Holds no
    more of the entries than is asked for. Raises what storage and ``known`` raise."""
    prefix = layout.stream_prefix(manifest.tap, manifest.stream)
    retired = {file.path for file in manifest.retired}
    seen = _Listing([], [], {}, [])
    unseen = dict(objects) if sizes else {}
    for entry in storage.list(prefix):
        path = entry.key[len(prefix) :]
        if layout.is_kept_schema(path):
            seen.kept.append(entry)
            continue
        if layout.attached_name_in(path) is not None:
            unseen.pop(path, None)
            held = objects.get(path)
            if held is None and path not in retired:
                seen.strays.append(entry)
            elif held is not None and sizes and entry.size != held.bytes:
                seen.findings.append((path, of_other_size(entry.key, entry.size, held.bytes)))
            if held is not None and stamped:
                seen.attached[path] = stamp(entry, encode(held))
            continue
        if not layout.is_data_file(path):
            if "/" not in path and path.endswith(layout.SUFFIX):
                said = "is outside the folders of versions, so no reader finds it; move it into one"
                seen.findings.append(("", Finding("misplaced", entry.key, said)))
            continue
        size = known.size(path)
        if size is None:
            if path not in retired:
                seen.strays.append(entry)
            continue
        known.show(path, partial(stamp, entry) if stamped else None)
        if sizes and entry.size != size:
            said = f"bytes {entry.size}, listed {size}"
            seen.findings.append((path, Finding("differs", entry.key, said)))
    if sizes and not known.all_shown:
        gone = (file for file in manifest.files if not known.is_shown(file.path))
        seen.findings.extend((file.path, missing(file, prefix + file.path)) for file in gone)
    seen.findings.extend((path, lost(prefix + path)) for path in unseen)
    return seen


@dataclass(frozen=True, slots=True)
class _Unknown:
    """Those of ``files`` that a journal does not know as they are now. They are looked for again each time."""

    files: Iterable[DataFile]
    journal: Journal
    paths: ListedPaths

    def __iter__(self) -> Iterator[DataFile]:
        return (file for file in self.files if not self.journal.knows(self.paths.stamp(file.path)))


def _lost_decision(storage: Storage, manifest: Manifest) -> Iterator[Finding]:
    """Whether the last atomic run of the stream has lost its decision. Without it a rebuild leaves the run out."""
    if manifest.settled is not msgspec.UNSET:
        key = layout.commit_key(manifest.tap, manifest.settled)
        if storage.head(key) is None:
            yield Finding("commit", key, f"is missing: it decided about the last atomic run of {manifest.stream!r}")


def _entry(manifest: Manifest) -> dict[str, Any] | None:
    try:
        return catalogue.entry(manifest)
    except LakeError:
        # Its version has no schema, which is a finding of its own.
        return None


def verify_catalogue(storage: Storage, tap: str, streams: Mapping[str, Verified]) -> tuple[Finding, ...]:
    """Whether a tap's catalogue has the schemas that ``streams``, by name, have now. It may miss streams, which readers
    find by a listing. A note during a run, which brings it up to date at its end. Raises what storage raises."""
    key = layout.catalogue_key(tap)
    stored = storage.get(key)
    try:
        cached = catalogue.from_json(stored.body, key=key)["streams"] if stored else []
    except LakeError:
        return ()
    behind = []
    for item in cached:
        checked = streams.get(item["tap_stream_id"])
        if checked is not None and checked.entry is not None and not catalogue.says_the_same(item, checked.entry):
            said = f"has another schema of stream {item['tap_stream_id']!r} than its newest version"
            hint = "; its run has not ended" if checked.running else "; run 'singerlake rebuild'"
            behind.append(Finding("catalogue", key, said + hint, problem=not checked.running))
    return tuple(behind)


def verify_identity(
    metadata: root.RootMetadata | None, tap: str, streams: Mapping[str, Verified]
) -> tuple[Finding, ...]:
    """Whether a tap's manifests name the lake that the root metadata says this is, where they were written lately."""
    if metadata is None:
        return ()
    return tuple(
        Finding(
            "root",
            layout.root_metadata_key(),
            f"calls this lake {metadata.lake_id}, the manifest of stream {name!r} of tap {tap!r} calls it "
            f"{checked.lake_id}; see 'singerlake store identify'",
        )
        for name, checked in streams.items()
        if checked.lake_id not in (None, metadata.lake_id)
    )


def _kept(storage: Storage, entries: Iterable[Entry], tap: str, stream: str) -> Iterator[Finding]:
    """What is wrong with schemas that are kept beside the files."""
    for entry in entries:
        held = read_kept(storage, entry, tap, stream)
        if isinstance(held, Finding):
            yield held


def _still(
    findings: list[Finding], strays: list[Entry], state: Callable[[], Manifest | None], prefix: str
) -> Iterator[Finding]:
    """The findings that hold of the newest state, too: what a live writer has committed meanwhile is not a stray, and a
    file that is gone may have been vacuumed and collected."""
    lacking = {finding.key for finding in findings if finding.kind == "missing"}
    fresh = state() if strays or lacking else None
    if fresh is not None:
        attached = paths_in(fresh.files)
        listed = fresh.files.with_path(key[len(prefix) :] for key in (*lacking, *(entry.key for entry in strays)))
        known = attached.union(listed, (file.path for file in fresh.retired))
        strays = [entry for entry in strays if entry.key[len(prefix) :] not in known]
        lacking = {key for key in lacking if key[len(prefix) :] not in listed | attached}
        findings = [finding for finding in findings if finding.kind != "missing" or finding.key not in lacking]
    yield from findings
    for entry in strays:
        said = f"{size(entry.size)} that no manifest lists: an interrupted run's, or copied"
        yield Finding("unlisted", entry.key, said)


def verify_metadata(storage: Storage, taps: Collection[str] | None = None) -> tuple[Finding, ...]:
    """Root metadata, catalogues and decisions about atomic runs are what their keys promise; names are ones that this
    package gives. Checks these taps, or all. Raises what storage raises."""
    findings: list[Finding] = []
    key = layout.root_metadata_key()
    stored = storage.get(key)
    if stored is not None:
        findings += _parses(partial(root.from_json, stored.body, key=key), "root", key)
    findings += root_findings(storage)
    top = storage.list_folder(f"{layout.RAW}/").folders
    findings += _names(f"{layout.RAW}/", top)
    for folder in top:
        name = layout.from_segment(folder.rstrip("/"))
        if name is None or (taps is not None and name not in taps):
            continue
        prefix = layout.tap_prefix(name)
        folders = storage.list_folder(prefix).folders
        findings += _names(prefix, (folder for folder in folders if folder != f"{layout.COMMITS}/"))
        if f"{layout.COMMITS}/" in folders:
            decisions = Decisions(storage, name)
            for commit in decisions.listed().names:
                findings += _parses(partial(decisions.get, commit), "commit", layout.commit_key(name, commit))
        cached = layout.catalogue_key(name)
        stored_catalogue = storage.get(cached)
        if stored_catalogue is not None:
            findings += _parses(partial(catalogue.from_json, stored_catalogue.body, key=cached), "catalogue", cached)
    return tuple(findings)


def _parses(parse: Callable[[], object], kind: Kind, key: str) -> list[Finding]:
    try:
        parse()
    except LakeError as error:
        return [Finding(kind, key, _said(error))]
    return []


def _said(error: LakeError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message


def _names(prefix: str, folders: Iterable[str]) -> Iterator[Finding]:
    """Folders that no name gives, and names that are one on a storage that is blind to case."""
    folded: dict[str, list[str]] = defaultdict(list)
    for folder in folders:
        segment = folder.rstrip("/")
        if layout.from_segment(segment) is None:
            yield Finding("foreign", prefix + folder, "is not a folder of a lake; it is left alone", problem=False)
        else:
            folded[segment.casefold()].append(segment)
    for segments in folded.values():
        if len(segments) > 1:
            alike = ", ".join(segments)
            yield Finding("case", prefix, f"{alike} are the same name on a disk that ignores case", problem=False)


_LOT_BYTES = 8
_SHARE = re.compile(r"(\d{1,18})(?:(\.\d{1,18})?\s*%)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Sample:
    """A share of each stream's files (``share``, above 0 and at most 1), or a number of them (``files``). The same
    ``seed`` draws the same files of the same state; what else is in the lake makes no difference."""

    seed: str
    share: Fraction | None = None
    files: int | None = None

    def of(self, files: Sequence[DataFile]) -> Sequence[DataFile]:
        """The files to read, in their order: at least one, where there is any."""
        wanted = self.files if self.share is None else ceil(len(files) * self.share)
        lots = ((self._lot(file), position, file) for position, file in enumerate(files))
        drawn = nsmallest(min(wanted or 0, len(files)), lots, key=itemgetter(0, 1))
        return [file for _, _, file in sorted(drawn, key=itemgetter(1))]

    def _lot(self, file: DataFile) -> bytes:
        """As good as random, and the same on every machine."""
        return blake2b(f"{self.seed} {file.id}".encode(errors="surrogatepass"), digest_size=_LOT_BYTES).digest()


def parse_sample(text: str, seed: str) -> Sample:
    """``10%``, ``0.5%`` or a number of files. Raises ``SettingError``."""
    match = _SHARE.fullmatch(text.strip())
    if match is None:
        raise SettingError(
            f"{text!r} is not a share of files", hint="write 10%, or 500 for that many files of a stream"
        )
    if not text.strip().endswith("%"):
        return Sample(seed, files=_positive(text, int(match[1])))
    share = Fraction(match[1] + (match[2] or "")) / 100
    if share > 1:
        raise SettingError(f"{text!r} is more than all files", hint="write 100% at most")
    _positive(text, share)
    return Sample(seed, share=share)


def _positive(text: str, number: int | Fraction) -> int:
    if not number:
        raise SettingError(f"{text!r} is not a file", hint="write more than 0")
    return int(number)


class _Line(msgspec.Struct, frozen=True, gc=False):
    """A file that was read whole: its key, its stored bytes, its stamp in hexadecimal digits, and the kinds of
    findings about it, none where it is sound."""

    key: str
    size: int
    stamp: str
    findings: tuple[Kind, ...] = ()


_LINE = msgspec.json.Decoder(_Line)


class Journal:
    """The journal of one lake, open. Made by ``open_journal``."""

    def __init__(self, file: JournalFile, sound: StampSet) -> None:
        self._file = file
        self._sound = sound

    def knows(self, stamp: bytes | None) -> bool:
        """Whether a file was found sound when it had this stamp. One with findings is always read again."""
        return stamp is not None and stamp in self._sound

    def note(self, key: str, size: int, stamp: bytes | None, findings: Sequence[Finding]) -> None:
        """A file was read. One that the listing did not show has no stamp, and is not noted. Raises ``SettingError``
        where the journal cannot be written."""
        if stamp is None:
            return
        kinds = tuple(dict.fromkeys(finding.kind for finding in findings))
        self._file.append(_Line(key, size, stamp.hex(), kinds))


@contextmanager
def open_journal(path: Path, lake: str) -> Iterator[Journal]:
    """The journal at ``path`` of the lake with the URL ``lake``, made where there is none, held as long as the block
    runs. Raises ``SettingError`` as ``open_file`` does."""
    sound = StampSet()

    def take(line: bytes, _: int) -> None:
        noted = _LINE.decode(line)
        if not noted.findings:
            stamp = bytes.fromhex(noted.stamp)
            if len(stamp) != STAMP_BYTES:
                raise ValueError(noted.stamp)
            sound.add(stamp)

    with open_file(path, "singerlake verify", lake, take) as file:
        yield Journal(file, sound)


prepare_decoders(_Line)
