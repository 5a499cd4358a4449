"""A stream's newest state, asked for again and again, at the price of what changed since."""

from __future__ import annotations

import msgspec

from singerlake.adapters import has_log, load_for_reader
from singerlake.errors import ForeignManifestError, LostStateError
from singerlake.format import layout
from singerlake.format.state.manifest import check_own
from singerlake.format.state.model import Manifest
from singerlake.stores.merge.store import MergeStore
from singerlake.stores.port import Loaded, ManifestStore
from singerlake.stores.shared_states import read_manifest
from singerlake.stream import LakeStream

_MOVES = 5
"""How often a stream may move to another store while one look at it is taken."""
_LOOK = 60.0
"""Seconds after which a log is read all the same. It may have been trimmed beyond what was read, and then its next
transaction is never there."""


class FollowedState:
    """Follows one stream, through a migration to another manifest store too. While nothing is new, a look is one HEAD,
    and lists nothing: a HEAD of the next transaction where the stream has a log on the lake, or of the decision that is
    missing, of ``_log/last_change`` in ``merge``, and else of ``manifest.json``. Where readers follow the log of a
    database, a look asks that for what is new."""

    def __init__(self, stream: LakeStream) -> None:
        self._stream = stream
        self._key = layout.manifest_key(stream.tap, stream.name)
        self._log_prefix = layout.log_prefix(stream.tap, stream.name)
        self._state: Loaded | None = None
        self._log: ManifestStore | None = None
        """The store whose log is followed; None where it is ``manifest.json`` that is."""
        self._looked = 0.0

    def newest(self) -> Manifest:
        """The state as it is now. Where there is neither a state nor a file yet, an empty one whose lineage is None.

        Raises ``LostStateError`` where there are files without a state, and what reading the state raises.
        """
        for _ in range(_MOVES):
            state = self._after(self._state) if self._state is not None else None
            self._state = state or self._opened()
            if self._state is not None:
                return self._state.manifest
            empty = self._stream.rebuilt(lineage=None)
            if not empty.files:
                return empty
            if self._stream.lake.storage.head(self._key) is None:
                break
        raise LostStateError(
            "the stream has data files but no state, and files alone do not show what was read of it",
            hint="run 'singerlake rebuild', then start again; a query of Spark continues by file and line",
            tap=self._stream.tap,
            stream=self._stream.name,
        )

    def anew(self) -> Manifest:
        """As ``newest``, whatever a HEAD says. A ``gc`` that deletes files may have trimmed the log that tells of it,
        and then the next transaction is not there."""
        self._state = None
        return self.newest()

    def _after(self, base: Loaded) -> Loaded | None:
        """``base`` or a newer state; None where it has to be looked for anew."""
        if self._log is None:
            return self._published(base)
        if base.manifest.closed is not None:
            return None if self._stream.kind() != self._log.kind else base
        return self._log.catch_up(base) if self._may_have_changed(self._log, base) else base

    def _may_have_changed(self, log: ManifestStore, base: Loaded) -> bool:
        if isinstance(log, MergeStore):
            return log.changed()
        if not log.abilities.followable:
            return True
        now = self._stream.lake.clock.monotonic()
        if now - self._looked < _LOOK:
            return self._stream.lake.storage.head(self._next(base.manifest)) is not None
        self._looked = now
        return True

    def _next(self, state: Manifest) -> str:
        """The key of the object that comes first of all that change ``state``: nothing follows a run that is undecided
        before the decision about it."""
        if state.prepared is not msgspec.UNSET:
            return layout.commit_key(self._stream.tap, state.prepared.commit)
        return self._log_prefix + layout.log_name(state.transaction.number + 1)

    def _opened(self) -> Loaded | None:
        """The state, from wherever it is kept now."""
        self._log = None
        for _ in range(_MOVES):
            kind = self._stream.kind()
            try:
                loaded = self._followed(kind)
            except ForeignManifestError:
                # It may have moved to another store just now; what is foreign to that too is.
                if self._stream.kind() == kind:
                    raise
                continue
            loaded = loaded or self._published(None)
            if loaded is None or loaded.manifest.store == kind:
                return loaded
        return self._published(None)

    def _followed(self, kind: str | None) -> Loaded | None:
        """The state by the log of a store that keeps one on the lake."""
        if not has_log(kind, self._stream.lake.stores):
            return None
        store = self._stream.store(kind)
        self._looked = self._stream.lake.clock.monotonic()
        loaded = load_for_reader(store, self._stream.lake.storage, self._key)
        if loaded is not None:
            self._log = store
        return loaded

    def _published(self, base: Loaded | None) -> Loaded | None:
        """What ``manifest.json`` holds, read only where it is another one than ``base``. None where there is none, or
        where it is that of a store with a log by now, which may be ahead of it."""
        storage = self._stream.lake.storage
        if base is not None:
            entry = storage.head(self._key)
            if entry is not None and entry.etag == base.mark:
                return base
        stored = storage.get(self._key)
        if stored is None:
            return None
        manifest = check_own(
            read_manifest(stored.body, key=self._key, storage=storage),
            tap=self._stream.tap,
            stream=self._stream.name,
            store=None,
            key=self._key,
        )
        if base is not None and manifest.store != base.manifest.store:
            return None
        return Loaded(manifest, stored.etag)
