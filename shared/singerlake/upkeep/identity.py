"""Which lake this is, where ``singerlake.json`` does not say: from what the streams' own objects say.

A stream's manifest first, since it is small and written last; only where it says nothing the newest object of the
stream. All streams are asked: one may have been copied here from another lake.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from singerlake.errors import LakeError, LostStateError, MissingFileError, SettingError
from singerlake.format import kept_schema, layout
from singerlake.format.extra_fields import member_extra, own_words
from singerlake.format.metadata import root
from singerlake.storage.port import Storage, Stored
from singerlake.stores.publish import published
from singerlake.upkeep.rebuild.survey import stream_objects
from singerlake.upkeep.root_copy import replace_root
from singerlake.work.parallel import THREADS, in_parallel

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
