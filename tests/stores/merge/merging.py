"""Writers of one stream in the ``merge`` store, each with its own clock, on a storage whose clock alone is right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from singerlake.clock import IdSource
from singerlake.errors import SingerlakeError, UnknownOutcomeError
from singerlake.format import layout
from singerlake.format.exact_json import decode
from singerlake.format.merge.entry_key import NAME, EntryKey, entry_key
from singerlake.format.state import fold
from singerlake.format.state.additions import Conflict
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Change, Transaction
from singerlake.storage.port import Entry, Stored
from singerlake.stores.log import Floor
from singerlake.stores.merge.log import SettleRecord
from singerlake.stores.merge.settings import MergeSettings
from singerlake.stores.merge.store import MergeStore
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded, Pending
from tests.fakes import FakeClock, counting_ids
from tests.format.state.test_fold import add, check_log, new_file
from tests.storage.memory import MemoryStorage, Step

LOG = layout.log_prefix("t", "s")
LAG = MergeSettings().lag_ms / 1000


@dataclass
class Skewed:
    """One machine's clock: its wall clock is ``skew`` seconds from the true one and may be set; its monotonic one
    begins anywhere and runs as it should."""

    true: FakeClock
    skew: float = 0.0
    begins: float = 1000.0

    def now(self) -> datetime:
        return self.true.now() + timedelta(seconds=self.skew)

    def monotonic(self) -> float:
        return self.true.monotonic() + self.begins

    def sleep(self, seconds: float) -> None:
        self.true.sleep(seconds)

    def jitter(self) -> float:
        return 0.5


class Seconds(MemoryStorage):
    """A storage that cuts ``LastModified`` to whole seconds, as S3 does."""

    def _store(self, key: str, body: bytes) -> Stored:
        stored = super()._store(key, body)
        self._objects[key] = Stored(stored.body, stored.etag, stored.last_modified.replace(microsecond=0))
        return self._objects[key]


class Mixed(Seconds):
    """A storage that tells milliseconds in a listing and whole seconds to a HEAD, as MinIO does."""

    def _store(self, key: str, body: bytes) -> Stored:
        return MemoryStorage._store(self, key, body)

    def head(self, key: str) -> Entry | None:
        found = super().head(key)
        cut = found.last_modified.replace(microsecond=0) if found else None
        return Entry(found.key, found.size, cut, found.etag) if found and cut else None


STORAGES = (MemoryStorage, Seconds, Mixed)
"""One of each way to tell when an object was written."""


@dataclass
class Crew:
    """A stream ``s`` of the tap ``t``, born unless told otherwise."""

    kind: type[MemoryStorage] = MemoryStorage
    ignore_conditions: bool = False
    settings: MergeSettings = field(default_factory=MergeSettings)
    ids: IdSource = field(default_factory=counting_ids)
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.storage = self.kind(clock=self.clock, ids=self.ids, ignore_conditions=self.ignore_conditions)

    def member(self, skew: float = 0.0, settings: MergeSettings | None = None) -> Member:
        """One more writer or reader."""
        return Member(self, Skewed(self.clock, skew), settings or self.settings)

    def born(self) -> Loaded:
        return self.member().store.create(
            fold.empty(tap="t", stream="s", store="merge", lineage="l", created="2026", transaction_id=self.ids())
        )

    def wait(self, seconds: float = LAG + 1) -> None:
        self.clock.seconds += seconds

    def state(self) -> Manifest:
        """What a reader that comes now sees."""
        loaded = self.member().store.load()
        assert loaded is not None
        check_log(loaded.manifest)
        return loaded.manifest

    def listed(self) -> list[str]:
        return [file.id for file in self.state().files]

    def entries(self) -> list[EntryKey]:
        """The entries there are, oldest first."""
        keys = (entry_key(found.key[len(LOG) :]) for found in self.storage.list(LOG + NAME))
        return [key for key in keys if key is not None][::-1]

    def records(self) -> Iterator[SettleRecord]:
        for found in self.storage.list(LOG + "0"):
            if layout.log_number(found.key[len(LOG) :]):
                stored = self.storage.get(found.key)
                assert stored is not None
                yield decode(stored.body, SettleRecord)

    def floor(self) -> int:
        stored = self.storage.get(LOG + layout.LOG_FLOOR)
        return decode(stored.body, Floor).floor if stored else -1

    def names(self) -> set[str]:
        """All objects below the log, without the folder."""
        return {found.key[len(LOG) :] for found in self.storage.list(LOG)}


@dataclass
class Member:
    """One writer: its store, the state it knows, and the receipts it holds."""

    crew: Crew
    clock: Skewed
    settings: MergeSettings
    held: list[Pending] = field(default_factory=list)

    def __post_init__(self) -> None:
        place = StreamPlace(self.crew.storage, "t", "s", self.clock, self.crew.ids)
        self.store = MergeStore(place, settings=self.settings)
        self.base: Loaded | None = None

    def known(self) -> Loaded:
        self.base = self.base or self.store.load()
        assert self.base is not None
        return self.base

    def commit(self, change: Change | str) -> Pending:
        """A change, or the file of that name with three messages."""
        wanted = add(new_file(change)) if isinstance(change, str) else change
        transaction = Transaction(id=self.crew.ids(), at="2026-02-01T00:00:00Z", change=wanted)
        pending = self.store.commit(self.known(), transaction)
        assert isinstance(pending, Pending), pending
        self.held.append(pending)
        return pending

    def settle(self, pending: Pending) -> Loaded | Conflict | None:
        """Asked once."""
        outcome = self.store.settle(self.known(), pending)
        if isinstance(outcome, Loaded):
            self.base = outcome
        return outcome

    def settled(self, pending: Pending) -> Manifest:
        """Where it came to stand, as soon as it can be known."""
        for _ in range(100):
            outcome = self.settle(pending)
            if outcome is not None:
                assert isinstance(outcome, Loaded), outcome
                return outcome.manifest
            self.crew.wait(0.5)
        raise AssertionError(f"{pending} is not settled")

    def key(self, pending: Pending) -> EntryKey:
        key = entry_key(pending.key[len(LOG) :])
        assert key is not None
        return key


def born(kind: type[MemoryStorage]) -> Crew:
    """A stream on such a storage."""
    crew = Crew(kind)
    crew.born()
    return crew


def calls(crew: Crew) -> list[str]:
    """The requests from now on, by operation and name."""
    made: list[str] = []

    def hook(step: Step) -> None:
        if not step.done:
            made.append(f"{step.operation} {step.key.removeprefix(LOG).partition('@')[0]}")

    crew.storage.hook = hook
    return made


def fail_once(
    crew: Crew,
    operation: str,
    *,
    done: bool,
    error: type[SingerlakeError] = UnknownOutcomeError,
    name: str = "manifest.json@",
) -> None:
    """The next such request for such an object fails, before its effect or after it."""

    def hook(step: Step) -> None:
        if (step.operation, step.done) == (operation, done) and step.key.startswith(LOG + name):
            crew.storage.hook = lambda _: None
            raise error("no answer", key=step.key)

    crew.storage.hook = hook


def consistent(crew: Crew, expected: set[str]) -> None:
    """Everybody's files are there once, and every record continues the one before."""
    assert sorted(crew.listed()) == sorted(expected)
    records = list(crew.records())
    names = [held.key for record in records for held in record.entries]
    assert len(set(names)) == len(names)
    for one, other in pairwise(records):
        assert (other.number, other.after) == (one.number + 1, one.id)


def old_log(crew: Crew, files: int) -> set[str]:
    """A log of so many records, old enough for a trim."""
    writer = crew.member()
    for number in range(files):
        writer.settled(writer.commit(f"f{number}"))
        crew.wait(10)
    return {f"f{number}" for number in range(files)}
