"""The settle records of the ``merge`` store: a log whose every record gives many entries their place at once.

To readers a record is one step: the state's transaction has its number and id, however many entries took effect. So
what is true of a log of transactions is true of this one, ``manifest.json`` included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode
from singerlake.format.merge.entry_key import milliseconds
from singerlake.format.state.additions import Conflict
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest, Position
from singerlake.stores.merge.entries import StoredEntry
from singerlake.stores.merge.log import KIND, SettleLog, SettleRecord
from singerlake.stores.merge.settings import RESOLUTION, MergeSettings
from singerlake.stores.numbered import NumberedStore
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded
from singerlake.stores.publish import SnapshotSettings
from singerlake.stores.segments.stored import opened

_WINDOWS = 4
"""How many windows of what was settled are remembered."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What has to be known of a record to write a later one. ``after`` is None for the birth, which holds no names."""

    id: str
    after: str | None
    since: int
    until: int
    names: frozenset[str]


class _Identity(msgspec.Struct):
    id: str


class _Birth(msgspec.Struct):
    """Record 0, or whichever is the first, without the whole state in it."""

    transaction: _Identity


class SettledStore(NumberedStore):
    """The engine of numbered logs, over records of many entries. ``outcomes`` tells of each transaction in
    ``awaited`` that was passed whether it took effect (None) or why not; ``newest`` is the last state that was read."""

    def __init__(
        self,
        log: SettleLog,
        place: StreamPlace,
        settings: MergeSettings,
        *,
        lake_id: str | None = None,
        snapshots: SnapshotSettings | None = None,
    ) -> None:
        super().__init__(KIND, log, place, lake_id=lake_id, snapshots=snapshots)
        self._records = log
        self._stale = settings.stale_ms + int(RESOLUTION * 1000)
        self._window = settings.window_ms
        self._settled: dict[int, Settled] = {}
        self.newest: Loaded | None = None
        self.awaited: set[str] = set()
        self.outcomes: dict[str, Conflict | None] = {}
        self._outcomes: dict[str, Conflict | None] = {}

    def settled(self, state: Manifest) -> Iterator[Settled]:
        """What the records settled that led to ``state``, newest first, as far back as they are there."""
        number, expected = state.transaction.number, state.transaction.id
        while (settled := self._settled_by(number, expected)) is not None:
            yield settled
            if settled.after is None:
                return
            number, expected = number - 1, settled.after

    def may_hold(self, state: Manifest, name: str, time: int) -> bool:
        """Whether an entry named for ``time`` is in a record that led to ``state``, or may be in a trimmed one."""
        for settled in self.settled(state):
            if name in settled.names:
                return True
            if settled.until <= time or settled.after is None:
                return False
        return True

    def every(self) -> Iterator[SettleRecord]:
        """All settle records that are still there, oldest first."""
        for number, body in self._records.read(-1, whole=True):
            record = self._decoded(number, body)
            if isinstance(record, SettleRecord):
                yield record

    def load(self) -> Loaded | None:
        return self._collecting_outcomes(super().load)

    def catch_up(self, base: Loaded) -> Loaded | None:
        return self._collecting_outcomes(lambda: super(SettledStore, self).catch_up(base))

    def _collecting_outcomes(self, read: Callable[[], Loaded | None]) -> Loaded | None:
        """Believe outcomes only once the records were read to their end, and are not of numbers that were trimmed."""
        self._outcomes.clear()
        state = read()
        for id, outcome in self._outcomes.items():
            self.outcomes.setdefault(id, outcome)
        self.newest = state
        return state

    def _base(self) -> Manifest | None:
        self._outcomes.clear()
        return super()._base()

    def _settled_by(self, number: int, id: str) -> Settled | None:
        known = self._settled.get(number)
        if known is not None and known.id == id:
            return known
        stored = self._records.get(number)
        if stored is None:
            return None
        record = self._decoded(number, stored.body)
        if isinstance(record, SettleRecord):
            summary = _summary(record)
        else:
            # Whatever is written after the birth has a later name than this; what has an older one was for a log that
            # is no more.
            born = milliseconds(stored.last_modified.replace(microsecond=0)) - self._stale
            summary = Settled(record.transaction.id, None, born, born, frozenset())
        return self._remember(number, summary) if summary.id == id else None

    def _follow(self, state: Manifest | None, number: int, body: bytes) -> Manifest:
        if state is None:
            return super()._follow(state, number, body)
        record = self._decoded(number, body)
        if not isinstance(record, SettleRecord) or record.number != number or record.after != state.transaction.id:
            raise self._corrupt(f"settle record {number} does not continue the log before it", number)
        for held in record.entries:
            held = msgspec.structs.replace(held, transaction=opened(self.segments, held.transaction))
            outcome = placed(state, held)
            if isinstance(outcome, Manifest):
                state = outcome
            if held.transaction.id in self.awaited:
                self._outcomes.setdefault(held.transaction.id, outcome if isinstance(outcome, Conflict) else None)
        self._remember(number, _summary(record))
        return msgspec.structs.replace(state, transaction=Position(number, record.id))

    def _decoded(self, number: int, body: bytes) -> SettleRecord | _Birth:
        try:
            return decode(body, SettleRecord)
        except msgspec.DecodeError as error:
            try:
                return decode(body, _Birth)
            except msgspec.DecodeError:
                raise self._corrupt(f"settle record {number} is not one this version knows: {error}", number) from error

    def _remember(self, number: int, settled: Settled) -> Settled:
        """Keep what the next records will be written by; older ones are read again by who wants them."""
        self._settled[number] = settled
        newest = max(each.until for each in self._settled.values())
        for old in [each for each, held in self._settled.items() if held.until < newest - _WINDOWS * self._window]:
            del self._settled[old]
        return settled


def placed(state: Manifest, held: StoredEntry) -> Manifest | Conflict:
    """The state after an entry, or why the entry is void."""
    if state.closed is None and held.after is not None and held.after != state.transaction.id:
        return Conflict("the stream changed after the state that should replace it was made")
    return apply(state, held.transaction)


def _summary(record: SettleRecord) -> Settled:
    return Settled(record.id, record.after, record.since, record.until, frozenset(held.key for held in record.entries))


prepare_decoders(_Identity, _Birth)
