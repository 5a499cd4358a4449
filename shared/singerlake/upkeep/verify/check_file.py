"""Holding data files against what the manifest says of them, one by one: the part of a verification that reads."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from singerlake.errors import LakeError, MissingFileError
from singerlake.format.schema_hash import full_hash
from singerlake.format.state.files.data_file import DataFile
from singerlake.storage.port import Storage
from singerlake.upkeep.rebuild.scanned_file import content_id
from singerlake.upkeep.scan.scan import ScanResult, scan
from singerlake.upkeep.scan.small_files import small_bodies
from singerlake.upkeep.verify.findings import Finding

_FACTS = ("messages", "records", "erased", "bytes", "raw_bytes", "sha256")


@dataclass(frozen=True, slots=True)
class VerifyTask:
    """The task of a verification: a listed file of ``stream``, which lies below ``prefix``, and what is wrong with
    it."""

    stream: str
    prefix: str

    def size(self, file: DataFile) -> int:
        """Its stored bytes."""
        return file.bytes

    def __call__(self, storage: Storage, file: DataFile) -> tuple[Finding, ...]:
        """As ``check_file`` says."""
        return check_file(storage, self.stream, file, self.prefix + file.path)

    def together(self, storage: Storage, files: Sequence[DataFile]) -> Sequence[tuple[Finding, ...]]:
        """As ``check_file`` says of each."""
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
    """What is said of a listed file that is not there."""
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
