"""Segments that no state names any more: noted as such, noted again once nobody can name them any more, and deleted
once nobody reads them any more, each a grace time after the step before it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from singerlake.clock import timestamp
from singerlake.errors import CorruptObjectError, UnsupportedFormatError
from singerlake.format import layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode, encode
from singerlake.storage.conditional import put_on_condition
from singerlake.storage.port import Entry, Storage
from singerlake.stores.segments.objects import SegmentCopy, SegmentObjects
from singerlake.stores.segments.stored import read_manifest
from singerlake.upkeep.gc.plan import moment
from singerlake.upkeep.result import NONE, Tally, tally


class Unnamed(msgspec.Struct, frozen=True, kw_only=True):
    """``_segments/unnamed.json``: name of a segment -> when it was seen that no state names it, RFC 3339 on the
    storage's clock. ``abandoned`` are those of which that was seen again a grace time later."""

    format: int = 1
    unnamed: dict[str, str] = msgspec.field(default_factory=dict)
    abandoned: dict[str, str] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CollectedSegments:
    """What was deleted, or would be, with its ``keys``, and what waits for the grace time; the names of those whose
    copies went, too, and how many others wait that have nothing but copies."""

    deleted: Tally = NONE
    waiting: Tally = NONE
    keys: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    waiting_copies: int = 0


def collect_segments(
    segments: SegmentObjects, *, time: Callable[[], datetime], grace: timedelta, delete: bool
) -> CollectedSegments:
    """Take each of a stream's ``segments`` that neither ``manifest.json`` nor a snapshot of a log names the next step
    of its collection. ``time`` asks the storage's clock. Where there is no ``manifest.json``, nothing is done.

    Copies go behind their segment, so that whoever may still read has both. Those of a segment that is not there
    are noted first, and go a grace time later.

    A segment is named by the state that a writer stores within a grace time of writing it. Once it has left all states
    only who read one of them can name it again, within a grace time, too. Raises ``CorruptObjectError``,
    ``UnsupportedFormatError`` for a state that cannot be read, and what storage, copies and ``time`` raise.
    """
    storage, tap, stream, copies = segments.storage, segments.tap, segments.stream, segments.copies
    prefix = layout.segments_prefix(tap, stream)
    old = time() - grace
    # Before the segments: what has a copy now has had its object.
    kept = copies.kept() if copies is not None else []
    there = {
        name: entry
        for entry in storage.list(prefix)
        if (name := layout.segment_name_in(entry.key[len(prefix) :])) is not None
    }
    if not there and not kept:
        return CollectedSegments()
    key = prefix + layout.UNNAMED_SEGMENTS
    stored = storage.get(key)
    before = _noted(stored.body, key) if stored else Unnamed()
    named = _named(storage, tap, stream)
    if named is None:
        return CollectedSegments(waiting=_tally(there.values()))
    left = {name: entry for name, entry in there.items() if name not in named}
    due = [name for name in left if _waited(before.abandoned, name, old)]
    bare = [copy for copy in kept if copy.name not in named and (copy.name not in there or copy.name in due)]
    going = [copy for copy in bare if copy.name in due or (copy.noted and moment(copy.noted) <= old)]
    if delete:
        if due:
            storage.delete_all([there[name].key for name in due])
        # Readers and trimmers that know a segment may have come as late as the states were read.
        after = _following(before, left, due, old=old, seen=timestamp(time()))
        if after != before and (stored or after != Unnamed()):
            # Where another collector came first, it noted the same, and the next one goes on from there.
            put_on_condition(storage, key, encode(after), etag=stored.etag if stored else None)
        if copies is not None:
            copies.remove(going)
            copies.note(
                [
                    SegmentCopy(copy.name, noted=timestamp(time()))
                    for copy in bare
                    if not copy.noted and copy not in going
                ]
            )
    return CollectedSegments(
        deleted=_tally(there[name] for name in due),
        waiting=_tally(entry for name, entry in left.items() if name not in due),
        keys=tuple(there[name].key for name in due),
        copies=tuple(sorted(copy.name for copy in going)),
        waiting_copies=len(bare) - len(going),
    )


def _following(
    before: Unnamed, left: Mapping[str, Entry], due: Collection[str], *, old: datetime, seen: str
) -> Unnamed:
    """What is noted of the segments that no state names, after what was noted ``before``. What was written after
    ``old`` is left to its writer."""
    unnamed, abandoned = {}, {}
    for name, entry in left.items():
        if name in due:
            continue
        if name in before.abandoned or _waited(before.unnamed, name, old):
            abandoned[name] = before.abandoned.get(name, seen)
        elif name in before.unnamed or entry.last_modified <= old:
            unnamed[name] = before.unnamed.get(name, seen)
    return Unnamed(unnamed=unnamed, abandoned=abandoned)


def _waited(noted: Mapping[str, str], name: str, old: datetime) -> bool:
    return name in noted and moment(noted[name]) <= old


def _named(storage: Storage, tap: str, stream: str) -> set[str] | None:
    """The segments that a state names; None where there is no ``manifest.json``."""
    keys = [layout.manifest_key(tap, stream)]
    log = layout.log_prefix(tap, stream)
    for entry in storage.list(log):
        name = entry.key[len(log) :]
        parts = layout.log_own_name_parts(name)
        if layout.log_snapshot_number(name) is not None or (parts is not None and parts[1] == "snapshot"):
            keys.append(entry.key)
    named: set[str] = set()
    for key in keys:
        stored = storage.get(key)
        if stored is not None:
            named.update(
                segment.name for segment in read_manifest(stored.body, key=key, storage=storage).files.segments
            )
        elif key == keys[0]:
            return None
    return named


def _noted(body: bytes, key: str) -> Unnamed:
    try:
        noted = decode(body, Unnamed)
        if noted.format == 1:
            return noted
        raise UnsupportedFormatError(
            f"the list of segments has format {noted.format}, this version knows 1", hint="upgrade singerlake", key=key
        )
    except msgspec.DecodeError as error:
        raise CorruptObjectError(
            f"not a list of segments: {error}", hint="delete it; the next 'singerlake gc' writes it anew", key=key
        ) from error


def _tally(entries: Iterable[Entry]) -> Tally:
    return tally(entry.size for entry in entries)


prepare_decoders(Unnamed)
