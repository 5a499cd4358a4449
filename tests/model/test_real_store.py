"""Ways that the model found, walked with the real store: the shortest to each state in which it met an error."""

from __future__ import annotations

from collections.abc import Callable

from singerlake.format import layout
from singerlake.format.state import fold
from singerlake.format.state.transactions import Transaction
from singerlake.stores.log import ObjectLog
from singerlake.stores.numbered import NumberedStore
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded, Outdated
from tests.fakes import FakeClock, counting_ids
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import MemoryStorage, Step


class Stream:
    """A stream in the store ``log``, seen by as many writers and trimmers as a test wants."""

    def __init__(self) -> None:
        self.clock, self.ids = FakeClock(), counting_ids()
        self.storage = MemoryStorage(clock=self.clock, ids=self.ids)
        self.born = self.store().create(
            fold.empty(tap="t", stream="s", store="log", lineage="l", created="2026", transaction_id=self.ids())
        )

    def store(self) -> NumberedStore:
        place = StreamPlace(self.storage, "t", "s", self.clock, self.ids)
        return NumberedStore("log", ObjectLog(place), place)

    def commit(self, base: Loaded, file: str) -> Loaded | Outdated:
        transaction = Transaction(id=self.ids(), at="2026", change=add(new_file(file)))
        outcome = self.store().commit(base, transaction)
        assert isinstance(outcome, (Loaded, Outdated))
        return outcome

    def committed(self, base: Loaded, file: str) -> Loaded:
        outcome = self.commit(base, file)
        assert isinstance(outcome, Loaded)
        return outcome

    def trim(self) -> None:
        self.store().trim(keep=0, dry_run=False)

    def meanwhile(self, operation: str, key: str, act: Callable[[], None]) -> None:
        """Let ``act`` happen once, right after the next such operation on this key."""

        def hook(step: Step) -> None:
            if step.done and step.operation == operation and step.key.endswith(key):
                self.storage.hook = lambda _: None
                act()

        self.storage.hook = hook


def files(loaded: Loaded | None) -> list[str]:
    assert loaded is not None
    return [file.id for file in loaded.manifest.files]


def test_a_writer_of_a_trimmed_number_catches_up_past_its_own_record() -> None:
    stream = Stream()
    one = stream.committed(stream.born, "b")
    stream.trim()
    assert isinstance(stream.commit(stream.born, "a"), Outdated)
    stream.committed(one, "c")
    assert files(stream.store().catch_up(stream.born)) == ["b", "c"]


def test_a_reader_whom_two_trims_overtake_reads_the_newer_snapshot() -> None:
    stream = Stream()
    one = stream.committed(stream.born, "a")

    def trim_twice() -> None:
        stream.trim()
        stream.meanwhile("get", layout.LOG_FLOOR, trim_again)

    def trim_again() -> None:
        stream.committed(one, "b")
        stream.trim()

    stream.meanwhile("get", "manifest.json", trim_twice)
    assert files(stream.store().load()) == ["a", "b"]


def test_a_trimmer_whom_another_overtakes_has_nothing_to_complain_of() -> None:
    stream = Stream()
    one = stream.committed(stream.born, "a")

    def trim_further() -> None:
        stream.committed(one, "b")
        stream.trim()

    stream.meanwhile("put", layout.log_snapshot_name(1), trim_further)
    stream.trim()
    assert files(stream.store().load()) == ["a", "b"]
