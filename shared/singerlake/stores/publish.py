"""Publishing: ``manifest.json`` follows a log, forward only, for readers and as the log's newest snapshot. Writers
bring it up while they commit, so that a reader that starts replays few transactions. Nobody is in charge, and nothing
is locked: numbers say whose turn it is to look, and a writer that dies leaves it to the next one."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from singerlake.clock import Clock
from singerlake.errors import (
    CorruptObjectError,
    ForeignManifestError,
    LostStateError,
    MissingFileError,
    SettingError,
    SingerlakeError,
    StreamClosedError,
)
from singerlake.format import layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode
from singerlake.format.state.features import KNOWN, SEGMENTS
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.manifest import BEGINNING, check_own
from singerlake.format.state.model import Manifest, Position
from singerlake.storage.conditional import Replacement, replace_as_found
from singerlake.storage.port import Storage
from singerlake.stores.port import ManifestStore
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.stores.segments.stored import named_in, read_manifest, to_stored

_HEAD = 8192
# The quotes of a name are escaped, so no tap's or stream's name can look like this.
_BEGINNING = re.compile(
    BEGINNING + rb'"tap":.*?"store":"[a-z0-9_]+"(?:,"lake_id":(?:"[^"\\]*"|null))?,"lineage":'
    rb'.*?"transaction":\{"number":\d+,"id":"[^"\\]*"\}',
    re.DOTALL,
)
_ATTEMPTS = 20
_LARGE = 1 << 12
"""Files of a manifest from which on time and memory matter more than a request."""
_SOME = 1 << 20
"""Bytes of a whole manifest from which on it is large."""

logger = logging.getLogger(__name__)

_SHARE = 8
_LEFT = 4
_CHANCES = 10


def publish_manifest(
    segments: SegmentObjects, manifest: Manifest, *, fresh: Iterable[Segment] = (), anew: bool = False
) -> None:
    """Make ``manifest.json`` hold ``manifest`` or a newer state of the same store, also in the place of a store that
    was closed in favour of this one. ``segments`` are the store's; ``fresh`` are those written just now; with ``anew``
    the state names none that are there. Raises ``ForeignManifestError`` for another tap's, stream's or store's
    manifest, ``CorruptObjectError``, ``UnsupportedFormatError``, ``TooManyConflictsError``."""
    storage, key = segments.storage, layout.manifest_key(segments.tap, segments.stream)
    large = len(manifest.files) + len(manifest.retired) >= _LARGE

    def look() -> Replacement | None:
        there = _there(storage, key, manifest, large=large)
        if there is not None and there.number >= manifest.transaction.number:
            return None
        usable = (*fresh, *(there.segments if there and not anew else ()))
        return Replacement(to_stored(segments, manifest, usable)[1], there.etag if there else None)

    replace_as_found(storage, key, look, attempts=_ATTEMPTS)


def mend_published(segments: SegmentObjects, manifest: Manifest) -> bool:
    """Where ``manifest.json`` shows this very state by segments that cannot be read, let it name new ones; True where
    that was done. Only for a state whose files were read from elsewhere. Raises as ``publish_manifest``."""
    storage, key = segments.storage, layout.manifest_key(segments.tap, segments.stream)

    def look() -> Replacement | None:
        stored = storage.get(key)
        there = read_manifest(stored.body, key=key, storage=storage) if stored else None
        if stored is None or there is None or there.transaction != manifest.transaction:
            return None
        try:
            there.files.check()
        except CorruptObjectError:
            return Replacement(to_stored(segments, manifest, ())[1], stored.etag)
        return None

    return replace_as_found(storage, key, look, attempts=_ATTEMPTS)


@dataclass(frozen=True, slots=True)
class _There:
    number: int
    etag: str
    segments: tuple[Segment, ...] = ()


class _ManifestBeginning(msgspec.Struct, frozen=True):
    tap: str
    stream: str
    store: str
    transaction: Position
    lake_id: str | None = None
    features: tuple[str, ...] = ()

    def is_like(self, manifest: Manifest) -> bool:
        return (self.tap, self.stream, self.store) == (manifest.tap, manifest.stream, manifest.store)


def _there(storage: Storage, key: str, like: Manifest, *, large: bool) -> _There | None:
    """The number and a mark of what ``like`` is to follow. ``large``: try not to decode another state."""
    entry = storage.head(key) if large else None
    beginning = _beginning(storage, key) if entry and entry.size > _SOME else None
    if entry and beginning and beginning.is_like(like) and SEGMENTS not in beginning.features:
        return _There(beginning.transaction.number, entry.etag)
    stored = storage.get(key)
    if stored is None:
        return None
    if beginning and (own := _beginning_of(stored.body)) and own.is_like(like):
        # The segments are to be named again. Of the rest, which may be long, nothing is made.
        return _There(own.transaction.number, stored.etag, named_in(stored.body))
    number = _number(read_manifest(stored.body, key=key, storage=storage), like, key)
    return _There(number, stored.etag, named_in(stored.body))


def _beginning(storage: Storage, key: str) -> _ManifestBeginning | None:
    try:
        return _beginning_of(storage.read_range(key, 0, _HEAD))
    except MissingFileError:
        return None


def _beginning_of(body: bytes) -> _ManifestBeginning | None:
    match = _BEGINNING.match(body[:_HEAD])
    beginning = decode(match.group(0) + b"}", _ManifestBeginning) if match else None
    return beginning if beginning and KNOWN.issuperset(beginning.features) else None


@dataclass(frozen=True, slots=True)
class Published:
    """What the beginning of a ``manifest.json`` says."""

    store: str
    number: int
    lake_id: str | None = None


def published(storage: Storage, key: str) -> Published | None:
    """The beginning of what ``key`` holds; None: nothing. Raises ``CorruptObjectError``, ``UnsupportedFormatError``."""
    try:
        head = storage.read_range(key, 0, _HEAD)
    except MissingFileError:
        return None
    beginning = _beginning_of(head)
    if beginning:
        return Published(beginning.store, beginning.transaction.number, beginning.lake_id)
    stored = storage.get(key)
    if stored is None:
        return None
    manifest = read_manifest(stored.body, key=key, storage=storage)
    return Published(manifest.store, manifest.transaction.number, manifest.lake_id)


def refuse_foreign(storage: Storage, key: str, manifest: Manifest) -> None:
    """Before a birth: raise ``ForeignManifestError`` where ``key`` holds what ``manifest`` must not follow."""
    stored = storage.get(key)
    if stored is not None:
        _number(read_manifest(stored.body, key=key, storage=storage), manifest, key)


def _number(manifest: Manifest, like: Manifest, key: str) -> int:
    """The transaction number of a published manifest that ``like`` may follow."""
    handed_over = manifest.closed == like.store and manifest.lineage == like.lineage
    check_own(manifest, tap=like.tap, stream=like.stream, store=None if handed_over else like.store, key=key)
    return manifest.transaction.number


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotSettings:
    """How far ``manifest.json`` may be behind: ``transactions``, at least 1, and ``minutes``, at least 1."""

    transactions: int = 100
    minutes: int = 10

    def __post_init__(self) -> None:
        for name, value in (("snapshot_transactions", self.transactions), ("snapshot_minutes", self.minutes)):
            if value < 1:
                raise SettingError(f"{name} is less than 1", hint=f"raise {name}, or leave it unset", value=value)

    @property
    def least(self) -> int:
        """Transactions that wait when a writer publishes: fewer than may, since others commit meanwhile."""
        return self.transactions - self.room

    @property
    def room(self) -> int:
        """What is left then."""
        return self.transactions // _LEFT

    @property
    def step(self) -> int:
        """Every how many numbers a writer may look: ten have the chance before too many wait, where forty may."""
        return max(1, self.transactions // (_LEFT * _CHANCES))

    @property
    def age(self) -> timedelta:
        """How old what is published may get while transactions wait."""
        return timedelta(minutes=self.minutes)


def is_due(
    settings: SnapshotSettings,
    *,
    published: int,
    newest: Manifest,
    since: datetime | None,
    now: datetime,
    run_ended: bool,
    eager: bool,
) -> bool:
    """Whether ``manifest.json`` at transaction number ``published`` (-1: none), last written at ``since``, should
    follow to ``newest``. ``eager``: readers have nothing but it, so that every run's end counts."""
    tail = newest.transaction.number - published
    if tail <= 0:
        return False
    if published < 0 or (since is not None and now - since >= settings.age):
        return True
    return run_ended and (eager or tail > min(len(newest.files) // _SHARE, settings.transactions))


def is_to_look(settings: SnapshotSettings, *, number: int, known: int) -> bool:
    """Whether the writer of ``number`` looks at what is published, at ``known`` or newer: of many writers few do."""
    return number % settings.step == 0 and number - known >= settings.least


class Snapshots:
    """What one writer does for one stream's ``manifest.json``. ``eager`` is as in ``is_due``."""

    def __init__(self, segments: SegmentObjects, clock: Clock, settings: SnapshotSettings, *, eager: bool) -> None:
        self.settings = settings
        self._segments = segments
        self._storage = segments.storage
        self._key = layout.manifest_key(segments.tap, segments.stream)
        self._clock = clock
        self._eager = eager
        self.fresh: tuple[Segment, ...] = ()
        """Segments of the last new state that this writer put into its log."""
        self._known = -1
        self._looked = clock.monotonic()

    def saw(self, number: int) -> None:
        """Note that a reader that starts begins at ``number`` or above."""
        self._known = max(self._known, number)

    def where_due(self, newest: Manifest, *, run_ended: bool) -> None:
        """Bring ``manifest.json`` up to ``newest`` where ``is_due`` says so. Raises as ``publish_manifest``."""
        self._looked = self._clock.monotonic()
        entry = self._storage.head(self._key)
        since, now = entry.last_modified if entry else None, self._clock.now()
        if since is not None and not run_ended and now - since < self.settings.age:
            return
        number = self._published(newest) if entry else -1
        if is_due(
            self.settings,
            published=number,
            newest=newest,
            since=since,
            now=now,
            run_ended=run_ended,
            eager=self._eager,
        ):
            self._publish(newest)

    def after_commit(
        self, newest: Manifest, *, own: int, first: Callable[[], object] = lambda: None, anew: bool = False
    ) -> None:
        """The same after the transaction of number ``own``, which this writer made and ``newest`` holds; as a rule for
        no request. ``first`` is done before ``newest`` is published. ``anew``: it is published whether due or not, with
        segments of its own. What goes wrong is only said: the commit is good, and somebody else tries again."""
        try:
            if anew:
                first()
                self._publish(newest, anew=True)
            elif is_to_look(self.settings, number=own, known=self._known):
                if newest.transaction.number - self._published(newest) >= self.settings.least:
                    first()
                    self._publish(newest)
            elif self._clock.monotonic() - self._looked >= self.settings.age.total_seconds():
                first()
                self.where_due(newest, run_ended=False)
        except SingerlakeError as error:
            logger.warning("%s does not follow its log now, and is tried again: %s", self._key, error)

    def _published(self, newest: Manifest) -> int:
        """The number of what readers begin with; -1 where they get nothing of what ``newest``'s store has. The state
        that another store closed for this one shows none of it, however little it lies behind."""
        there = published(self._storage, self._key)
        number = there.number if there and there.store == newest.store else -1
        self.saw(number)
        return number

    def _publish(self, newest: Manifest, *, anew: bool = False) -> None:
        fresh = () if anew else self.fresh
        publish_manifest(self._segments, newest, fresh=fresh, anew=anew)
        self.saw(newest.transaction.number)


def no_history(
    store: ManifestStore, there: Published | None, *, tap: str, stream: str, lake_id: str | None
) -> LostStateError:
    """For a database without a history of a stream with data; ``there`` is what ``manifest.json`` says."""
    kind = store.kind
    hint = f"point the {kind} settings at the right database, or restore it, or run 'singerlake rebuild'"
    said = there.lake_id if there else None
    lakes: tuple[str, ...] = ()
    if said is None:
        lakes = store.other_lakes()
    elif said != lake_id:
        lakes = (said,)
    if not lakes:
        return LostStateError(
            f"the lake has data of this stream, the manifest store {kind} has no history of it",
            hint=hint,
            tap=tap,
            stream=stream,
        )
    whose = "manifest.json says that it is of" if said else f"the manifest store {kind} knows a stream of this name of"
    return LostStateError(
        f"singerlake.json says that this lake is {lake_id!r}, and the manifest store {kind} has no history of it here; "
        f"{whose} {', '.join(map(repr, lakes))}",
        hint=f"if that is this lake, run 'singerlake store identify LAKE --lake-id {' or '.join(lakes)}'; else {hint}",
        tap=tap,
        stream=stream,
    )


def refuse_other_lake(store: ManifestStore, there: Published, *, key: str, lake_id: str | None) -> None:
    """Raise ``ForeignManifestError`` where ``manifest.json``, at ``key``, is of a lake with another id."""
    if there.lake_id is None or there.lake_id == lake_id:
        return
    raise ForeignManifestError(
        f"manifest.json belongs to lake {there.lake_id!r}, singerlake.json calls this one {lake_id!r}",
        hint=f"if it is that lake, run 'singerlake store identify LAKE --lake-id {there.lake_id}'; else delete "
        f"manifest.json, which the manifest store {store.kind} then writes again",
        key=key,
    )


def too_old(store: ManifestStore, number: int, there: Published, *, tap: str, stream: str) -> LostStateError:
    """For a database that was put back to transaction ``number``, older than what readers have seen."""
    return LostStateError(
        f"the manifest store {store.kind} is at transaction {number}, readers have seen transaction {there.number}",
        hint="restore the database to a newer state, or run 'singerlake rebuild --discard-manifest'",
        tap=tap,
        stream=stream,
    )


def stream_closed(tap: str, stream: str, successor: str) -> StreamClosedError:
    """For a stream that is still on its way to the manifest store ``successor``."""
    return StreamClosedError(
        f"a migration of this stream is not finished; its new manifest store is {successor!r}",
        hint="finish it with 'singerlake store migrate', then run again",
        tap=tap,
        stream=stream,
    )


prepare_decoders(_ManifestBeginning)
