"""Which manifest store keeps a stream: ``manifest.json`` says it, and where that is gone, the log beside the data."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from singerlake.errors import LakeError
from singerlake.format import layout
from singerlake.format.exact_json import decode
from singerlake.format.ready import ready
from singerlake.format.root import RootMetadata
from singerlake.manifests.log.objects import Floor
from singerlake.manifests.merge.log import KIND
from singerlake.manifests.publish import published
from singerlake.storage.port import Storage

_BESIDE = ("log", KIND)
"""Stores that keep their log on the lake."""


class _LoggedState(msgspec.Struct):
    store: str


class _LoggedChange(msgspec.Struct):
    """Of a birth the whole state, of a close the store in which the stream goes on."""

    manifest: _LoggedState | None = None
    kind: str = ""
    successor: str = ""


class _LoggedTransaction(msgspec.Struct):
    change: _LoggedChange


class _LoggedRecord(msgspec.Struct):
    """A record of a log; of a settle record nothing."""

    transaction: _LoggedTransaction | None = None


def store_of(storage: Storage, tap: str, stream: str, root: Callable[[], RootMetadata | None]) -> str | None:
    """The manifest store that ``manifest.json`` names. Where that is gone, or cannot be read, and something is in the
    stream's log, the one that the log names, else the one that ``root`` says is used for new streams; None where there
    is neither. Raises what storage raises."""
    try:
        there = published(storage, layout.manifest_key(tap, stream))
        if there is not None:
            return there.store
        if next(iter(storage.list(layout.log_prefix(tap, stream))), None) is None:
            return None
    except LakeError:
        pass
    metadata = root()
    return logged_kind(storage, tap, stream) or (metadata.manifest_store if metadata else None)


def logged_kind(storage: Storage, tap: str, stream: str) -> str | None:
    """The manifest store in which a stream is by what lies in its log: the store of the snapshot that the log's floor
    names, else of the oldest record; where the log was closed for a store elsewhere, that one. None where there is no
    log, or none that can be read. Raises what storage raises."""
    prefix = layout.log_prefix(tap, stream)
    names = (entry.key for entry in storage.list(prefix + "0"))
    keys = [name for name in names if layout.log_number(name[len(prefix) :]) is not None]
    floor = storage.get(prefix + layout.LOG_FLOOR)
    try:
        last = _change(storage, keys[-1]) if keys else None
        if last is not None and last.kind == "close" and last.successor not in _BESIDE:
            return last.successor
        if floor is not None:
            named = decode(floor.body, Floor).snapshot
            there = published(storage, layout.stream_prefix(tap, stream) + named)
            return there.store if there else None
        first = _change(storage, keys[0]) if keys else None
        return first.manifest.store if first is not None and first.manifest is not None else None
    except (msgspec.DecodeError, LakeError):
        return None


def _change(storage: Storage, key: str) -> _LoggedChange | None:
    stored = storage.get(key)
    record = decode(stored.body, _LoggedRecord) if stored else _LoggedRecord()
    return record.transaction.change if record.transaction else None


ready(_LoggedState, _LoggedChange, _LoggedTransaction, _LoggedRecord)
