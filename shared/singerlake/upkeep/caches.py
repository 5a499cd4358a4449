"""``catalogue.json`` and ``singerlake.json`` from what the streams hold. What people wrote there stays."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from singerlake.errors import CorruptObjectError, TooManyConflictsError
from singerlake.format import layout
from singerlake.format.metadata import catalogue, root
from singerlake.format.state.model import Manifest
from singerlake.storage.conditional import replace_if_unchanged, replace_what_was_seen
from singerlake.storage.port import Storage, Stored
from singerlake.upkeep.root_file import bring, replace_root


def rebuild_catalogue(
    storage: Storage, tap: str, manifests: Iterable[Manifest], *, whole: bool, dry_run: bool = False
) -> bool:
    """Write the catalogue of a tap; True where it was, or with ``dry_run`` would be, another. ``whole``: the manifests
    are all of the tap's, so that other entries go. A catalogue that cannot be read is replaced. Raises
    ``TooManyConflictsError`` and what storage raises."""
    fresh = [item for item in map(catalogue.entry, manifests) if item is not None]
    key = layout.catalogue_key(tap)

    def made(stored: Stored | None) -> bytes | None:
        known = None if whole else _catalogue(stored, key)
        for item in fresh:
            known = catalogue.merged(known, item)
        return catalogue.to_json(known) if known is not None and known["streams"] else None

    return bring(storage, key, made, dry_run)


def _catalogue(stored: Stored | None, key: str) -> dict[str, Any] | None:
    try:
        return catalogue.from_json(stored.body, key=key) if stored else None
    except CorruptObjectError:
        return None


def rebuild_root(
    storage: Storage, taps: Iterable[str], *, manifest_store: str, lake_id: str, dry_run: bool = False
) -> bool:
    """Write the root metadata with an entry for each of ``taps``, and with ``lake_id`` where there is none; every
    annotation, and every other tap's entry, stays. True where it was, or would be, another. Raises
    ``CorruptObjectError``, ``UnsupportedFormatError``, ``TooManyConflictsError`` and what storage raises."""
    key = layout.root_metadata_key()
    wanted = sorted(taps)

    def made(stored: Stored | None) -> bytes | None:
        before = root.from_json(stored.body, key=key) if stored else None
        after = before or root.new(lake_id=lake_id, manifest_store=manifest_store)
        for tap in wanted:
            after = root.with_tap(after, tap)
        if stored is None:
            return root.to_json(after)
        return stored.body if after == before else root.to_json(after, stored.body)

    return replace_root(storage, made, dry_run=dry_run)


def use_manifest_store(storage: Storage, kind: str, *, lake_id: str, dry_run: bool = False) -> bool:
    """Have streams that are not yet born get the manifest store ``kind``; ``lake_id`` as in ``rebuild_root``. True
    where the root metadata was, or would be, another. Raises as ``rebuild_root``."""
    key = layout.root_metadata_key()

    def made(stored: Stored | None) -> bytes | None:
        if stored is None:
            return root.to_json(root.new(lake_id=lake_id, manifest_store=kind))
        before = root.from_json(stored.body, key=key)
        if before.manifest_store == kind:
            return None
        return root.to_json(msgspec.structs.replace(before, manifest_store=kind), stored.body)

    return replace_root(storage, made, dry_run=dry_run)


logger = logging.getLogger(__name__)

Content = TypeVar("Content")


@dataclass(frozen=True, slots=True)
class CatalogueFile:
    """The one of ``tap``."""

    storage: Storage
    tap: str

    @property
    def key(self) -> str:
        return layout.catalogue_key(self.tap)

    def entries(self) -> dict[str, Any]:
        """What it says of each stream, by name; nothing where it is missing or cannot be read, which a warning says."""
        known = self._readable(self.storage.get(self.key), catalogue.from_json)
        return {item["tap_stream_id"]: item for item in (known or {}).get("streams", ())}

    def update(self, fresh: Sequence[dict[str, Any]], *, likely_absent: bool = False) -> None:
        """Bring it up to the entries ``fresh``. A lost race leaves it behind, never wrong, and is not an error.
        ``likely_absent``: the tap is new, so that the file is made, and is read only if there is one."""

        def updated(stored: Stored | None) -> bytes | None:
            known = self._readable(stored, catalogue.stored_entries)
            if known is not None and all(catalogue.is_entry(known.get(item["tap_stream_id"]), item) for item in fresh):
                return None
            return catalogue.stored_with(known or {}, fresh)

        with suppress(TooManyConflictsError):
            if likely_absent:
                replace_what_was_seen(self.storage, self.key, updated, None)
            else:
                replace_if_unchanged(self.storage, self.key, updated)

    def remove(self, stream: str) -> None:
        """Leave out the entry of a stream that was dropped. A lost race leaves it behind, and is not an error."""

        def without(stored: Stored | None) -> bytes | None:
            known = self._readable(stored, catalogue.from_json)
            if known is None or all(item["tap_stream_id"] != stream for item in known["streams"]):
                return None
            return catalogue.to_json(
                {**known, "streams": [i for i in known["streams"] if i["tap_stream_id"] != stream]}
            )

        with suppress(TooManyConflictsError):
            replace_if_unchanged(self.storage, self.key, without)

    def _readable(self, stored: Stored | None, parse: Callable[..., Content]) -> Content | None:
        try:
            return parse(stored.body, key=self.key) if stored else None
        except CorruptObjectError as error:
            logger.warning("%s; continuing without it", error)
            return None
