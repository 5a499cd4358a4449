"""Checking what is on storage against what the metadata says of it, without changing anything."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from singerlake.errors import LookAtTheLake, MissingFile
from singerlake.format import catalogue, layout, root
from singerlake.format.hashing import full_hash
from singerlake.format.model import DataFile, Manifest
from singerlake.maintenance.findings import Finding, Kind
from singerlake.maintenance.rebuild import THREADS, Progress, data_files, in_parallel
from singerlake.maintenance.scan import Scanned, scan
from singerlake.storage.port import Entry, Storage

_FACTS = ("messages", "records", "bytes", "raw_bytes", "sha256")


@dataclass(frozen=True, slots=True)
class Verified:
    """What was checked of one stream, and what is wrong with it."""

    files: int
    messages: int
    bytes: int
    findings: tuple[Finding, ...]


def verify_stream(
    storage: Storage,
    tap: str,
    stream: str,
    state: Callable[[], Manifest | None],
    *,
    threads: int = THREADS,
    sized: Callable[[int], None] = lambda _: None,
    progress: Progress | None = None,
) -> Verified:
    """Read every listed file of a stream whole and hold it against its newest state, which ``state`` gives at each
    call. ``sized`` is told the stored bytes to read. Raises what storage raises; what is wrong with the stream is a
    finding."""
    entries = data_files(storage, tap, stream)
    key = layout.manifest_key(tap, stream)
    try:
        manifest = state()
    except LookAtTheLake as error:
        return Verified(0, 0, 0, (Finding("manifest", key, _said(error)),))
    if manifest is None:
        missing = Finding("manifest", key, f"is missing beside {len(entries)} data files; run 'singerlake rebuild'")
        return Verified(0, 0, 0, (missing,) if entries else ())
    sized(sum(file.bytes for file in manifest.files))
    findings = list(_log(manifest, key))
    prefix = layout.stream_prefix(tap, stream)

    def read(file: DataFile) -> tuple[DataFile, list[Finding]]:
        return file, list(_file(storage, manifest, file, prefix + file.path))

    for file, found in in_parallel(read, manifest.files, threads=threads):
        findings += found
        if progress is not None:
            progress(file.bytes)
    known = _known(manifest)
    strays = [entry for entry in entries if entry.key[len(prefix) :] not in known]
    if strays or any(finding.kind == "missing" for finding in findings):
        fresh = state() or manifest
        findings = [finding for finding in findings if finding.kind != "missing" or _lists(fresh, finding.key, prefix)]
        findings += _unlisted(strays, fresh, prefix)
    return Verified(
        files=len(manifest.files),
        messages=sum(file.messages for file in manifest.files),
        bytes=sum(file.bytes for file in manifest.files),
        findings=tuple(findings),
    )


def verify_metadata(storage: Storage, tap: str | None = None) -> tuple[Finding, ...]:
    """Root metadata and catalogues are what their keys promise; names are ones that this package gives. Checks all
    taps, or one. Raises what storage raises."""
    findings: list[Finding] = []
    key = layout.root_metadata_key()
    stored = storage.get(key)
    if stored is not None:
        findings += _parses(partial(root.from_json, stored.body, key=key), "root", key)
    top = storage.list_folder(f"{layout.RAW}/").folders
    findings += _names(f"{layout.RAW}/", top)
    for folder in top:
        name = layout.from_segment(folder.rstrip("/"))
        if name is None or tap not in (None, name):
            continue
        prefix = layout.tap_prefix(name)
        findings += _names(prefix, storage.list_folder(prefix).folders)
        cached = layout.catalogue_key(name)
        found = storage.get(cached)
        if found is not None:
            findings += _parses(partial(catalogue.from_json, found.body, key=cached), "catalogue", cached)
    return tuple(findings)


def _parses(parse: Callable[[], object], kind: Kind, key: str) -> list[Finding]:
    try:
        parse()
    except LookAtTheLake as error:
        return [Finding(kind, key, _said(error))]
    return []


def _said(error: LookAtTheLake) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message


def _log(manifest: Manifest, key: str) -> Iterator[Finding]:
    """Offsets are gap-free, ids are distinct, and every version has its label and its schema."""
    offset = 0
    seen: set[str] = set()
    for file in manifest.files:
        if file.offset != offset:
            yield Finding("offsets", key, f"file {file.id} begins at offset {file.offset}, {offset} is next")
        if file.id in seen:
            yield Finding("offsets", key, f"file {file.id} is listed twice")
        if file.version not in manifest.versions or file.version not in manifest.schemas:
            yield Finding("version", key, f"file {file.id} has version {file.version}, which has no label or no schema")
        if sum(messages for _, messages in file.members) != file.messages:
            yield Finding(
                "offsets", key, f"the members of file {file.id} do not add up to its {file.messages} messages"
            )
        seen.add(file.id)
        offset = file.end
    if manifest.next_offset != offset:
        yield Finding("offsets", key, f"the next offset is {manifest.next_offset}, the files end at {offset}")


def _file(storage: Storage, manifest: Manifest, file: DataFile, key: str) -> Iterator[Finding]:
    try:
        with storage.open(key) as body:
            scanned = scan(body, key=key)
    except MissingFile:
        yield Finding("missing", key, f"is listed and not there, messages: {file.messages}")
        return
    except LookAtTheLake as error:
        yield Finding("broken", key, error.message)
        return
    wrong = [
        f"{fact} {getattr(scanned, fact)!r}, listed {getattr(file, fact)!r}"
        for fact in _FACTS
        if getattr(scanned, fact) != getattr(file, fact)
    ]
    if wrong:
        yield Finding("differs", key, "; ".join(wrong))
    elif scanned.members != file.members:
        yield Finding("differs", key, "its gzip members do not begin where the manifest says")
    yield from _identity(manifest, file, scanned, key)


def _identity(manifest: Manifest, file: DataFile, scanned: Scanned, key: str) -> Iterator[Finding]:
    if scanned.stream != manifest.stream:
        yield Finding("misplaced", key, f"holds messages of stream {scanned.stream!r}")
    if not full_hash(scanned.schema.schema).startswith(file.version):
        yield Finding("version", key, f"its SCHEMA line is not of version {file.version}")
    own = scanned.provenance.id if scanned.provenance else scanned.header.id if scanned.header else file.id
    if own != file.id:
        yield Finding("identity", key, f"says that it is file {own}, listed as {file.id}")


def _known(manifest: Manifest) -> frozenset[str]:
    """The paths of listed and retired files."""
    return frozenset(file.path for files in (manifest.files, manifest.retired) for file in files)


def _lists(manifest: Manifest, key: str, prefix: str) -> bool:
    """Whether a file is still listed: one that is gone may have been vacuumed and collected meanwhile."""
    return any(prefix + file.path == key for file in manifest.files)


def _unlisted(strays: Iterable[Entry], fresh: Manifest, prefix: str) -> Iterator[Finding]:
    """Data files that no manifest lists. They were seen before the manifest was read; what a live writer has committed
    since is in the fresh one."""
    known = _known(fresh)
    for entry in strays:
        if entry.key[len(prefix) :] not in known:
            yield Finding(
                "unlisted", entry.key, f"{entry.size} bytes that no manifest lists: an interrupted run's, or copied"
            )


def _names(prefix: str, folders: Iterable[str]) -> Iterator[Finding]:
    """Folders that no name gives, and names that are one on a storage that is blind to case."""
    folded: dict[str, list[str]] = defaultdict(list)
    for folder in folders:
        segment = folder.rstrip("/")
        if layout.from_segment(segment) is None:
            yield Finding("foreign", prefix + folder, "is no folder of a lake; it is not looked at", problem=False)
        else:
            folded[segment.casefold()].append(segment)
    for segments in folded.values():
        if len(segments) > 1:
            alike = ", ".join(segments)
            yield Finding("case", prefix, f"{alike} are one on a disk that is blind to case", problem=False)
