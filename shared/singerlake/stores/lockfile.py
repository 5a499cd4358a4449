"""``lockfile``: the store of the Singerlake Spec. A transaction replaces ``manifest.json`` conditionally."""

from __future__ import annotations

import logging

import msgspec

from singerlake.errors import UnknownOutcomeError
from singerlake.format import layout
from singerlake.format.state.additions import Conflict
from singerlake.format.state.fold import apply, in_lake
from singerlake.format.state.manifest import check_own
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Rebase, Transaction
from singerlake.storage.conditional import put_on_condition
from singerlake.storage.port import Refused, Storage, Written
from singerlake.stores.port import Abilities, Loaded, ManifestStore, Outdated, Trimmed
from singerlake.stores.publish import refuse_foreign
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.stores.segments.stored import in_new_segments, read_manifest, to_stored

logger = logging.getLogger(__name__)


class LockfileStore(ManifestStore):
    """Manifest store over one object. Where storage was seen to ignore conditions it is best effort: one writer at a
    time, kept apart by the locks alone, which each object of this class says once."""

    kind = "lockfile"
    abilities = Abilities(locks=True)

    def __init__(self, storage: Storage, tap: str, stream: str, *, lake_id: str | None = None) -> None:
        self._storage = storage
        self.segments = SegmentObjects(storage, tap, stream)
        self._lake_id = lake_id
        self._tap = tap
        self._stream = stream
        self._key = layout.manifest_key(tap, stream)
        self._said = False

    @property
    def exclusive(self) -> bool:
        honoured = self._storage.capabilities().conditional_put
        if not honoured and not self._said:
            logger.warning(
                "%s ignores conditional writes: best effort, run only one writer for each stream; "
                "tables need the manifest store postgres or dynamodb",
                self._storage.url,
            )
            self._said = True
        return not honoured

    def load(self) -> Loaded | None:
        """The state in ``manifest.json``; None where there is none, or one closed in favour of this store."""
        stored = self._storage.get(self._key)
        if stored is None:
            return None
        return self._own(read_manifest(stored.body, key=self._key, storage=self._storage), stored.etag)

    def _own(self, manifest: Manifest, etag: str) -> Loaded | None:
        if manifest.closed == self.kind:
            return None
        own = check_own(manifest, tap=self._tap, stream=self._stream, store=self.kind, key=self._key)
        return Loaded(in_lake(own, self._lake_id), etag)

    def create(self, manifest: Manifest) -> Loaded:
        """Birth. Of several writers' first states one stays, and all continue from it."""
        manifest = in_lake(manifest, self._lake_id)
        manifest = in_new_segments(self.segments, manifest)
        manifest, body = to_stored(self.segments, manifest, manifest.files.segments)
        born = put_on_condition(self._storage, self._key, body, etag=None)
        if isinstance(born, Written) and not self.exclusive:
            return Loaded(manifest, born.etag)
        if isinstance(born, Refused) and (there := self._storage.head(self._key)) and self.load() is None:
            refuse_foreign(self._storage, self._key, manifest)
            put_on_condition(self._storage, self._key, body, etag=there.etag)
        loaded = self.load()
        if loaded is None:
            raise UnknownOutcomeError(
                "a manifest just written cannot be read back", hint="check the storage, then run again", key=self._key
            )
        return loaded

    def catch_up(self, base: Loaded) -> Loaded | None:
        """The state in ``manifest.json``; ``base``, closed, where the stream has gone on in another store."""
        stored = self._storage.get(self._key)
        if stored is None:
            return None
        manifest = read_manifest(stored.body, key=self._key, storage=self._storage)
        if manifest.store == self.kind:
            return self._own(manifest, stored.etag)
        check_own(manifest, tap=self._tap, stream=self._stream, store=None, key=self._key)
        return Loaded(msgspec.structs.replace(base.manifest, closed=manifest.store), stored.etag)

    def commit(self, base: Loaded, transaction: Transaction) -> Loaded | Outdated | Conflict:
        """Replace the manifest ``base``. Without conditions it is read back: another's may have come on top."""
        after = apply(base.manifest, transaction)
        if isinstance(after, Conflict):
            return after
        usable = base.manifest.files.segments
        if isinstance(transaction.change, Rebase):
            after = in_new_segments(self.segments, after)
            usable = (*usable, *after.files.segments)
        after, body = to_stored(self.segments, after, usable)
        outcome = put_on_condition(self._storage, self._key, body, etag=base.mark)
        if isinstance(outcome, Refused):
            return Outdated()
        if self.exclusive:
            current = self.load()
            return current if current and current.manifest.transaction == after.transaction else Outdated()
        return Loaded(after, outcome.etag)

    def publish(self, state: Loaded, *, run_ended: bool = False) -> None:
        """Nothing to do: every commit is published."""

    def trim(self, *, keep: int, dry_run: bool = True) -> Trimmed:
        """Nothing to remove: there is no log."""
        return Trimmed(floor=-1, transactions=0, keys=0)
