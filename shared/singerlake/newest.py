"""The newest state of a stream: looked for once, or again and again at the price of what changed since.

``manifest.json`` says which manifest store keeps the stream, and has its state. Where readers follow the log of that
store, the log may be ahead of it. Where ``manifest.json`` is gone, the log beside the data says whose the stream is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from singerlake.adapters import ON_THE_LAKE
from singerlake.errors import (
    AccessDeniedError,
    CorruptObjectError,
    ForeignManifestError,
    LakeError,
    LostStateError,
    MissingFileError,
    SettingError,
    UnsupportedFormatError,
)
from singerlake.format import layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode
from singerlake.format.metadata.root import RootMetadata
from singerlake.format.state.manifest import check_own
from singerlake.format.state.model import Manifest
from singerlake.settings import StoreSettings
from singerlake.storage.port import Storage
from singerlake.stores.log import Floor, is_newest
from singerlake.stores.numbered import is_birth
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded, ManifestStore
from singerlake.stores.publish import published
from singerlake.stores.segments.stored import read_manifest

_LOGS_ON_THE_LAKE = ("log", "merge")
"""Manifest stores that keep their log on the lake."""
_SMALL = 1 << 18
"""Bytes of a ``manifest.json`` that is read in one request, of some 700 files: a larger one takes two."""
_MOVES = 5
"""How often a stream may move to another store while one look at it is taken."""
_LOOK = 60.0
"""Seconds after which a log is read all the same: it may have been trimmed beyond what was read."""


@dataclass(eq=False)
class StateReader:
    """Reads the newest state of one stream, and goes on from the state that it read last, through a migration to
    another manifest store too. Two threads must not use one object at once.

    ``open_store`` opens the manifest store of a kind, ``kind`` gives that of the stream, ``rebuilt`` makes a state from
    the data files alone. Every method raises what reading the state raises.
    """

    place: StreamPlace
    settings: StoreSettings
    open_store: Callable[[str], ManifestStore]
    kind: Callable[[], str | None]
    rebuilt: Callable[[], Manifest]

    def __post_init__(self) -> None:
        self._storage = self.place.storage
        self._key = layout.manifest_key(self.place.tap, self.place.stream)
        self._state: Loaded | None = None
        self._log: ManifestStore | None = None
        """The store whose log is followed; None where it is ``manifest.json`` that is."""
        self._looked = 0.0

    def once(self) -> Manifest | None:
        """The state by the fewest requests for a reader that asks once; None where the lake holds none. Raises as
        ``LakeStream.state``."""
        manifest = self._small()
        if manifest is None:
            kind = self.kind()
        elif self._has_log(manifest.store) and not self._is_all_of_log(manifest):
            kind = manifest.store
        else:
            return check_own(manifest, tap=self.place.tap, stream=self.place.stream, store=None, key=self._key)
        loaded = self._opened(kind)
        return loaded.manifest.shown if loaded is not None else None

    def look(self) -> Manifest:
        """The state as it is now. Where there is neither a state nor a file yet, an empty one whose lineage is None.

        While nothing is new, a look is one HEAD, and lists nothing: a HEAD of the next transaction where the stream has
        a log on the lake, or of the decision that is missing, of ``_log/last_change`` in ``merge``, and else of
        ``manifest.json``. Where readers follow the log of a database, a look asks that for what is new.

        Raises ``LostStateError`` where there are files without a state.
        """
        for _ in range(_MOVES):
            state = self._after(self._state) if self._state is not None else None
            self._state = state or self._opened(self.kind())
            if self._state is not None:
                return self._state.manifest.shown
            empty = self.rebuilt()
            if not empty.files:
                return empty
            if self._storage.head(self._key) is None:
                break
        raise LostStateError(
            "the stream has data files but no state, and files alone do not show what was read of it",
            hint="run 'singerlake rebuild', then start again; a query of Spark continues by file and line",
            tap=self.place.tap,
            stream=self.place.stream,
        )

    def look_anew(self) -> Manifest:
        """As ``look``, whatever a HEAD says: a ``gc`` that deletes files may have trimmed the log that tells of it."""
        self._state = None
        return self.look()

    def read(self) -> Manifest | None:
        """The state from wherever it is kept, to be gone on from; None where the lake holds none."""
        self._state = self._opened(self.kind())
        return self._state.manifest.shown if self._state is not None else None

    def gone_on(self) -> Manifest | None:
        """The state with what came after the one seen last, for a caller who sees that ``manifest.json`` is the one of
        then: its log is read without asking first whether it grew. None where the state cannot be told from that one.
        """
        try:
            if self._log is not None and self._state is not None:
                self._state = self._log.catch_up(self._state)
            elif self._state is not None and self._has_log(self._state.manifest.store):
                self._state = None
        except LakeError:
            self._state = None
        return self._state.manifest.shown if self._state is not None else None

    def _after(self, base: Loaded) -> Loaded | None:
        """``base`` or a newer state; None where it has to be looked for anew."""
        if self._log is None:
            return self._published(base)
        if base.manifest.closed is not None:
            return None if self.kind() != self._log.kind else base
        return self._log.catch_up(base) if self._may_have_changed(self._log, base) else base

    def _may_have_changed(self, log: ManifestStore, base: Loaded) -> bool:
        from singerlake.stores.merge.store import MergeStore

        if isinstance(log, MergeStore):
            return log.changed()
        if not log.abilities.followable:
            return True
        now = self.place.clock.monotonic()
        if now - self._looked < _LOOK:
            return self._storage.head(self._next(base.manifest)) is not None
        self._looked = now
        return True

    def _next(self, state: Manifest) -> str:
        """The key of the object that comes first of all that change ``state``: nothing follows a run that is undecided
        before the decision about it."""
        if state.prepared is not msgspec.UNSET:
            return layout.commit_key(self.place.tap, state.prepared.commit)
        log = layout.log_prefix(self.place.tap, self.place.stream)
        return log + layout.log_name(state.transaction.number + 1)

    def _opened(self, kind: str | None) -> Loaded | None:
        """The state from wherever it is kept, which is in the store ``kind`` as far as is known."""
        # Where this fails, what was read before belongs to a log that is not followed any more.
        self._state = None
        tried: set[str | None] = set()
        for _ in range(_MOVES):
            try:
                loaded = self._by_log(kind)
            except ForeignManifestError:
                # It may have moved to another store just now, or an older manifest.json was put back since it did.
                tried.add(kind)
                now = self.kind()
                if now == kind:
                    now = logged_kind(self._storage, self.place.tap, self.place.stream)
                if now is None or now in tried:
                    raise
            else:
                loaded = loaded or self._published(None)
                if loaded is None:
                    return None
                if loaded.manifest.store == kind:
                    now = self._successor(loaded.manifest)
                    if now is None or now in tried:
                        return loaded
                    tried.add(kind)
                else:
                    now = self.kind()
            kind = now
        return self._published(None)

    def _successor(self, state: Manifest) -> str | None:
        """The store that goes on in the log's folder behind a closed state, where that was read since ``manifest.json``
        is older and ``floor.json`` is lost."""
        if state.closed is None or state.store not in _LOGS_ON_THE_LAKE:
            return None
        now = logged_kind(self._storage, self.place.tap, self.place.stream)
        return now if now in _LOGS_ON_THE_LAKE and now != state.store else None

    def _by_log(self, kind: str | None) -> Loaded | None:
        """The newest state by the log of a store; None where readers follow none, and where ``manifest.json`` is newer:
        a database may have lost what readers saw. A reader that looks into one because of a setting is told so where it
        may not."""
        self._log = None
        if kind is None or not self._has_log(kind):
            return None
        store = self.open_store(kind)
        self._looked = self.place.clock.monotonic()
        try:
            loaded = store.load()
            if loaded is None:
                return None
            shown = None if store.abilities.followable else published(self._storage, self._key)
        except (AccessDeniedError, SettingError) as error:
            if kind in ON_THE_LAKE:
                raise
            from singerlake.stores.dynamodb.items import with_setting

            raise with_setting(error) from error
        if shown is not None and shown.number > loaded.manifest.transaction.number:
            return None
        self._log = store
        return loaded

    def _published(self, base: Loaded | None) -> Loaded | None:
        """What ``manifest.json`` holds, read only where it is another one than ``base``. None where there is none, or
        where it is that of a store with a log by now, which may be ahead of it."""
        if base is not None:
            entry = self._storage.head(self._key)
            if entry is not None and entry.etag == base.mark:
                return base
        stored = self._storage.get(self._key)
        if stored is None:
            return None
        manifest = read_manifest(stored.body, key=self._key, storage=self._storage)
        check_own(manifest, tap=self.place.tap, stream=self.place.stream, store=None, key=self._key)
        if base is not None and manifest.store != base.manifest.store:
            return None
        return Loaded(manifest, stored.etag)

    def _small(self) -> Manifest | None:
        """What ``manifest.json`` says, where the request that asks which store keeps the stream gives all of it; None
        where it is larger, is not there, or cannot be read."""
        try:
            beginning = self._storage.beginning(self._key, _SMALL)
            whole = len(beginning.data) == beginning.size
            return read_manifest(beginning.data, key=self._key, storage=self._storage) if whole else None
        except (MissingFileError, CorruptObjectError, UnsupportedFormatError):
            return None

    def _has_log(self, kind: str) -> bool:
        """Whether readers follow the log of a manifest store of that kind past ``manifest.json``."""
        return kind in _LOGS_ON_THE_LAKE or (kind == "dynamodb" and self.settings.dynamodb_query_items)

    def _is_all_of_log(self, manifest: Manifest) -> bool:
        """Whether a listing says that a ``manifest.json`` is as new as its log. Near storage gives a load as fast, and
        lists a folder in no order."""
        own = (manifest.tap, manifest.stream, manifest.store) == (self.place.tap, self.place.stream, "log")
        return not self._storage.near and own and manifest.closed is None and is_newest(self._storage, manifest)


class _LoggedState(msgspec.Struct):
    store: str
    closed: str | None = None


class _LoggedChange(msgspec.Struct):
    """Of a birth the whole state, of a close the store in which the stream continues."""

    manifest: _LoggedState | None = None
    kind: str = ""
    successor: str = ""


class _LoggedTransaction(msgspec.Struct):
    change: _LoggedChange


class _LoggedEntry(msgspec.Struct):
    transaction: _LoggedTransaction


class _LoggedRecord(msgspec.Struct):
    """A record of a log: one transaction, or those that a settle record has."""

    transaction: _LoggedTransaction | None = None
    entries: tuple[_LoggedEntry, ...] = ()

    @property
    def changes(self) -> list[_LoggedChange]:
        """What its transactions do, in their order."""
        own = () if self.transaction is None else (self.transaction.change,)
        return [*own, *(entry.transaction.change for entry in self.entries)]


def kind_of(storage: Storage, tap: str, stream: str, root: Callable[[], RootMetadata | None]) -> str | None:
    """The manifest store that ``manifest.json`` names. Where that is gone, or cannot be read, and something is in the
    stream's log, the one that the log names, else the one that ``root`` says is used for new streams; None where there
    is neither. Raises what storage raises."""
    try:
        there = published(storage, layout.manifest_key(tap, stream))
        if there is not None:
            return there.store
        if next(iter(storage.list(layout.log_prefix(tap, stream))), None) is None:
            return None
    except LakeError:
        pass
    metadata = root()
    return logged_kind(storage, tap, stream) or (metadata.manifest_store if metadata else None)


def logged_kind(storage: Storage, tap: str, stream: str) -> str | None:
    """The manifest store in which a stream is by what lies in its log: the store of the snapshot that the log's floor
    names, else of the newest birth in it; where its newest record, or that snapshot, closes the log for a store
    elsewhere, that one. None where there is no log, or none that can be read. Raises what storage raises."""
    prefix = layout.log_prefix(tap, stream)
    names = (entry.key for entry in storage.list(prefix + "0"))
    keys = [name for name in names if layout.log_number(name[len(prefix) :]) is not None]
    floor = storage.get(prefix + layout.LOG_FLOOR)
    try:
        left_for = [change.successor for change in _changes(storage, keys[-1:]) if change.kind == "close"]
        if left_for and left_for[0] not in _LOGS_ON_THE_LAKE:
            return left_for[0]
        if floor is not None:
            named = storage.get(layout.stream_prefix(tap, stream) + decode(floor.body, Floor).snapshot)
            states = [decode(named.body, _LoggedState)] if named else []
        else:
            born = next((change for key in reversed(keys) if (change := _birth(storage, key)) is not None), None)
            states = [born.manifest] if born is not None and born.manifest is not None else []
    except (msgspec.DecodeError, LakeError):
        return None
    if not states:
        return None
    state = states[0]
    return state.store if state.closed is None or state.closed in _LOGS_ON_THE_LAKE else state.closed


def _changes(storage: Storage, keys: list[str]) -> list[_LoggedChange]:
    stored = storage.get(keys[0]) if keys else None
    return decode(stored.body, _LoggedRecord).changes if stored else []


def _birth(storage: Storage, key: str) -> _LoggedChange | None:
    stored = storage.get(key)
    if stored is None or not is_birth(stored.body):
        return None
    return next(iter(decode(stored.body, _LoggedRecord).changes), None)


prepare_decoders(_LoggedState, _LoggedChange, _LoggedTransaction, _LoggedEntry, _LoggedRecord)
