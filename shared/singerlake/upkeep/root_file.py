"""``singerlake.json`` as runs use it: read once, made if it is missing, extended by new taps; and its copy, by which
what people say of a lake survives the loss of either. Section 6 of ``shared/docs/format``.

Where it does not say which lake this is, the streams' own objects do: a stream's manifest first, since it is small and
written last; only where it says nothing the newest object of the stream. All streams are asked: one may have been
copied here from another lake.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import msgspec

from singerlake.clock import IdSource
from singerlake.errors import (
    CorruptObjectError,
    LakeError,
    LostStateError,
    MissingFileError,
    SettingError,
    TooManyConflictsError,
)
from singerlake.format import kept_schema, layout
from singerlake.format.exact_json import decode
from singerlake.format.extra_fields import member_extra, own_words
from singerlake.format.metadata import root
from singerlake.glance import at_a_glance
from singerlake.interpreter.threads import holding
from singerlake.storage.conditional import replace_if_unchanged, replace_what_was_seen
from singerlake.storage.port import Storage, Stored
from singerlake.stores.publish import published
from singerlake.upkeep.context import stream_objects
from singerlake.upkeep.result import Finding
from singerlake.work.parallel import THREADS, in_parallel


class RootFile:
    """The root metadata of one lake. What was read last is kept: identity and taps stay. Any thread may use it."""

    def __init__(self, storage: Storage, ids: IdSource) -> None:
        self._storage = storage
        self._ids = ids
        self._key = layout.root_metadata_key()
        self._seen: root.RootMetadata | None = None
        # The object that was read last, unless it was replaced by this one, or was gone, since.
        self._stored: Stored | None = None
        self._fresh: str | None = None
        # For threads that would all make an identity at once.
        self._making = threading.Lock()

    def read(self) -> root.RootMetadata | None:
        """What it says now; None where there is none. Raises ``CorruptObjectError``, ``UnsupportedFormatError``."""
        stored = self._storage.get(self._key)
        return None if stored is None else self._note(stored)

    def seen_id(self) -> str | None:
        return self._seen.lake_id if self._seen else None

    def known_id(self) -> str | None:
        """The lake's id for readers, of root metadata, else of the streams, else of its copy; nothing is written."""
        metadata = self._seen or self.read()
        if metadata is not None:
            return metadata.lake_id
        named = evidence(self._storage).lake_id
        copy = copied_root(self._storage) if named is None else None
        return copy.lake_id if copy is not None else named

    def fresh_id(self) -> str:
        """The id that this object gives the lake where it has none: one, however often it is asked for."""
        self._fresh = self._fresh or self._ids()
        return self._fresh

    def lake_id(self, manifest_store: str | None, *, default_kind: str) -> str:
        """The lake's id. Where there is no root metadata it is written, with what its copy says, and with the id that
        the streams name, or that of the copy where none does, or a new one.
        ``manifest_store`` is what streams not yet born will get, None for that of the others, or ``default_kind`` where
        there are none. Raises ``LostStateError`` where the streams name several ids."""

        def born(stored: Stored | None) -> bytes | None:
            if stored is not None:
                self._note(stored)
                return None
            named = evidence(self._storage)
            copy = copied_root(self._storage)
            kind = manifest_store or named.kind or (copy.manifest_store if copy else default_kind)
            own = named.lake_id or (copy.lake_id if copy else self.fresh_id())
            return root.to_json(root.new(lake_id=own, manifest_store=kind))

        with holding(self._making):
            if self._seen is None and replace_root(self._storage, born, look=False):
                # What is there now counts: without conditions another's may have come on top.
                self.read()
            metadata = self._seen
        if metadata is None:
            raise CorruptObjectError(
                "root metadata cannot be written", hint="check the storage, then run again", key=self._key
            )
        return metadata.lake_id

    def add_tap(self, tap: str) -> None:
        """Name ``tap`` in root metadata that is there. It is a cache of the listing: a lost race is not an error."""
        if self._seen is not None and tap in self._seen.taps:
            return

        def named(stored: Stored | None) -> bytes | None:
            if stored is None:
                self._stored = None
                return None
            metadata = self._note(stored)
            after = root.with_tap(metadata, tap)
            return None if after is metadata else root.to_json(after, stored.body)

        with suppress(TooManyConflictsError):
            # As a rule it was read when the run began, and nobody changed it since.
            if replace_what_was_seen(self._storage, self._key, named, self._stored):
                # The next one looks whether the tap stayed: without conditions another's may have come on top.
                self._stored = None

    def was_read_without(self, tap: str) -> bool:
        """Whether it did not name ``tap`` when it was read last, and was not changed by this object since."""
        return self._stored is not None and self._seen is not None and tap not in self._seen.taps

    def _note(self, stored: Stored) -> root.RootMetadata:
        metadata = root.from_json(stored.body, key=self._key)
        self._stored, self._seen = stored, metadata
        return metadata


_HEAD = 1 << 16
_NAMED = 3
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
COMMAND = "singerlake store identify LAKE --lake-id"


@dataclass(frozen=True)
class Evidence:
    """What the streams say: lake id -> the streams that name it, ``tap/stream`` as path segments. ``kind`` is the
    manifest store of one of them, None where none has a state."""

    lakes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kind: str | None = None

    @property
    def lake_id(self) -> str | None:
        """The id that every stream names which names one; None where no stream does. Raises ``LostStateError`` where
        they differ: to take one of two could part the other's streams from their database."""
        if len(self.lakes) > 1:
            raise LostStateError(
                f"singerlake.json is missing, and the streams are of several lakes: {naming(self.lakes)}",
                hint=f"run '{COMMAND}' with the id of this one; nothing was written",
            )
        return next(iter(self.lakes), None)


@at_a_glance
@dataclass(frozen=True, slots=True)
class IdentityResult:
    """The id by which databases know a lake: ``lake_id`` as ``singerlake.json`` says it, None where that is missing,
    and as ``streams`` do: lake id -> the streams that name it, as path segments."""

    lake: str
    lake_id: str | None
    streams: Mapping[str, tuple[str, ...]]


def naming(lakes: Mapping[str, tuple[str, ...]]) -> str:
    """Lake ids with some of the streams that name them."""
    return "; ".join(
        f"{lake_id} ({', '.join(streams[:_NAMED])}{', ...' if len(streams) > _NAMED else ''})"
        for lake_id, streams in sorted(lakes.items())
    )


def evidence(storage: Storage) -> Evidence:
    """What the streams of a lake say of its id. Raises what storage raises; objects that cannot be read say nothing."""
    pairs = [
        (tap, stream) for tap in _names(storage, f"{layout.RAW}/") for stream in _names(storage, layout.tap_prefix(tap))
    ]
    kinds: list[str] = []
    lakes: dict[str, list[str]] = defaultdict(list)
    states = list(in_parallel(lambda pair: _in_manifest(storage, *pair), pairs, threads=THREADS))
    for (tap, stream), (lake_id, kind) in zip(pairs, states, strict=True):
        if kind is not None:
            kinds.append(kind)
        if lake_id is not None:
            lakes[lake_id].append(_shown(tap, stream))
    silent = [pair for pair, (lake_id, _) in zip(pairs, states, strict=True) if lake_id is None]
    files = in_parallel(lambda pair: _in_files(storage, *pair), silent, threads=THREADS)
    for (tap, stream), lake_id in zip(silent, files, strict=True):
        if lake_id is not None:
            lakes[lake_id].append(_shown(tap, stream))
    return Evidence({lake_id: tuple(streams) for lake_id, streams in lakes.items()}, next(iter(kinds), None))


def identify(storage: Storage, lake_id: str, *, default_kind: str) -> bool:
    """Write an id into ``singerlake.json``, which is made where it is missing; what else is there stays. True where it
    was another. Raises ``SettingError`` for an id that no lake has, ``LostStateError`` where the streams name others,
    ``CorruptObjectError``, ``UnsupportedFormatError``, ``TooManyConflictsError`` and what storage raises."""
    if not _ID.match(lake_id):
        raise SettingError("this is not a lake id", hint="use only letters, digits, - and _", lake_id=lake_id)
    named = evidence(storage)
    if named.lakes and lake_id not in named.lakes:
        raise LostStateError(
            f"the streams are of another lake: {naming(named.lakes)}",
            hint="give that id; nothing was written",
            lake_id=lake_id,
        )
    key = layout.root_metadata_key()

    def made(stored: Stored | None) -> bytes | None:
        if stored is None:
            return root.to_json(root.new(lake_id=lake_id, manifest_store=named.kind or default_kind))
        before = root.from_json(stored.body, key=key)
        return root.to_json(root.with_lake_id(before, lake_id), stored.body)

    return replace_root(storage, made)


def _names(storage: Storage, prefix: str) -> list[str]:
    names = (layout.from_segment(folder.rstrip("/")) for folder in storage.list_folder(prefix).folders)
    return [name for name in names if name is not None]


def _shown(tap: str, stream: str) -> str:
    return f"{layout.tap_segment(tap)}/{layout.stream_segment(stream)}"


def _in_manifest(storage: Storage, tap: str, stream: str) -> tuple[str | None, str | None]:
    try:
        there = published(storage, layout.manifest_key(tap, stream))
    except LakeError:
        there = None
    return (there.lake_id, there.store) if there else (None, None)


def _in_files(storage: Storage, tap: str, stream: str) -> str | None:
    newest = max(stream_objects(storage, tap, stream), key=attrgetter("last_modified"), default=None)
    if newest is None:
        return None
    try:
        if newest.key.endswith(layout.SCHEMA):
            stored = storage.get(newest.key)
            return kept_schema.from_json(stored.body, key=newest.key).lake_id if stored else None
        extra = member_extra(storage.read_range(newest.key, 0, min(newest.size, _HEAD)))
    except (LakeError, MissingFileError):
        return None
    said = own_words(extra[0]) if extra and extra[0] is not None else None
    return said.lake_id if said else None


logger = logging.getLogger(__name__)

_AGAIN = "set them again with 'singerlake policy set' and 'singerlake annotate'"
_NOTHING: tuple[Any, ...] = ("", {}, [], None)


def copied_root(storage: Storage) -> root.RootMetadata | None:
    """What the copy says; None where there is none that can be read. Raises what storage raises."""
    return _readable(storage.get(layout.root_copy_key()))


def replace_root(
    storage: Storage, made: Callable[[Stored | None], bytes | None], *, dry_run: bool = False, look: bool = True
) -> bool:
    """As ``replace_if_unchanged``, for ``singerlake.json``, and bring the copy up to it; without ``look`` only if
    something was written. Where there was none, it gets what the copy says of the same lake, and a warning says so, or
    that what people said is gone. With ``dry_run`` only whether it would be replaced. Raises as that does."""
    found: list[str | None] = []

    def whole(stored: Stored | None) -> bytes | None:
        found.clear()
        body = made(stored)
        if stored is not None or body is None:
            return body
        body, told = _anew(storage, body)
        found.append(told)
        return body

    replaced = bring(storage, layout.root_metadata_key(), whole, dry_run)
    if dry_run:
        return replaced
    if replaced and found and found[0] is not None:
        logger.warning("%s", found[0])
    if replaced or look:
        keep_copy(storage)
    return replaced


def bring(storage: Storage, key: str, made: Callable[[Stored | None], bytes | None], dry_run: bool) -> bool:
    """As ``replace_if_unchanged``; with ``dry_run`` only whether it would be replaced."""
    if not dry_run:
        return replace_if_unchanged(storage, key, made)
    stored = storage.get(key)
    body = made(stored)
    return body is not None and (stored is None or body != stored.body)


def change_notes(
    storage: Storage, tap: str, what: str, changed: Callable[[root.TapNotes], root.TapNotes | None]
) -> bool:
    """Replace what people say of a tap, and nothing else, by what ``changed`` makes of it; None: it stays. True where
    it is something else now. Raises ``LostStateError`` where there is no root metadata to write ``what`` into,
    ``CorruptObjectError``, ``UnsupportedFormatError``, ``TooManyConflictsError`` and what storage raises."""
    key = layout.root_metadata_key()

    def made(stored: Stored | None) -> bytes | None:
        if stored is None:
            raise LostStateError(
                f"there is no root metadata to write {what} into", hint="run 'singerlake rebuild'", key=key
            )
        before = root.with_tap(root.from_json(stored.body, key=key), tap)
        notes = changed(before.taps[tap])
        if notes is None:
            return None
        return root.to_json(msgspec.structs.replace(before, taps={**before.taps, tap: notes}), stored.body)

    return replace_root(storage, made)


def keep_copy(storage: Storage) -> bool:
    """Bring the copy up to ``singerlake.json``; True where it was not. Raises ``TooManyConflictsError`` and what
    storage raises."""

    def made(copy: Stored | None) -> bytes | None:
        # Read after the copy, which is replaced only if it is still that one: no copy takes the place of a later one.
        stored = storage.get(layout.root_metadata_key())
        return stored.body if stored is not None and not _says_the_same(copy, stored) else None

    return replace_if_unchanged(storage, layout.root_copy_key(), made)


def root_findings(storage: Storage) -> list[Finding]:
    """What is to be said of the two: ``singerlake.json`` is gone, or they differ. Raises what storage raises."""
    copy, stored = storage.get(layout.root_copy_key()), storage.get(layout.root_metadata_key())
    key, copied = layout.root_metadata_key(), layout.root_copy_key()
    if stored is None:
        told = "is missing; the next run that writes, or 'singerlake rebuild', brings it back from its copy"
        return [Finding("root", key, told)] if _readable(copy) is not None else []
    # Without a copy nothing is lost yet, and lakes of earlier versions have none.
    if copy is None or _says_the_same(copy, stored):
        return []
    told = "does not say what singerlake.json says; 'singerlake rebuild' and 'singerlake gc --delete' write it again"
    return [Finding("root", copied, told)]


def lost_root(tap: str, stream: str) -> Finding:
    """What is to be said where neither is there, and ``stream`` says that there was one."""
    gone = f"is missing, and has no copy; what it said of tap {tap!r} is gone"
    return Finding(
        "root",
        layout.root_metadata_key(),
        f"{gone} (stream {stream!r} names the lake's id): run 'singerlake rebuild', then {_AGAIN}",
    )


def _anew(storage: Storage, body: bytes) -> tuple[bytes, str | None]:
    """``body``, root metadata where there was none, with what the copy says; and what is to be said of it."""
    fresh = root.from_json(body, key=layout.root_metadata_key())
    stored = storage.get(layout.root_copy_key())
    copy = _readable(stored)
    if stored is not None and copy is not None and copy.lake_id == fresh.lake_id:
        made = root.to_json(msgspec.structs.replace(fresh, taps={**fresh.taps, **copy.taps}), stored.body)
        return made, "singerlake.json was missing and is brought back from its copy: see 'singerlake policy ls'"
    if stored is None and not storage.list_folder(f"{layout.RAW}/").folders:
        return body, None
    why = "has no copy" if stored is None else "has a copy of another lake" if copy else "has no copy that can be read"
    told = f"singerlake.json was missing and {why}; the policies and notes that it had are gone: {_AGAIN}"
    return body, told


def _readable(stored: Stored | None) -> root.RootMetadata | None:
    try:
        return root.from_json(stored.body, key=layout.root_copy_key()) if stored is not None else None
    except LakeError:
        return None


def _says_the_same(copy: Stored | None, stored: Stored) -> bool:
    """Whether the copy says what people said, if anything. What cannot be read, or copied, is left to a person."""
    said = _said(stored.body) if _readable(stored) is not None else None
    if said is None:
        return True
    if copy is None:
        return set(said) <= {*root.RootMetadata.__struct_fields__} - {"taps"}
    return said == _said(copy.body)


def _said(body: bytes) -> dict[str, Any] | None:
    """What an object says, without taps of which nothing is said; None where it cannot be read."""
    try:
        said = decode(body, dict[str, Any])
    except msgspec.DecodeError:
        return None
    taps = said.pop("taps", {})
    if isinstance(taps, dict):
        noted = {tap: _noted(notes) for tap, notes in taps.items()}
        taps = {tap: notes for tap, notes in noted.items() if notes not in _NOTHING}
    return {**said, "taps": taps} if taps not in _NOTHING else said


def _noted(notes: Any) -> Any:
    return {name: value for name, value in notes.items() if value not in _NOTHING} if isinstance(notes, dict) else notes
