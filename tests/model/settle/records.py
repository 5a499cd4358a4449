"""Entries and settle records of the ``merge`` store, as ``singerlake.stores.merge.store`` goes about them.

No clock is in it: which entries are due is anybody's choice at any time, so that what holds here holds for every lag
and every clock. Reading the log is one step, which ``log_store`` shows it is as good as; so is raising the floor, with
the snapshot before it. Entries are numbered in the order of their keys, and come in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tests.model.settle.calls import SETTLING, TRIMMING
from tests.model.settle.state import (
    ABSENT,
    COUNTS,
    GONE,
    STALE,
    Rules,
    Settler,
    SettleRecord,
    State,
    Steps,
    Trimmer,
    read,
    said,
    with_entry,
)


@dataclass(frozen=True, kw_only=True)
class Settle(Rules):
    """A stream in the store ``merge``, as a model to explore."""

    def starts(self) -> Iterator[State]:
        yield State(
            entries=(COUNTS if self.written else ABSENT,) * self.entries,
            records=(None,) * (self.entries + 1),
            base=(),
            floor=0,
            restores=self.restores,
            broken="",
            settlers=tuple(Settler("read", rounds) for rounds in self.rounds),
            trimmer=Trimmer("raise" if self.trims else "done", self.trims),
        )

    def steps(self, state: State) -> Steps:
        before = read(state.base, state.records)
        for label, after in self._steps(state):
            log = read(after.base, after.records)
            if log is None:
                after = after._replace(broken="the log can no longer be read")
            elif before is not None and log[: len(before)] != before:
                after = after._replace(broken=f"settled was {said(before)}, and now it is {said(log)}")
            yield label, after

    def wrong(self, state: State) -> str | None:
        if state.broken:
            return state.broken
        settled = [entry for record in read(state.base, state.records) or () for entry in record.entries]
        for entry, status in enumerate(state.entries):
            if settled.count(entry) > 1:
                return f"entry {entry} is in two records"
            if status == GONE and entry not in settled:
                return f"entry {entry} is gone, and in no record"
        if not self.restores and any(entry < self.stale for entry in settled):
            return "a stale entry is settled"
        return None

    def like(self, state: State) -> State:
        """Settlers are equals: they are put in order of where they stand, and called by their places."""
        settlers = state.settlers
        order = sorted(range(len(settlers)), key=settlers.__getitem__)
        if order == list(range(len(settlers))):
            return state
        names = tuple(str(order.index(place)) for place in range(len(settlers)))
        return state._replace(
            records=tuple(record and _called(record, names) for record in state.records),
            base=tuple(_called(record, names) for record in state.base),
            settlers=tuple(_named(settlers[place], names) for place in order),
        )

    def _steps(self, state: State) -> Steps:
        for entry, status in enumerate(state.entries):
            if status == ABSENT:
                kind = STALE if entry < self.stale else COUNTS
                yield f"entry {entry} is written", with_entry(state, entry, kind)
        if state.restores:
            for looks in (STALE, COUNTS):
                entries = tuple(looks if status in (STALE, COUNTS) else status for status in state.entries)
                after = state._replace(entries=entries, restores=state.restores - 1)
                yield (
                    f"the bucket is restored: every entry looks as if it {'counted' if looks == COUNTS else 'did not'}",
                    after,
                )
        for place, settler in enumerate(state.settlers):
            if settler.at != "done":
                for label, after in SETTLING[settler.at](self, state, place, settler):
                    yield f"settler {place} {label}", after
        if state.trimmer.at != "done":
            yield from TRIMMING[state.trimmer.at](self, state, state.trimmer)


@cache
def _called(record: SettleRecord, names: tuple[str, ...]) -> SettleRecord:
    return record._replace(id=_name(record.id, names), after=_name(record.after, names))


def _named(settler: Settler, names: tuple[str, ...]) -> Settler:
    return settler._replace(state=_name(settler.state, names), expects=_name(settler.expects, names))


def _name(id: str, names: tuple[str, ...]) -> str:
    return names[int(id[0])] + id[1:] if id else id
