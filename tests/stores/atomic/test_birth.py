"""A stream that is born while an atomic run prepares it."""

from __future__ import annotations

from singerlake.format import layout
from singerlake.format.decision import Decision
from singerlake.format.state import fold
from singerlake.format.state.transactions import PrepareFiles, Transaction
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.log import ObjectLog
from singerlake.stores.numbered import NumberedStore
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded
from singerlake.stores.publish import published
from tests.fakes import START, FakeClock, counting_ids
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import MemoryStorage, Step

NAME = layout.commit_name(START, "0" * 16)
KEY = layout.manifest_key("t", "s")


class Stream:
    """A stream that is born; when its first record is there, ``decided`` says whether the run behind it is, too."""

    def __init__(self, *, decided: bool) -> None:
        self.clock, self.ids = FakeClock(), counting_ids()
        self.storage = MemoryStorage(clock=self.clock, ids=self.ids, hook=self._hook)
        self.decisions = Decisions(self.storage, "t")
        self._decided = decided

    def born(self) -> Loaded:
        birth = fold.empty(tap="t", stream="s", store="log", lineage="l", created="2026", transaction_id="birth")
        return self.store().create(birth)

    def store(self) -> NumberedStore:
        place = StreamPlace(self.storage, "t", "s", self.clock, self.ids)
        return NumberedStore("log", ObjectLog(place), place)

    def decide(self) -> None:
        decision = Decision(id=NAME, at="2026-01-01T00:00:00Z", run="r", writer="w", committed=True)
        assert self.decisions.decide(decision) == decision

    def _hook(self, step: Step) -> None:
        if step.done and step.operation == "put" and step.key.endswith(layout.log_name(0)):
            self.storage.hook = lambda _: None
            store, change = self.store(), add(new_file("f"))
            loaded = store.load()
            assert loaded is not None
            prepare = PrepareFiles(commit=NAME, files=change.files, schemas=change.schemas)
            assert isinstance(store.commit(loaded, Transaction(id="p", at="2026", change=prepare)), Loaded)
            if self._decided:
                self.decide()


def test_a_birth_publishes_nothing_undecided() -> None:
    stream = Stream(decided=False)
    assert stream.born().manifest.next_offset == 0
    assert published(stream.storage, KEY) is None
    stream.decide()
    loaded = stream.store().load()
    assert loaded is not None
    assert loaded.manifest.next_offset > 0
    stream.store().publish(loaded)
    shown = published(stream.storage, KEY)
    assert shown is not None
    assert shown.number == 2


def test_a_birth_publishes_what_is_decided_once_the_log_says_so() -> None:
    stream = Stream(decided=True)
    assert stream.born().manifest.transaction.number == 2
    shown = published(stream.storage, KEY)
    assert shown is not None
    assert shown.number == 2
    assert stream.storage.get(layout.log_prefix("t", "s") + layout.log_name(2)) is not None
