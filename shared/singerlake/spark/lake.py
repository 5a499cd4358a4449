"""From options to a stream of a lake and its state, on the driver and in the processes where Spark plans; and one view
of several streams, in which no atomic run is half.

Spark keeps these processes, and plans in them anew for every action: a manifest that was read there once is not read
again before it changes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping

from singerlake.arrow.plan.request import Request
from singerlake.format import layout
from singerlake.format.state.model import Manifest
from singerlake.lake import Lake
from singerlake.newest import StateReader
from singerlake.settings import storage_settings, store_settings
from singerlake.spark.options import ReadOptions, named_as_options
from singerlake.stores.atomic.bounds import bounded
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.atomic.view import StreamView, load_each, view
from singerlake.stream import LakeStream

KEPT = 4
"""Streams whose state is kept; one of a million files takes half a gigabyte."""

_kept: OrderedDict[tuple[object, ...], tuple[str, StateReader]] = OrderedDict()
"""Each with the ETag that ``manifest.json`` had before it was read."""
_lock = threading.Lock()


@named_as_options()
def open_stream(options: ReadOptions) -> LakeStream:
    """The stream the options name. Raises ``NotALakeError``, ``UnknownNameError`` listing what there is."""
    lake = Lake.open(options.path, storage_settings(options.storage), store_settings(options.storage))
    return lake.require().existing_stream(options.tap, options.stream)


@named_as_options()
def snapshot(stream: LakeStream) -> Manifest:
    """The stream's state as it is now, read as far as it is not known already. Raises as ``LakeStream.snapshot``."""
    storage = stream.lake.storage
    entry = storage.head(layout.manifest_key(stream.tap, stream.name))
    if entry is None:
        return stream.snapshot()
    key = (storage.url, stream.lake.settings, stream.lake.stores, stream.tap, stream.name)
    with _lock:
        # No other thread finds it while this one uses it.
        etag, newest = _kept.pop(key, ("", None))
    # A log that was made anew has a manifest.json made anew, so it is not gone on from the log before it.
    state = newest.gone_on() if newest is not None and etag == entry.etag else None
    if newest is None or state is None:
        newest = stream.state_reader()
        state = newest.read()
    if state is None:
        return stream.snapshot()
    with _lock:
        _kept[key] = entry.etag, newest
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return state


@named_as_options()
def wanted_of(stream: LakeStream, request: Request) -> tuple[Manifest, Request]:
    """The stream's state, and what is wanted of it with offsets for commits. Raises as ``snapshot`` and ``bounded``."""
    return bounded(stream.lake.storage, stream.tap, stream.name, lambda: snapshot(stream), request)


Given = Mapping[str, str]


@named_as_options()
def in_one_view(wanted: ReadOptions, given: Mapping[str, Given]) -> dict[str, Given]:
    """The options of each stream as they are ``given``, and where they do not say where to end, with the end that it
    has in the view. ``wanted`` says where the lake is. Where the tap has no atomic runs, or only one stream is read,
    they are as they were. Raises as ``Lake.snapshot``."""
    open_ended = [name for name, each in given.items() if not {"to_offset", "as_of"} & {key.lower() for key in each}]
    if len(given) < 2 or not open_ended:
        return dict(given)
    lake = Lake.open(wanted.path, storage_settings(wanted.storage), store_settings(wanted.storage))
    decisions = Decisions(lake.storage, wanted.tap)
    listed = decisions.listed()
    if not listed.names:
        return dict(given)
    # What is not there is for the load to refuse.
    known = frozenset(lake.streams(wanted.tap))
    loads = {name: lake.stream(wanted.tap, name).snapshot for name in open_ended if name in known}
    views = view(decisions, lambda: load_each(loads, near=lake.storage.near), listed)
    return {name: {**each, **_bounds(each, views[name])} if name in views else each for name, each in given.items()}


def _bounds(given: Given, seen: StreamView) -> dict[str, str]:
    names = {name.lower(): value.strip() for name, value in given.items()}
    first = names.get("from_offset", "")
    begins = int(first) if first.isascii() and first.isdigit() else 0
    # An offset behind the view is for the load to refuse if it is behind the stream's end, too.
    found = {"to_offset": str(max(seen.end, begins))}
    if seen.manifest.lineage is not None and "lineage" not in names:
        found["lineage"] = seen.manifest.lineage
    if seen.end <= seen.manifest.floor and "from_offset" not in names:
        # Where all of a stream expired, its DataFrame is empty, as it is without a view.
        found["skip_expired"] = "true"
    return found
