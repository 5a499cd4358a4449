"""A tap's ``catalogue.json``: a cache of what the manifests of its streams say."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from singerlake.errors import CorruptObjectError, TooManyConflictsError
from singerlake.format import layout
from singerlake.format.metadata import catalogue
from singerlake.storage.conditional import replace_if_unchanged, replace_what_was_seen
from singerlake.storage.port import Storage, Stored

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
