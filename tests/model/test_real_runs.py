"""Ways that the model of atomic runs found, walked with the real views: the shortest to each view that showed a part of
a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from singerlake.format import layout
from singerlake.format.decision import Brought, Decision
from singerlake.format.state import fold
from singerlake.format.state.model import Manifest
from singerlake.format.state.prepared import settlement
from singerlake.format.state.transactions import PrepareFiles, Transaction
from singerlake.stores.atomic.decisions import Decisions, Listed
from singerlake.stores.atomic.view import StreamView, view, view_as_of
from tests.fakes import START, FakeClock, counting_ids
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import MemoryStorage

FIRST, SECOND, THIRD = (layout.commit_name(START, id * 16) for id in "012")


class Tap:
    """Some streams, each with the state that all its transactions make of it, and the decisions about their runs."""

    def __init__(self, *streams: str) -> None:
        self.ids = counting_ids()
        self.decisions = Decisions(MemoryStorage(clock=FakeClock(), ids=self.ids), "t")
        self.states: dict[str, Manifest] = {stream: self._born(stream) for stream in streams}

    def run(self, name: str, *streams: str) -> None:
        """A run that brings one message to each of these streams."""
        brought = {}
        for stream in streams:
            offset = self.states[stream].next_offset
            brought[stream] = Brought(lineage="l", offset=offset, end=offset + 1)
        decision = Decision(id=name, at="2026-01-01T00:00:00Z", run="r", writer="w", committed=True, streams=brought)
        assert self.decisions.decide(decision) == decision
        for stream in streams:
            change = add(new_file(self.ids(), messages=1))
            prepare = PrepareFiles(commit=name, files=change.files, schemas=change.schemas)
            self._apply(stream, Transaction(id=self.ids(), at="2026", change=prepare))
            self._apply(stream, settlement(decision))

    def plain(self, stream: str) -> None:
        """A message that is of no run."""
        self._apply(stream, Transaction(id=self.ids(), at="2026", change=add(new_file(self.ids(), messages=1))))

    def _apply(self, stream: str, transaction: Transaction) -> None:
        after = fold.apply(self.states[stream], transaction)
        assert isinstance(after, Manifest)
        self.states[stream] = after

    def _born(self, stream: str) -> Manifest:
        return fold.empty(tap="t", stream=stream, store="log", lineage="l", created="2026", transaction_id=self.ids())


class Missing(Decisions):
    """Decisions whose first listing, in several requests, misses some that were made behind its back."""

    def __init__(self, inner: Decisions, *names: str) -> None:
        super().__init__(inner._storage, inner.tap)
        self._inner = inner
        self._missing = set(names)

    def listed(self) -> Listed:
        found = self._inner.listed()
        missing, self._missing = self._missing, set()
        return Listed(tuple(name for name in found.names if name not in missing), found.shown)

    def get(self, name: str) -> Decision | None:
        return self._inner.get(name)


def ends(views: Mapping[str, StreamView]) -> dict[str, int]:
    return {stream: seen.end for stream, seen in views.items()}


def loads(tap: Tap, first: str, meanwhile: Callable[[], None]) -> Callable[[], Mapping[str, Manifest]]:
    """Loads one stream, then, when something happened meanwhile, the others."""

    def load() -> Mapping[str, Manifest]:
        early = tap.states[first]
        meanwhile()
        return {**tap.states, first: early}

    return load


def test_a_run_behind_one_that_is_cut_is_cut_in_its_other_streams_too() -> None:
    tap = Tap("a", "b", "c")
    tap.run(FIRST, "a")
    tap.run(SECOND, "a", "b")
    tap.run(THIRD, "b", "c")
    for name in (FIRST, SECOND, THIRD):
        tap.decisions.say_shown(name)
    assert ends(view(tap.decisions, lambda: tap.states)) == {"a": 2, "b": 2, "c": 1}
    assert ends(view(Missing(tap.decisions, FIRST), lambda: tap.states)) == {"a": 0, "b": 0, "c": 0}
    assert ends(view(Missing(tap.decisions, SECOND), lambda: tap.states)) == {"a": 1, "b": 0, "c": 0}


def test_a_run_that_shares_no_stream_with_one_that_is_cut_stays() -> None:
    tap = Tap("a", "b")
    tap.run(FIRST, "a")
    tap.run(SECOND, "b")
    assert ends(view(Missing(tap.decisions, FIRST), lambda: tap.states)) == {"a": 0, "b": 1}


def test_a_view_ends_where_the_loaded_state_does_whatever_came_behind_it() -> None:
    tap = Tap("a", "b")
    tap.plain("a")

    def meanwhile() -> None:
        tap.plain("a")
        tap.run(FIRST, "a", "b")

    assert ends(view(tap.decisions, loads(tap, "a", meanwhile))) == {"a": 1, "b": 0}


def test_as_of_a_commit_shows_no_part_of_a_run_that_was_decided_meanwhile() -> None:
    tap = Tap("a", "b", "c")
    tap.run(FIRST, "a")
    load = loads(tap, "b", lambda: tap.run(SECOND, "b", "c"))
    assert ends(view_as_of(tap.decisions, FIRST, load)) == {"a": 1, "b": 0, "c": 0}


def test_as_of_a_commit_shows_no_part_of_a_run_with_a_smaller_name_that_was_decided_meanwhile() -> None:
    tap = Tap("a", "b", "c")
    tap.run(SECOND, "a")
    load = loads(tap, "b", lambda: tap.run(FIRST, "b", "c"))
    assert ends(view_as_of(tap.decisions, SECOND, load)) == {"a": 1, "b": 0, "c": 0}
    assert ends(view_as_of(tap.decisions, SECOND, lambda: tap.states)) == {"a": 1, "b": 1, "c": 1}
