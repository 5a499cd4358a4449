"""Checks of one stream: its state by itself, its data files against it, its attached files against their rows."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from singerlake.errors import LakeError, MissingFileError
from singerlake.format import layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.lines.times import known_span
from singerlake.format.schema_hash import full_hash
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.segment import is_described
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Storage
from singerlake.upkeep.result import Finding
from singerlake.upkeep.scan import ScanResult, scan, small_bodies
from singerlake.upkeep.scanned_file import content_id
from singerlake.work.engine import Task
from singerlake.work.repeats import Repeats


def check_state(
    manifest: Manifest, key: str, seen: Callable[[DataFile], object] = lambda _: None
) -> tuple[Finding, ...]:
    """What is wrong with a state by itself: offsets have no gaps, ids are distinct, and every version has its label and
    the schema that its hash is of. ``key`` is the manifest's; ``seen`` gets each listed file.
    """
    return (*_files(manifest, key, seen), *_schemas(manifest, key))


def _files(manifest: Manifest, key: str, seen: Callable[[DataFile], object]) -> Iterator[Finding]:
    prefix = layout.stream_prefix(manifest.tap, manifest.stream)
    offset = manifest.floor
    ids = Repeats(count=len(manifest.files))
    for segment, files in manifest.files.segments_with_files():
        described = segment is not None and is_described(segment, files)
        if segment is not None and not described:
            said = f"says other things of segment {segment.name} than its files come to"
            yield Finding("manifest", key, f"{said}; run 'singerlake rebuild --discard-manifest'")
        timed = described and segment is not None and not segment.untimed
        for file in files:
            seen(file)
            ids.add(file.id)
            if file.offset != offset:
                yield Finding("offsets", key, f"file {file.id} begins at offset {file.offset}, {offset} is next")
            yield from _file(manifest, file, key)
            if not timed and known_span(file.first, file.last) is None:
                said = f"its times are unknown, listed are first {file.first!r:.40} and last {file.last!r:.40}"
                yield Finding("times", prefix + file.path, said, problem=False)
            offset = file.end
    for id in ids.among(lambda: (file.id for file in manifest.files)):
        yield Finding("offsets", key, f"file {id} is listed twice")
    if manifest.next_offset != offset:
        yield Finding("offsets", key, f"the next offset is {manifest.next_offset}, the files end at {offset}")


def _file(manifest: Manifest, file: DataFile, key: str) -> Iterator[Finding]:
    if file.version not in manifest.versions or file.version not in manifest.schemas:
        yield Finding("version", key, f"file {file.id} has version {file.version}, which has no label or no schema")
    if sum(messages for _, messages in file.members) != file.messages:
        yield Finding("offsets", key, f"the members of file {file.id} do not add up to its {file.messages} messages")
    rows = [row.message for row in file.attached]
    if rows and (rows != sorted(rows) or not 0 <= rows[0] <= rows[-1] < file.messages):
        yield Finding("offsets", key, f"attached files of file {file.id} are not in the order of its messages")


def _schemas(manifest: Manifest, key: str) -> Iterator[Finding]:
    for version, held in manifest.schemas.items():
        if not is_of(held.schema, version):
            yield Finding("version", key, f"the schema under version {version} is another one's")


def is_of(schema: object, version: str) -> bool:
    """Whether a hash is of a schema."""
    try:
        return full_hash(schema).startswith(version)
    except RecursionError:
        return False


_FACTS = ("messages", "records", "erased", "bytes", "raw_bytes", "sha256")


@dataclass(frozen=True, slots=True)
class VerifyTask:
    """The task of a verification: a listed file of ``stream``, below ``prefix``, and what is wrong with it."""

    stream: str
    prefix: str

    def size(self, file: DataFile) -> int:
        return file.bytes

    def __call__(self, storage: Storage, file: DataFile) -> tuple[Finding, ...]:
        return check_file(storage, self.stream, file, self.prefix + file.path)

    def together(self, storage: Storage, files: Sequence[DataFile]) -> Sequence[tuple[Finding, ...]]:
        keys = [(self.prefix + file.path, file.bytes) for file in files]
        bodies = small_bodies(storage, keys)
        return [
            check_file(storage, self.stream, file, key, body)
            for file, (key, _), body in zip(files, keys, bodies, strict=True)
        ]


def check_file(
    storage: Storage, stream: str, file: DataFile, key: str, body: bytes | None = None
) -> tuple[Finding, ...]:
    """Read a listed file of ``stream`` whole and say what is wrong with it; ``body`` is its content, where it is there
    already. Raises what storage raises."""
    try:
        with storage.open(key) if body is None else io.BytesIO(body) as content:
            scanned = scan(content, key=key, times=False)
    except MissingFileError:
        return (missing(file, key),)
    except LakeError as error:
        return (Finding("broken", key, error.message),)
    return (*_content(file, scanned, key), *_identity(stream, file, scanned, key))


def missing(file: DataFile, key: str) -> Finding:
    return Finding("missing", key, f"is listed but missing, messages: {file.messages}")


def _content(file: DataFile, scanned: ScanResult, key: str) -> Iterator[Finding]:
    wrong = [
        f"{fact} {getattr(scanned, fact)!r}, listed {getattr(file, fact)!r}"
        for fact in _FACTS
        if getattr(scanned, fact) != getattr(file, fact)
    ]
    if wrong:
        yield Finding("differs", key, "; ".join(wrong))
    elif scanned.members != file.members:
        yield Finding("differs", key, "its gzip members do not begin where the manifest says")
    elif scanned.attached != file.attached:
        yield Finding("differs", key, "the attached files that it tells of are not those of the manifest")


def _identity(stream: str, file: DataFile, scanned: ScanResult, key: str) -> Iterator[Finding]:
    if scanned.stream != stream:
        yield Finding("misplaced", key, f"holds messages of stream {scanned.stream!r}")
    if not full_hash(scanned.schema.schema).startswith(file.version):
        yield Finding("version", key, f"its SCHEMA line is not of version {file.version}")
    own = scanned.provenance.id if scanned.provenance else scanned.header.id if scanned.header else file.id
    if file.id not in (own, content_id(scanned.sha256)):
        yield Finding("identity", key, f"says that it is file {own}, listed as {file.id}")


_PIECE = 1 << 20
_RESTORE = "restore it from a backup"


class AttachedObject(msgspec.Struct, frozen=True, gc=False):
    """The object of an attached file, at ``path`` below the stream's folder."""

    path: str
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class AttachedTask(Task[AttachedObject, tuple[Finding, ...]]):
    """The task: an object below ``prefix``, and what is wrong with it."""

    prefix: str

    def size(self, item: AttachedObject) -> int:
        return item.bytes

    def __call__(self, storage: Storage, item: AttachedObject) -> tuple[Finding, ...]:
        key = self.prefix + item.path
        digest, size = hashlib.sha256(), 0
        try:
            with storage.open(key) as body:
                while piece := body.read(_PIECE):
                    digest.update(piece)
                    size += len(piece)
        except MissingFileError:
            return (lost(key),)
        if size != item.bytes:
            return (of_other_size(key, size, item.bytes),)
        if digest.hexdigest() != item.sha256:
            return (Finding("differs", key, f"its bytes are not those that were attached; {_RESTORE}"),)
        return ()


def lost(key: str) -> Finding:
    return Finding("missing", key, f"is attached to a record but missing; {_RESTORE}")


def of_other_size(key: str, size: int, expected: int) -> Finding:
    return Finding("differs", key, f"bytes {size}, attached {expected}; {_RESTORE}")


def attached_objects(files: Iterable[DataFile]) -> dict[str, AttachedObject]:
    """The objects of which ``files`` have rows, each once, by path."""
    found: dict[str, AttachedObject] = {}
    for file in files:
        for row in file.attached:
            path = row.path()
            if path is not None and row.sha256 is not None:
                found[path] = AttachedObject(path, row.sha256, row.bytes or 0)
    return found


prepare_decoders(AttachedObject)
