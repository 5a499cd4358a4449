"""What an atomic run says of itself where storage does not answer at its decision or behind it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from singerlake.clock import timestamp
from singerlake.errors import StorageUnavailableError, UnknownOutcomeError
from singerlake.format import layout
from singerlake.format.decision import Decision, aborted
from singerlake.format.state import fold
from singerlake.format.state.model import Manifest, Run
from singerlake.lock_file import LockSettings
from singerlake.storage.port import Entry
from singerlake.stores.atomic.commit_run import AtomicRun, RunShare, commit_run
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.log import ObjectLog
from singerlake.stores.numbered import NumberedStore
from singerlake.stores.place import StreamPlace
from singerlake.stores.writer import StreamWriter
from tests.fakes import START, FakeClock, counting_ids
from tests.simulation.world.files import SCHEMA, VERSION, written_file
from tests.storage.memory import MemoryStorage, Step

NAME = layout.commit_name(START, "0" * 16)
AT = datetime(2026, 1, 1, tzinfo=UTC)


class Lake:
    """Two streams in the store ``log``, and a run that brings a file to each."""

    def __init__(self) -> None:
        self.clock, self.ids = FakeClock(), counting_ids()
        self.storage = MemoryStorage(clock=self.clock, ids=self.ids)
        self.decisions = Decisions(self.storage, "t")

    def commit(self) -> dict[str, Manifest]:
        parts = [self._part(stream) for stream in ("a", "b")]
        run = AtomicRun(parts, self.decisions, run_id="r", writer_id="w", clock=self.clock, ids=self.ids)
        return commit_run(run)

    def place(self, stream: str) -> StreamPlace:
        return StreamPlace(self.storage, "t", stream, self.clock, self.ids)

    def store(self, stream: str) -> NumberedStore:
        place = self.place(stream)
        return NumberedStore("log", ObjectLog(place), place)

    def messages(self) -> list[int]:
        loaded = [self.store(stream).load() for stream in ("a", "b")]
        return [each.manifest.next_offset for each in loaded if each is not None]

    def fails(self, matches: Callable[[Step], bool], *, times: int = 1000) -> None:
        """Let storage not answer where the decision is there and a step matches."""
        left = [times]

        def hook(step: Step) -> None:
            decided = any(layout.commit_name_in(entry.key.rpartition("/")[2]) for entry in self._decisions())
            if decided and left[0] and matches(step):
                left[0] -= 1
                raise StorageUnavailableError("storage does not answer", key=step.key)

        self.storage.hook = hook

    def answers(self) -> None:
        self.storage.hook = lambda _: None

    def _decisions(self) -> list[Entry]:
        hook, self.storage.hook = self.storage.hook, lambda _: None
        try:
            return list(self.storage.list(layout.commits_prefix("t")))
        finally:
            self.storage.hook = hook

    def _part(self, stream: str) -> RunShare:
        writer = StreamWriter(
            place=self.place(stream),
            store=self.store(stream),
            writer_id="w",
            lock=LockSettings(),
            rebuild=lambda kind: fold.empty(
                tap="t", stream=stream, store=kind, lineage="l", created="2026", transaction_id="b"
            ),
        )
        upload = written_file(self.ids(), 2, run="r", seq=0)
        writer.upload([upload])
        run = Run(id="r", writer="w", started=timestamp(self.clock.now()))
        return RunShare(writer, (upload.file,), {VERSION: SCHEMA}, run)


def reads_decision(step: Step) -> bool:
    return step.operation == "get" and not step.done and layout.commit_name_in(step.key.rpartition("/")[2]) is not None


def test_a_decision_that_cannot_be_read_back_may_count() -> None:
    lake = Lake()
    lake.fails(reads_decision)
    with pytest.raises(UnknownOutcomeError):
        lake.decisions.decide(aborted(NAME, at=AT, writer="w", run=None))
    lake.answers()
    there = lake.decisions.get(NAME)
    assert isinstance(there, Decision)
    assert not there.committed


def test_a_decision_that_was_not_sent_does_not_count() -> None:
    lake = Lake()

    def hook(step: Step) -> None:
        if step.operation == "put" and not step.done:
            raise StorageUnavailableError("storage does not answer", key=step.key)

    lake.storage.hook = hook
    with pytest.raises(StorageUnavailableError):
        lake.decisions.decide(aborted(NAME, at=AT, writer="w", run=None))
    lake.answers()
    assert lake.decisions.get(NAME) is None


def test_a_run_whose_decision_is_read_back_late_is_committed() -> None:
    lake = Lake()
    lake.fails(reads_decision, times=1)
    states = lake.commit()
    assert [state.next_offset for state in states.values()] == lake.messages() == [2, 2]


def test_a_run_whose_decision_is_never_read_back_may_be_visible() -> None:
    lake = Lake()
    lake.fails(reads_decision)
    with pytest.raises(UnknownOutcomeError):
        lake.commit()
    lake.answers()
    assert lake.messages() == [2, 2]


def test_a_run_that_was_decided_and_cannot_be_published_is_visible_and_says_that_it_may_be() -> None:
    lake = Lake()
    lake.fails(lambda step: step.operation == "put" and not step.done and "/_log/" in step.key)
    with pytest.raises(UnknownOutcomeError, match="is in the lake"):
        lake.commit()
    lake.answers()
    assert lake.messages() == [2, 2]
