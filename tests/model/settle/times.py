"""Settle records on a storage without create-if-absent, where time alone keeps two settlers apart.

Who finds a number free writes its record within ``longest``, or looks again; a record is believed once it is ``lag``
old by the believer's own clock. Times are in ticks, and kept as ages: what is too old to make a difference ages no
more, so that there are finitely many states, and no end of time. Storage shows times cut to ``resolution``; an entry
counts if its name is less than ``stale`` from what storage shows, and so far every clock may be wrong: of both the
extremes are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Entry(NamedTuple):
    """Which one it is, and how long the time in its name has passed."""

    id: int
    age: int


class Kept(NamedTuple):
    """A record on storage, who wrote it, and how long the time that storage shows of it has passed."""

    by: int
    entries: tuple[int, ...]
    age: int


class Settler(NamedTuple):
    """``wrong`` is its clock's error. ``number`` is the one it will write, ``due`` what it found for it, ``waited``
    how long ago it saw the number free."""

    at: str
    wrong: int
    left: int
    number: int = 0
    due: tuple[int, ...] = ()
    waited: int = 0


Believed = tuple[tuple[int, tuple[int, ...]], ...]


class State(NamedTuple):
    """``phase`` is the time since storage's last one, ``entries`` are in the order of their names; ``believed`` are
    the records that somebody has gone by, each with its writer."""

    phase: int
    entries: tuple[Entry, ...]
    records: tuple[Kept, ...]
    believed: Believed
    broken: str
    settlers: tuple[Settler, ...]


@dataclass(frozen=True, kw_only=True)
class SettleTimes:
    """Two settlers that write ``rounds`` records each, and so many ``entries``.

    Promised is that every record that was believed stays as it was, and with ``in_order`` that nothing comes late; with
    ``only_losses`` no more than that what they held is still in them. ``if_absent``: storage refuses a number that is
    taken, and all is believed at once. Without ``gives_up`` a settler writes however long it took: a faulty variant.
    """

    lag: int
    stale: int = 2
    resolution: int = 2
    longest: int = 1
    entries: int = 2
    rounds: int = 1
    in_order: bool = True
    only_losses: bool = False
    if_absent: bool = False
    gives_up: bool = True

    @property
    def least_lag(self) -> int:
        """The rule that ``lag`` has to keep."""
        return 2 * self.stale + self.resolution + self.longest

    def starts(self) -> Iterator[State]:
        error = self.stale - 1
        for one, other in ((-error, -error), (-error, error), (error, error)):
            yield State(0, (), (), (), "", (Settler("list", one, self.rounds), Settler("list", other, self.rounds)))

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for label, after in self._steps(state):
            yield label, self._judged(after)

    def wrong(self, state: State) -> str | None:
        return state.broken or None

    def like(self, state: State) -> State:
        """Two settlers with equal clocks are equals."""
        one, other = state.settlers
        if one.wrong != other.wrong or one <= other:
            return state
        return state._replace(
            records=tuple(record._replace(by=1 - record.by) for record in state.records),
            believed=tuple((1 - by, entries) for by, entries in state.believed),
            settlers=(other, one),
        )

    def _steps(self, state: State) -> Iterator[tuple[str, State]]:
        yield "a tick", self._tick(state)
        if len(state.entries) < self.entries:
            for age in (state.phase + self.stale - 1, state.phase - self.stale + 1):
                entry = Entry(len(state.entries), age)
                entries = tuple(sorted((*state.entries, entry), key=lambda one: -one.age))
                yield f"entry {entry.id} is written, {_old(age)}", state._replace(entries=entries)
        for place, settler in enumerate(state.settlers):
            if settler.left:
                call = {"list": self._list, "look": self._look, "write": self._write}[settler.at]
                for label, after in call(state, place, settler):
                    yield f"settler {place} {label}", after

    def _tick(self, state: State) -> State:
        oldest = self.lag + 2 * (self.stale + self.resolution)
        return state._replace(
            phase=(state.phase + 1) % self.resolution,
            entries=tuple(entry._replace(age=min(entry.age + 1, oldest)) for entry in state.entries),
            records=tuple(record._replace(age=min(record.age + 1, oldest)) for record in state.records),
            settlers=tuple(
                settler._replace(waited=min(settler.waited + 1, self.longest + 1)) if settler.at == "write" else settler
                for settler in state.settlers
            ),
        )

    def _list(self, state: State, place: int, settler: Settler) -> Iterator[tuple[str, State]]:
        """It reads the records it believes, and what is due and in none of them."""
        records = self._certain(state, settler.wrong)
        settled = {entry for record in records for entry in record.entries}
        due = tuple(
            entry.id for entry in state.entries if entry.age + settler.wrong > self.lag and entry.id not in settled
        )
        if due:
            moved = settler._replace(at="look", number=len(records), due=due)
            yield f"finds due: {_said(due)}", _with(state, place, moved)

    def _look(self, state: State, place: int, settler: Settler) -> Iterator[tuple[str, State]]:
        if settler.number < len(state.records):
            yield f"finds record {settler.number} taken", _with(state, place, _done(settler))
        else:
            yield f"finds record {settler.number} free", _with(state, place, settler._replace(at="write"))

    def _write(self, state: State, place: int, settler: Settler) -> Iterator[tuple[str, State]]:
        after = _with(state, place, _done(settler))
        if settler.waited > self.longest and self.gives_up:
            yield "took too long, and gives up", after
            return
        number = settler.number
        if self.if_absent and number < len(state.records):
            yield f"writes record {number}: refused", after
            return
        record = Kept(place, settler.due, state.phase)
        records = (*state.records[:number], record, *state.records[number + 1 :])
        yield f"writes record {number}: {_said(settler.due)}", after._replace(records=records)

    def _certain(self, state: State, wrong: int) -> tuple[Kept, ...]:
        if self.if_absent:
            return state.records
        count = 0
        while count < len(state.records) and state.records[count].age + wrong >= self.lag:
            count += 1
        return state.records[:count]

    def _judged(self, state: State) -> State:
        """Somebody whose clock is fast looks at any time, and goes by what he sees."""
        seen = tuple((record.by, record.entries) for record in self._certain(state, self.stale - 1))
        common = min(len(seen), len(state.believed))
        believed = max(seen, state.believed, key=len)
        settled = _entries(believed)
        rank = [entry.id for entry in state.entries]
        lost = set(_entries(state.believed[:common])) - set(_entries(seen[:common]))
        broken = ""
        if seen[:common] != state.believed[:common] and (lost or not self.only_losses):
            broken = f"settled was {_log(state.believed)}, and now it is {_log(seen)}"
        elif len(set(settled)) < len(settled) and not self.only_losses:
            broken = f"an entry is in two records: {_log(believed)}"
        elif self.in_order and settled != sorted(settled, key=rank.index) and not self.only_losses:
            broken = f"an entry came late: {_log(believed)}"
        return state._replace(believed=believed, broken=broken)


def _done(settler: Settler) -> Settler:
    return Settler("list", settler.wrong, settler.left - 1)


def _with(state: State, place: int, settler: Settler) -> State:
    return state._replace(settlers=(*state.settlers[:place], settler, *state.settlers[place + 1 :]))


def _entries(records: Believed) -> list[int]:
    return [entry for _, entries in records for entry in entries]


def _old(age: int) -> str:
    return f"named {age} ago" if age >= 0 else f"named {-age} ahead"


def _said(entries: tuple[int, ...]) -> str:
    return ",".join(map(str, entries))


def _log(records: Believed) -> str:
    return " | ".join(f"{_said(entries)} by {by}" for by, entries in records) or "nothing"
