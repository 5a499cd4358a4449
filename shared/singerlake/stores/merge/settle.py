"""Writing the next settle record: which entries it holds, and in which order."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from singerlake.clock import IdSource, timestamp
from singerlake.errors import UnknownOutcomeError
from singerlake.format.exact_json import encode
from singerlake.format.merge.entry_key import LAST_TIME, entry_key, moment
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import as_written
from singerlake.stores.merge.entries import Entries, StoredEntry
from singerlake.stores.merge.log import SettleLog, SettleRecord
from singerlake.stores.merge.records import SettledStore
from singerlake.stores.merge.settings import MergeSettings
from singerlake.stores.merge.storage_time import LastChange, StorageTime
from singerlake.stores.port import Loaded

logger = logging.getLogger(__name__)

_TRUSTED = 2
"""How many lags a time that storage gave may be used before storage is asked again."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one attempt at the next record came to. ``missed``: own entries that are due and do not wait. ``tried``: the
    log has grown, by this record, which is ``written`` then, or another's. ``more``: one could not hold all."""

    missed: frozenset[str] = frozenset()
    tried: bool = False
    written: int | None = None
    more: bool = False


@dataclass(frozen=True, slots=True)
class Settler:
    """Writes records for one writer, for all."""

    entries: Entries
    log: SettleLog
    records: SettledStore
    last_change: LastChange
    settings: MergeSettings
    time: StorageTime
    ids: IdSource

    def horizon(self) -> int:
        """Entries named for earlier times are due. Raises what storage raises."""
        return self._certainly() - self.settings.lag_ms

    def next(self, state: Loaded, own: Collection[str] = (), *, deep: bool = False) -> Round:
        """Try to write the record after ``state``: in the order of their names all entries that count, are due, and are
        in no earlier record. As a rule only the last window before what is settled is searched for late ones;
        everything for ``own`` entries, by their names, and with ``deep`` for all."""
        number = state.manifest.transaction.number + 1
        if self.log.taken(number):
            return Round()
        certainly = self._certainly()
        horizon = certainly - self.settings.lag_ms
        tip = next(self.records.settled(state.manifest), None)
        if tip is None:
            # The record that the state rests on was lost, and with it what is settled: only own entries are sure.
            oldest = since = horizon
        else:
            oldest = tip.since
            horizon = max(horizon, tip.until)
            since = oldest if deep else max(oldest, tip.until - self.settings.window_ms)
        due = {name for name in own if _time(name) < horizon}
        names = [key.name for key, entry in self.entries.between(since, horizon) if self.entries.count(key, entry)]
        names += [name for name in due if _time(name) < since and self._is_there(name)]
        waiting = self._unsettled(names, state.manifest)
        batch, until = self._batch(waiting, horizon)
        held = self.entries.read(batch)
        missed = frozenset(name for name in due if name not in waiting or (name in batch and name not in held))
        if not held:
            return Round(missed)
        record = SettleRecord(
            number=number,
            after=state.manifest.transaction.id,
            id=self.ids(),
            at=timestamp(moment(certainly)),
            since=oldest,
            until=until,
            entries=tuple(_as_written(held[name]) for name in batch if name in held),
        )
        written = None
        try:
            if self.log.offer(number, encode(record)):
                written = number
                self.last_change.touch(always=True)
        except UnknownOutcomeError as error:
            logger.debug("it is not known whether a settle record was written: %s", error)
        return Round(missed, tried=True, written=written, more=len(batch) < len(waiting))

    def needed(self, state: Manifest) -> int:
        """How many records up to ``state`` have to stay, for the next ones to be written by."""
        kept, oldest = 0, 0
        for settled in self.records.settled(state):
            oldest = oldest or settled.until - self.settings.window_ms
            if settled.until <= oldest:
                break
            kept += 1
        return max(kept, 1)

    def _certainly(self) -> int:
        at_least = self.time.at_least()
        if at_least is None or self.time.age() > _TRUSTED * self.settings.lag_ms / 1000:
            # Also after a measurement, since a machine that slept believes that less time has passed.
            self.last_change.measure()
            at_least = self.time.at_least()
        return self.time.now() if at_least is None else at_least

    def _is_there(self, name: str) -> bool:
        key, entry = entry_key(name), self.entries.head(name)
        return key is not None and entry is not None and self.entries.count(key, entry)

    def _unsettled(self, names: Collection[str], state: Manifest) -> set[str]:
        """Those of ``names`` that no record up to ``state`` holds. The records are looked at after the entries were
        listed and before they are read: a trim removes an entry before its record."""
        waiting = set(names)
        for settled in self.records.settled(state) if waiting else ():
            waiting -= settled.names
            if not waiting or settled.until <= min(map(_time, waiting)):
                break
        return waiting

    def _batch(self, waiting: Collection[str], horizon: int) -> tuple[list[str], int]:
        """The oldest of ``waiting``, and the time before which all of it is among them."""
        ordered = sorted(waiting, reverse=True)
        if len(ordered) <= self.settings.entries:
            return ordered, horizon
        until = max(_time(ordered[self.settings.entries]), _time(ordered[0]) + 1)
        return [name for name in ordered if _time(name) < until], until


def _as_written(held: StoredEntry) -> StoredEntry:
    return msgspec.structs.replace(held, transaction=as_written(held.transaction))


def _time(name: str) -> int:
    key = entry_key(name)
    return key.time if key is not None else LAST_TIME
