"""Whose log lies below a stream's folder, by the log itself: for a stream whose ``manifest.json`` is gone."""

from __future__ import annotations

import msgspec

from singerlake.errors import LookAtTheLake
from singerlake.format import layout
from singerlake.format.exact_json import decode
from singerlake.format.ready import ready
from singerlake.manifests.object_log import Floor
from singerlake.manifests.publish import published
from singerlake.storage.port import Storage


class _State(msgspec.Struct):
    store: str


class _Change(msgspec.Struct):
    manifest: _State


class _Transaction(msgspec.Struct):
    change: _Change


class _Birth(msgspec.Struct):
    """A record that holds a whole state: the first one of a log."""

    transaction: _Transaction


def logged_kind(storage: Storage, tap: str, stream: str) -> str | None:
    """The manifest store of the snapshot that the log's floor names, else of the oldest record; None where neither can
    be read. Raises what storage raises."""
    prefix = layout.log_prefix(tap, stream)
    floor = storage.get(prefix + layout.LOG_FLOOR)
    try:
        if floor is not None:
            named = decode(floor.body, Floor).snapshot
            there = published(storage, layout.stream_prefix(tap, stream) + named)
            return there.store if there else None
        names = (entry.key for entry in storage.list(prefix + "0"))
        oldest = next((name for name in names if layout.log_number(name[len(prefix) :]) is not None), None)
        stored = storage.get(oldest) if oldest else None
        return decode(stored.body, _Birth).transaction.change.manifest.store if stored else None
    except (msgspec.DecodeError, LookAtTheLake):
        return None


ready(_State, _Change, _Transaction, _Birth)
