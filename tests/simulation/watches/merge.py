"""The invariants of the store ``merge``: entries that wait, records that give them their place, and that nobody sees a
transaction without those its writer had seen."""

from __future__ import annotations

import msgspec

from singerlake.format.exact_json import decode
from singerlake.format.merge.entry_key import LAST_CHANGE, NAME, counts, entry_key
from singerlake.format.merge.patch import MergeEntry, to_transaction
from singerlake.format.state.model import Manifest, Position
from singerlake.storage.port import Stored
from singerlake.stores.merge.log import SettleRecord
from singerlake.stores.merge.records import placed
from singerlake.stores.numbered import Record
from tests.simulation.watches.causality import Causality, Tick
from tests.simulation.watches.watch import LogWatch, following
from tests.simulation.world.world import World


class MergeWatch(LogWatch):
    """As of a log of records; and each entry is in one record at most, in the order of the names within it, and
    removed only once it is in one, or counts for nothing."""

    once = True
    """Whether an entry must not be in two records."""

    def __init__(self, world: World, *, stale_ms: int) -> None:
        super().__init__(world.truth, world.fail, world.storage.as_it_is, world.prefix)
        self._stale = stale_ms
        self._recorded: dict[str, int] = {}
        self._order: dict[int, list[str]] = {}
        self._sent: dict[str, Tick] = {}
        self._unclear: set[str] = set()
        self._seen: dict[str, int] = {}
        self._causality = Causality(per_sender=True)

    def changed(self, key: str, before: Stored | None, after: Stored | None, by: str) -> None:
        name = key.rpartition("/")[2]
        if name == LAST_CHANGE:
            return
        if name.startswith(NAME) and entry_key(name) is None:
            self._fail(f"an entry was written under a name that no reader takes for one: {name}")
        elif entry_key(name) is None:
            super().changed(key, before, after, by)
        elif after is not None:
            if self._bodies.setdefault(name, after.body) != after.body:
                self._fail(f"entry {name} was written again with another content")
        elif before is not None and name not in self._recorded and self._counts(name, before):
            self._fail(f"entry {name} was removed, counts, and is in no record")

    def sends(self, client: str, transaction: str) -> None:
        """A client commits; a second time only where it could not see what became of the first, and then the order of
        the two is nobody's."""
        if transaction in self._sent:
            self._unclear.add(transaction)
        else:
            self._sent[transaction] = self._causality.send(client)

    def seen(self, client: str, number: int) -> None:
        """What a client sees of others, transaction by transaction."""
        for each in range(self._seen.get(client, -1) + 1, number + 1):
            for id in self._order.get(each, ()):
                tick = self._sent.get(id)
                if tick is not None and tick.client != client:
                    clear = id in self._truth.pending and id not in self._unclear
                    self._causality.observe(client, tick, ordered=clear)
        self._seen[client] = max(number, self._seen.get(client, -1))
        if self._causality.broken is not None:
            self._fail(f"not causally consistent: {self._causality.broken}")

    def unplaced(self) -> set[str]:
        """Transactions for which a receipt was given and that no record holds."""
        return self._truth.pending - self._truth.placed.keys()

    def state_after(self, number: int, body: bytes) -> Manifest:
        if self._truth.newest is None:
            return following(decode(body, Record), self._truth, self._fail)
        record = decode(body, SettleRecord)
        state = self._truth.newest
        if (record.number, record.after) != (number, state.transaction.id):
            self._fail(f"settle record {number} does not follow {state.transaction.number}")
        names = [held.key for held in record.entries]
        if names != sorted(names, reverse=True):
            self._fail(f"settle record {number} holds entries out of order")
        for held in record.entries:
            if self._recorded.setdefault(held.key, number) != number and self.once:
                self._fail(f"entry {held.key} is in the records {self._recorded[held.key]} and {number}")
            body = self._bodies.get(held.key, b"{}")
            if to_transaction(decode(body, MergeEntry)) != held.transaction:
                self._fail(f"settle record {number} holds another {held.key} than was written")
            after = placed(state, held)
            if isinstance(after, Manifest):
                self._truth.stepped(state, after)
                state = after
        # A transaction has several entries where its writer could not see what became of the first.
        ids = dict.fromkeys(held.transaction.id for held in record.entries)
        self._order[number] = [id for id in ids if self._truth.placed.setdefault(id, number) == number]
        return msgspec.structs.replace(state, transaction=Position(number, record.id))

    def _counts(self, name: str, stored: Stored) -> bool:
        key = entry_key(name)
        return key is not None and counts(key.time, stored.last_modified, self._stale)
