"""States that somebody in this process holds, so that reading one again does not hold every file of it twice.

A million files take most of a gigabyte. A process that loses a race, moves a stream or trims its log has one state
in hand and reads another that differs by a few files: what both list is then one object. Nothing here keeps a state
alive, and which objects are shared shows nowhere but in memory.
"""

from __future__ import annotations

import weakref

from singerlake.format import layout
from singerlake.format.state.manifest import from_json
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Storage
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.stores.segments.stored import with_source

_MANY = 100_000
"""Files from which on a state is worth sharing with: of fewer, what was written is decoded at once."""

_held: weakref.WeakValueDictionary[int, Manifest] = weakref.WeakValueDictionary()


def note(manifest: Manifest) -> None:
    """Let later readings of this stream share with ``manifest`` for as long as it is held."""
    if len(manifest.files.tail) >= _MANY:
        _held[id(manifest)] = manifest


def read_manifest(body: bytes, *, key: str, storage: Storage) -> Manifest:
    """As ``from_json``, in little memory where a state of the stream that ``key`` belongs to is held. Its segments are
    read from ``storage`` when they are asked for."""
    # The references are copied in one step: other threads let go of states meanwhile.
    held = [state for reference in _held.valuerefs() if (state := reference()) is not None]
    own = [state for state in held if key.startswith(layout.stream_prefix(state.tap, state.stream))]
    manifest = from_json(body, key=key, known=max(own, key=lambda state: state.transaction.number, default=None))
    note(manifest)
    return with_source(SegmentObjects(storage, manifest.tap, manifest.stream), manifest)
