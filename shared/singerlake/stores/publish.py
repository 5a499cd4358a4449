"""Publishing: ``manifest.json`` follows a log, forward only, for readers and as the log's newest snapshot."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from singerlake.errors import CorruptObjectError, MissingFileError
from singerlake.format import layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode
from singerlake.format.state.features import KNOWN, SEGMENTS
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.manifest import BEGINNING, check_own
from singerlake.format.state.model import Manifest, Position
from singerlake.storage.conditional import Replacement, replace_as_found
from singerlake.storage.port import Storage
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.stores.segments.stored import named_in, to_stored
from singerlake.stores.shared_states import read_manifest

_HEAD = 8192
# The quotes of a name are escaped, so no tap's or stream's name can look like this.
_BEGINNING = re.compile(
    BEGINNING + rb'"tap":.*?"store":"[a-z0-9_]+"(?:,"lake_id":(?:"[^"\\]*"|null))?,"lineage":'
    rb'.*?"transaction":\{"number":\d+,"id":"[^"\\]*"\}',
    re.DOTALL,
)
_ATTEMPTS = 20
_LARGE = 1 << 12
"""Files of a manifest from which on time and memory matter more than a request."""
_SOME = 1 << 20
"""Bytes of a whole manifest from which on it is large."""


def publish_manifest(
    segments: SegmentObjects, manifest: Manifest, *, fresh: Iterable[Segment] = (), anew: bool = False
) -> None:
    """Make ``manifest.json`` hold ``manifest`` or a newer state of the same store. The state of another store that was
    closed in favour of this one gives way to its successor. ``segments`` are the store's; ``fresh`` are those written
    just now; with ``anew`` the state names none of those that are there already.

    Raises ``ForeignManifestError`` where another tap's, stream's or store's manifest is there, ``CorruptObjectError``,
    ``UnsupportedFormatError``, ``TooManyConflictsError``.
    """
    storage, key = segments.storage, layout.manifest_key(segments.tap, segments.stream)
    large = len(manifest.files) + len(manifest.retired) >= _LARGE

    def look() -> Replacement | None:
        there = _there(storage, key, manifest, large=large)
        if there is not None and there.number >= manifest.transaction.number:
            return None
        usable = (*fresh, *(there.segments if there and not anew else ()))
        return Replacement(to_stored(segments, manifest, usable)[1], there.etag if there else None)

    replace_as_found(storage, key, look, attempts=_ATTEMPTS)


def mend_published(segments: SegmentObjects, manifest: Manifest) -> bool:
    """Where ``manifest.json`` shows this very state by segments that cannot be read, let it name new ones; True where
    that was done. Only for a state whose files were read from elsewhere. Raises as ``publish_manifest``."""
    storage, key = segments.storage, layout.manifest_key(segments.tap, segments.stream)

    def look() -> Replacement | None:
        stored = storage.get(key)
        there = read_manifest(stored.body, key=key, storage=storage) if stored else None
        if stored is None or there is None or there.transaction != manifest.transaction:
            return None
        try:
            there.files.check()
        except CorruptObjectError:
            return Replacement(to_stored(segments, manifest, ())[1], stored.etag)
        return None

    return replace_as_found(storage, key, look, attempts=_ATTEMPTS)


@dataclass(frozen=True, slots=True)
class _There:
    number: int
    etag: str
    segments: tuple[Segment, ...] = ()


class _ManifestBeginning(msgspec.Struct, frozen=True):
    tap: str
    stream: str
    store: str
    transaction: Position
    lake_id: str | None = None
    features: tuple[str, ...] = ()

    def is_like(self, manifest: Manifest) -> bool:
        """Whether it is of the same tap, stream and store."""
        return (self.tap, self.stream, self.store) == (manifest.tap, manifest.stream, manifest.store)


def _there(storage: Storage, key: str, like: Manifest, *, large: bool) -> _There | None:
    """The number of what ``like`` is to follow, and a mark of it or of what was there before it. ``large``: try to do
    without decoding another state beside this one."""
    entry = storage.head(key) if large else None
    beginning = _beginning(storage, key) if entry and entry.size > _SOME else None
    if entry and beginning and beginning.is_like(like) and SEGMENTS not in beginning.features:
        return _There(beginning.transaction.number, entry.etag)
    stored = storage.get(key)
    if stored is None:
        return None
    if beginning and (own := _beginning_of(stored.body)) and own.is_like(like):
        # The segments are to be named again. Of the rest, which may be long, nothing is made.
        return _There(own.transaction.number, stored.etag, named_in(stored.body))
    number = _number(read_manifest(stored.body, key=key, storage=storage), like, key)
    return _There(number, stored.etag, named_in(stored.body))


def _beginning(storage: Storage, key: str) -> _ManifestBeginning | None:
    try:
        return _beginning_of(storage.read_range(key, 0, _HEAD))
    except MissingFileError:
        return None


def _beginning_of(body: bytes) -> _ManifestBeginning | None:
    match = _BEGINNING.match(body[:_HEAD])
    beginning = decode(match.group(0) + b"}", _ManifestBeginning) if match else None
    return beginning if beginning and KNOWN.issuperset(beginning.features) else None


@dataclass(frozen=True, slots=True)
class Published:
    """What the beginning of a ``manifest.json`` says."""

    store: str
    number: int
    lake_id: str | None = None


def published(storage: Storage, key: str) -> Published | None:
    """Whose state ``key`` holds and how new it is, without reading the whole of it; None where there is nothing.
    Raises ``CorruptObjectError``, ``UnsupportedFormatError``."""
    try:
        head = storage.read_range(key, 0, _HEAD)
    except MissingFileError:
        return None
    beginning = _beginning_of(head)
    if beginning:
        return Published(beginning.store, beginning.transaction.number, beginning.lake_id)
    stored = storage.get(key)
    if stored is None:
        return None
    manifest = read_manifest(stored.body, key=key, storage=storage)
    return Published(manifest.store, manifest.transaction.number, manifest.lake_id)


def refuse_foreign(storage: Storage, key: str, manifest: Manifest) -> None:
    """Before a birth: raise ``ForeignManifestError`` where ``key`` holds what ``manifest`` must not follow."""
    stored = storage.get(key)
    if stored is not None:
        _number(read_manifest(stored.body, key=key, storage=storage), manifest, key)


def _number(manifest: Manifest, like: Manifest, key: str) -> int:
    """The transaction number of a published manifest that ``like`` may follow."""
    handed_over = manifest.closed == like.store and manifest.lineage == like.lineage
    check_own(manifest, tap=like.tap, stream=like.stream, store=None if handed_over else like.store, key=key)
    return manifest.transaction.number


prepare_decoders(_ManifestBeginning)
