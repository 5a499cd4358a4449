"""From options to a stream of a lake and its state, on the driver and in the processes where Spark plans.

Spark keeps these processes, and plans in them anew for every action: a manifest that was read there once is not read
again before it changes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from singerlake.adapters import has_log, load_for_reader
from singerlake.arrow.plan.request import Request
from singerlake.errors import LakeError
from singerlake.format import layout
from singerlake.format.state.model import Manifest
from singerlake.lake import Lake
from singerlake.settings import storage_settings, store_settings
from singerlake.spark.option_values import named_as_options
from singerlake.spark.options import ReadOptions
from singerlake.stores.atomic.bounds import bounded
from singerlake.stores.port import Loaded
from singerlake.stream import LakeStream

KEPT = 4
"""Streams whose state is kept; one of a million files takes half a gigabyte."""


@dataclass(frozen=True, slots=True)
class _OpenStream:
    """A state, and the ETag that ``manifest.json`` had before it was read. ``loaded`` is the same state as a store that
    can go on from it gave it."""

    etag: str
    manifest: Manifest
    loaded: Loaded | None

    def stays(self, stream: LakeStream) -> bool:
        """Whether this is the stream's state for as long as ``manifest.json`` stays as it is, or can be gone on from.
        What was rebuilt in memory is neither."""
        followed = has_log(self.manifest.store, stream.lake.stores)
        return self.loaded is not None or (self.manifest.lineage is not None and not followed)


_kept: OrderedDict[tuple[object, ...], _OpenStream] = OrderedDict()
_lock = threading.Lock()


@named_as_options()
def open_stream(options: ReadOptions) -> LakeStream:
    """The stream the options name. Raises ``NotALakeError``, ``UnknownNameError`` listing what there is."""
    lake = Lake.open(options.path, storage_settings(options.storage), store_settings(options.storage))
    return lake.require().existing_stream(options.tap, options.stream)


@named_as_options()
def snapshot(stream: LakeStream) -> Manifest:
    """The stream's state as it is now, read from storage as far as it is not known already. Raises as
    ``LakeStream.snapshot``."""
    storage = stream.lake.storage
    entry = storage.head(layout.manifest_key(stream.tap, stream.name))
    if entry is None:
        return stream.snapshot()
    key = (storage.url, stream.lake.settings, stream.lake.stores, stream.tap, stream.name)
    with _lock:
        known = _kept.get(key)
    cached = _followed(stream, known) if known is not None and known.etag == entry.etag else None
    cached = cached or _read(stream, entry.etag)
    if cached.stays(stream):
        with _lock:
            _kept[key] = cached
            _kept.move_to_end(key)
            while len(_kept) > KEPT:
                _kept.popitem(last=False)
    return cached.manifest


@named_as_options()
def wanted_of(stream: LakeStream, request: Request) -> tuple[Manifest, Request]:
    """The stream's state as it is now, and what is wanted of it with offsets instead of commits. Raises as ``snapshot``
    and ``bounded``."""
    return bounded(stream.lake.storage, stream.tap, stream.name, lambda: snapshot(stream), request)


def _followed(stream: LakeStream, known: _OpenStream) -> _OpenStream | None:
    """What is known with what came after it; None where that cannot be told from it. A log that was made anew has a
    ``manifest.json`` made anew, so it is not gone on from the log before it."""
    if known.loaded is None:
        return known
    try:
        loaded = stream.store(known.manifest.store).catch_up(known.loaded)
    except LakeError:
        return None
    return _OpenStream(known.etag, loaded.manifest.shown, loaded) if loaded is not None else None


def _read(stream: LakeStream, etag: str) -> _OpenStream:
    kind = stream.kind()
    if has_log(kind, stream.lake.stores):
        try:
            loaded = load_for_reader(
                stream.store(kind), stream.lake.storage, layout.manifest_key(stream.tap, stream.name)
            )
        except LakeError:
            # The stream may be on its way to another store; what is wrong with it is told below.
            loaded = None
        if loaded is not None:
            return _OpenStream(etag, loaded.manifest.shown, loaded)
    return _OpenStream(etag, stream.snapshot(), None)
