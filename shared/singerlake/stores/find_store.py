"""Which manifest store keeps a stream: ``manifest.json`` says it, and where that is gone, the log beside the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from singerlake.errors import LakeError
from singerlake.format import layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode
from singerlake.format.metadata.root import RootMetadata
from singerlake.storage.port import Storage
from singerlake.stores.log.objects import Floor
from singerlake.stores.merge.log import KIND
from singerlake.stores.publish import published

_BESIDE = ("log", KIND)
"""Stores that keep their log on the lake."""


class _LoggedState(msgspec.Struct):
    store: str
    closed: str | None = None


class _LoggedChange(msgspec.Struct):
    """Of a birth the whole state, of a close the store in which the stream continues."""

    manifest: _LoggedState | None = None
    kind: str = ""
    successor: str = ""


class _LoggedTransaction(msgspec.Struct):
    change: _LoggedChange


class _LoggedEntry(msgspec.Struct):
    transaction: _LoggedTransaction


class _LoggedRecord(msgspec.Struct):
    """A record of a log: one transaction, or those that a settle record has."""

    transaction: _LoggedTransaction | None = None
    entries: tuple[_LoggedEntry, ...] = ()

    @property
    def changes(self) -> list[_LoggedChange]:
        """What its transactions do, in their order."""
        own = () if self.transaction is None else (self.transaction.change,)
        return [*own, *(entry.transaction.change for entry in self.entries)]


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


class Lying(NamedTuple):
    """What lies in a stream's folder: data files, and what was seen before the first of them: ``manifest.json``, and
    schemas that are kept."""

    data: bool
    manifest: bool
    schemas: bool


def lying(storage: Storage, tap: str, stream: str) -> Lying:
    """What lies in a stream's folder, by one listing of it. Raises what storage raises."""
    prefix = layout.stream_prefix(tap, stream)
    manifest = schemas = False
    for entry in storage.list(prefix):
        path = entry.key[len(prefix) :]
        if layout.is_data_file(path):
            return Lying(True, manifest, schemas)
        manifest = manifest or path == layout.MANIFEST
        schemas = schemas or layout.is_kept_schema(path)
    return Lying(False, manifest, schemas)


def logged_kind(storage: Storage, tap: str, stream: str) -> str | None:
    """The manifest store in which a stream is by what lies in its log: the store of the snapshot that the log's floor
    names, else of the oldest record; where its newest record, or that snapshot, closes the log for a store elsewhere,
    that one. None where there is no log, or none that can be read. Raises what storage raises."""
    prefix = layout.log_prefix(tap, stream)
    names = (entry.key for entry in storage.list(prefix + "0"))
    keys = [name for name in names if layout.log_number(name[len(prefix) :]) is not None]
    floor = storage.get(prefix + layout.LOG_FLOOR)
    try:
        left_for = [change.successor for change in _changes(storage, keys[-1:]) if change.kind == "close"]
        if left_for and left_for[0] not in _BESIDE:
            return left_for[0]
        if floor is not None:
            named = storage.get(layout.stream_prefix(tap, stream) + decode(floor.body, Floor).snapshot)
            states = [decode(named.body, _LoggedState)] if named else []
        else:
            states = [change.manifest for change in _changes(storage, keys[:1]) if change.manifest is not None]
    except (msgspec.DecodeError, LakeError):
        return None
    if not states:
        return None
    state = states[0]
    return state.store if state.closed is None or state.closed in _BESIDE else state.closed


def _changes(storage: Storage, keys: list[str]) -> list[_LoggedChange]:
    stored = storage.get(keys[0]) if keys else None
    return decode(stored.body, _LoggedRecord).changes if stored else []


prepare_decoders(_LoggedState, _LoggedChange, _LoggedTransaction, _LoggedEntry, _LoggedRecord)
