"""``singerlake.json`` as runs use it: read once, made if it is missing, extended by new taps."""

from __future__ import annotations

import threading
from contextlib import suppress

from singerlake.clock import IdSource
from singerlake.errors import CorruptObjectError, TooManyConflictsError
from singerlake.format import layout
from singerlake.format.metadata import root
from singerlake.interpreter.threads import holding
from singerlake.storage.conditional import replace_what_was_seen
from singerlake.storage.port import Storage, Stored
from singerlake.upkeep.identity import evidence
from singerlake.upkeep.root_copy import copied_root, replace_root


class RootFile:
    """The root metadata of one lake. What was read of it last is kept: an identity does not change, nor do taps
    leave. Any thread may use it."""

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

    def read_or_copy(self) -> root.RootMetadata | None:
        """What it says now, or, where it is missing, what its copy says. Raises as ``read``."""
        return self.read() or copied_root(self._storage)

    def seen_id(self) -> str | None:
        """The lake's id, where this object has seen it."""
        return self._seen.lake_id if self._seen else None

    def known_id(self) -> str | None:
        """The lake's id for readers: what root metadata or else the streams say, or else its copy; nothing is
        written."""
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
