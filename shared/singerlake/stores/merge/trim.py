"""What may be removed of the ``merge`` store's entries besides those inside records: what certainly never counts.

Whether an entry counts is told by storage's ``LastModified``, and a bucket that was restored or copied has new ones:
to MPS3 every entry then looks stale, and it deletes them. Here an entry goes only with the record that holds it, or
where another entry of the same transaction is inside one, or where no restoring could make it look as it does.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from singerlake.errors import CorruptObjectError
from singerlake.format.merge.entry_key import EntryKey, milliseconds
from singerlake.format.state.model import Manifest
from singerlake.storage import port
from singerlake.stores.merge.entries import Entries
from singerlake.stores.merge.records import SettledStore
from singerlake.stores.merge.settings import MergeSettings
from singerlake.stores.merge.storage_time import StorageTime

logger = logging.getLogger(__name__)

_AGES = 100
"""For how many lags an entry that does not count is left alone: its writer may be about to look at it."""


@dataclass
class _LooseEntries:
    """Entries in no record that do not count, by name, and how many in records look as if they did not."""

    outside: dict[str, tuple[EntryKey, port.Entry]] = field(default_factory=dict)
    inside: int = 0


class Sweep:
    """One look at all entries of a stream."""

    def __init__(
        self, entries: Entries, records: SettledStore, settings: MergeSettings, time: StorageTime, stream: str
    ) -> None:
        self._entries = entries
        self._records = records
        self._settings = settings
        self._time = time
        self._stream = stream

    def never(self, state: Manifest) -> list[str]:
        """Names of entries in no record that never count and may go, now that the log reaches to ``state``. Says what
        it finds of the others."""
        names, transactions = set[str](), set[str]()
        for record in self._records.every():
            names.update(held.key for held in record.entries)
            transactions.update(held.transaction.id for held in record.entries)
        census = self._census(names)
        if not census.outside and not census.inside:
            return []
        tip = next(self._records.settled(state), None)
        covered = tip.until if tip is not None else 0
        old = min(self._time.now() - _AGES * self._settings.lag_ms, covered)
        aged = {name: each for name, each in census.outside.items() if milliseconds(each[1].last_modified) < old}
        if census.inside:
            logger.warning(
                "%s: %d settled entries have another LastModified than when they were settled: was the bucket restored "
                "or copied? %d entries that are in no record are kept",
                self._stream,
                census.inside,
                len(census.outside),
            )
            return []
        going = self._going(aged, transactions)
        left = sorted(set(aged) - set(going))
        if left:
            logger.warning(
                "%s: %d entries do not count: storage gave them much later times than their names say, and no record "
                "has their transactions; they are kept, the first is %s",
                self._stream,
                len(left),
                self._entries.key(left[0]),
            )
        return going

    def _census(self, settled: set[str]) -> _LooseEntries:
        census = _LooseEntries()
        for key, entry in self._entries.all():
            if self._entries.count(key, entry):
                continue
            if key.name in settled:
                census.inside += 1
            else:
                census.outside[key.name] = (key, entry)
        return census

    def _going(self, aged: dict[str, tuple[EntryKey, port.Entry]], transactions: set[str]) -> list[str]:
        ahead = [name for name, (key, entry) in aged.items() if key.time > milliseconds(entry.last_modified)]
        try:
            held = self._entries.read(sorted(set(aged) - set(ahead)))
        except CorruptObjectError as error:
            logger.warning("%s", error)
            return ahead
        return ahead + [name for name, each in held.items() if each.transaction.id in transactions]
