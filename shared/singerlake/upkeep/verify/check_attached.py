"""Holding attached files against their rows: the object of each is there, with the size and the SHA-256 that it should
have."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from singerlake.errors import MissingFileError
from singerlake.format.decoders import prepare_decoders
from singerlake.format.state.files.data_file import DataFile
from singerlake.storage.port import Storage
from singerlake.upkeep.verify.findings import Finding

_PIECE = 1 << 20
_RESTORE = "restore it from a backup"


class AttachedObject(msgspec.Struct, frozen=True, gc=False):
    """The object of an attached file, at ``path`` below the stream's folder."""

    path: str
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class AttachedTask:
    """The task: an object below ``prefix``, and what is wrong with it."""

    prefix: str

    def size(self, item: AttachedObject) -> int:
        """Its stored bytes."""
        return item.bytes

    def __call__(self, storage: Storage, item: AttachedObject) -> tuple[Finding, ...]:
        """Read it whole. Raises what storage raises."""
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

    def together(self, storage: Storage, items: Sequence[AttachedObject]) -> Sequence[tuple[Finding, ...]]:
        """Read several."""
        return [self(storage, item) for item in items]


def lost(key: str) -> Finding:
    """What is said of an attached file that is not there."""
    return Finding("missing", key, f"is attached to a record but missing; {_RESTORE}")


def of_other_size(key: str, size: int, expected: int) -> Finding:
    """What is said of one that has another size."""
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
