"""When ``manifest.json`` follows a log. Writers bring it up themselves while they commit, so that a reader that starts
replays few transactions, however long a run lasts.

Nobody is in charge of it, and nothing is locked: numbers say whose turn it is to look. A writer that dies then leaves
it to the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from singerlake.clock import Clock
from singerlake.errors import SettingError, SingerlakeError
from singerlake.format import layout
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.model import Manifest
from singerlake.stores.publish import publish_manifest, published
from singerlake.stores.segments.objects import SegmentObjects

logger = logging.getLogger(__name__)

_SHARE = 8
_LEFT = 4
_CHANCES = 10


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
        """Transactions that wait when a writer publishes after a commit. Fewer than may, since others commit while a
        large state is on its way, and a writer may die."""
        return self.transactions - self.room

    @property
    def room(self) -> int:
        """What is left then."""
        return self.transactions // _LEFT

    @property
    def step(self) -> int:
        """Every how many numbers a writer may look: so that ten have the chance, one after the other, before too many
        wait, where at least forty may."""
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
    """Whether the writer of transaction ``number`` looks at what is published, which was at ``known`` or newer when it
    last saw it. Of many writers few look, however long ago each last did."""
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
        no request. ``first`` does what has to be done before ``newest`` is published. ``anew``: it is published whether
        that is due or not, with segments of its own. What goes wrong is only said: the commit is good, and somebody
        else tries again."""
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
