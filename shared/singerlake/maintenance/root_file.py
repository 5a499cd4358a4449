"""``singerlake.json`` as runs use it: read once, made where it is missing, told of new taps."""

from __future__ import annotations

import threading

from singerlake.clock import IdSource
from singerlake.errors import CorruptObjectError
from singerlake.format import layout, root
from singerlake.maintenance.identity import evidence
from singerlake.storage.conditional import put_on_condition
from singerlake.storage.port import Storage, Stored, Written

_ATTEMPTS = 5


class RootFile:
    """The root metadata of one lake. What was seen of it last is kept: an identity does not change, nor do taps
    leave. Any thread may use it."""

    def __init__(self, storage: Storage, ids: IdSource) -> None:
        self._storage = storage
        self._ids = ids
        self._key = layout.root_metadata_key()
        self._seen: root.RootMetadata | None = None
        self._fresh: str | None = None
        # For threads that would all make an identity at once.
        self._making = threading.Lock()

    def read(self) -> root.RootMetadata | None:
        """What it says now; None where there is none. Raises ``CorruptObjectError``, ``UnsupportedFormatError``."""
        found = self._stored()
        return found[0] if found else None

    def seen_id(self) -> str | None:
        """The lake's id, where this object has seen it."""
        return self._seen.lake_id if self._seen else None

    def known_id(self) -> str | None:
        """The lake's id for readers: what root metadata or else the streams say; nothing is written."""
        metadata = self._seen or self.read()
        return metadata.lake_id if metadata is not None else evidence(self._storage).lake_id

    def fresh_id(self) -> str:
        """The id that this object gives the lake where it has none: one, however often it is asked for."""
        self._fresh = self._fresh or self._ids()
        return self._fresh

    def lake_id(self, manifest_store: str | None, *, default_kind: str) -> str:
        """The lake's id. Where there is no root metadata it is written, with the id that the streams name, or a new one
        where none does. ``manifest_store`` is what streams not yet born will get, None for that of the others, or
        ``default_kind`` where there are none. Raises ``LostStateError`` where the streams name several ids."""
        with self._making:
            for _ in range(_ATTEMPTS):
                metadata = self._seen or self.read()
                if metadata is not None:
                    return metadata.lake_id
                found = evidence(self._storage)
                kind = manifest_store or found.kind or default_kind
                made = root.new(lake_id=found.lake_id or self.fresh_id(), manifest_store=kind)
                self._replace(root.to_json(made), None)
        raise CorruptObjectError(
            "root metadata cannot be written", hint="check the storage, then run again", key=self._key
        )

    def add_tap(self, tap: str) -> None:
        """Name ``tap`` in root metadata that is there. It is a cache of the listing: a lost race is not an error."""
        if self._seen is not None and tap in self._seen.taps:
            return
        for _ in range(_ATTEMPTS):
            found = self._stored()
            if found is None:
                return
            metadata, stored = found
            after = root.with_tap(metadata, tap)
            if after is metadata or self._replace(root.to_json(after, stored.body), stored.etag):
                return

    def _stored(self) -> tuple[root.RootMetadata, Stored] | None:
        stored = self._storage.get(self._key)
        if stored is None:
            return None
        self._seen = root.from_json(stored.body, key=self._key)
        return self._seen, stored

    def _replace(self, body: bytes, etag: str | None) -> bool:
        return isinstance(put_on_condition(self._storage, self._key, body, etag=etag), Written)
