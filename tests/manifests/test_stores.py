"""One suite for every manifest store: how writers agree, whatever gets lost on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest

from singerlake.errors import CorruptObject, ForeignManifest, TooManyConflicts, UnknownOutcome, UnsupportedFormat
from singerlake.format import fold, layout
from singerlake.format.fold import Conflict
from singerlake.format.manifest import to_json
from singerlake.format.model import Manifest
from singerlake.format.transactions import Change, Close, ReplaceFiles, Transaction
from singerlake.manifests.commit import commit_transaction
from singerlake.manifests.lockfile import LockfileStore
from singerlake.manifests.port import Loaded, ManifestStore, Outdated
from singerlake.storage.memory import MemoryStorage, Step
from tests.fakes import FakeClock, counting_ids
from tests.format.test_fold import add, check_log, new_file

STORES: dict[str, Callable[[MemoryStorage, str, str], ManifestStore]] = {"lockfile": LockfileStore}
KEY = layout.manifest_key("t", "s")


class Place:
    """One stream on one storage, seen by as many writers as a test wants."""

    def __init__(self, kind: str, *, ignore_conditions: bool = False) -> None:
        self.kind = kind
        self.clock = FakeClock()
        self.ids = counting_ids()
        self.storage = MemoryStorage(clock=self.clock, ids=self.ids, ignore_conditions=ignore_conditions)

    def store(self, stream: str = "s") -> ManifestStore:
        return STORES[self.kind](self.storage, "t", stream)

    def first(self, stream: str = "s") -> Manifest:
        return fold.empty(
            tap="t", stream=stream, store=self.kind, lineage=self.ids(), created="2026", transaction_id=self.ids()
        )

    def born(self) -> Loaded:
        return self.store().create(self.first())

    def transaction(self, change: Change) -> Transaction:
        return Transaction(id=self.ids(), at="2026-02", change=change)

    def commit(self, base: Loaded, change: Change, **options: int) -> Loaded | Conflict:
        return commit_transaction(self.store(), base, self.transaction(change), clock=self.clock, **options)

    def listed(self) -> list[str]:
        loaded = self.store().load()
        assert loaded is not None
        check_log(loaded.manifest)
        return [file.id for file in loaded.manifest.files]


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest) -> Place:
    return Place(request.param)


def test_a_stream_that_was_never_born_has_no_state(place: Place) -> None:
    assert place.store().load() is None


def test_of_two_births_one_stays_and_both_writers_go_on_from_it(place: Place) -> None:
    one = place.store().create(place.first())
    other = place.store().create(place.first())
    assert one == other == place.store().load()


def test_what_one_writer_commits_another_loads(place: Place) -> None:
    place.commit(place.born(), add(new_file("a", 3), new_file("b", 2)))
    loaded = place.store().load()
    assert loaded is not None
    assert [(file.id, file.offset) for file in loaded.manifest.files] == [("a", 0), ("b", 3)]


def test_a_commit_on_an_old_state_is_refused_as_a_value(place: Place) -> None:
    base = place.born()
    place.commit(base, add(new_file("a")))
    outcome = place.store().commit(base, place.transaction(add(new_file("b"))))
    assert isinstance(outcome, Outdated)
    assert place.listed() == ["a"]


def test_the_loop_catches_up_after_another_writer_came_between(place: Place) -> None:
    base = place.born()
    place.commit(base, add(new_file("a")))
    outcome = place.commit(base, add(new_file("b")))
    assert isinstance(outcome, Loaded)
    assert place.listed() == ["a", "b"]


def test_committing_the_same_files_again_changes_nothing(place: Place) -> None:
    base = place.born()
    once = place.commit(base, add(new_file("a")))
    twice = place.commit(base, add(new_file("a")))
    assert isinstance(once, Loaded)
    assert isinstance(twice, Loaded)
    assert once.manifest == twice.manifest
    assert place.listed() == ["a"]


def test_files_are_replaced_atomically_and_once(place: Place) -> None:
    base = place.commit(place.born(), add(new_file("a", 3), new_file("b", 2)))
    assert isinstance(base, Loaded)
    change = ReplaceFiles(old=("a", "b"), new=(new_file("ab", 5),))
    for _ in range(2):
        assert isinstance(place.commit(base, change), Loaded)
        assert place.listed() == ["ab"]


def test_replacing_what_is_not_listed_is_a_conflict_and_changes_nothing(place: Place) -> None:
    base = place.commit(place.born(), add(new_file("a", 3)))
    assert isinstance(base, Loaded)
    assert isinstance(place.commit(base, ReplaceFiles(old=("a", "x"), new=(new_file("n", 5),))), Conflict)
    assert place.listed() == ["a"]


def test_a_live_writer_of_a_closed_stream_is_told_its_successor(place: Place) -> None:
    base = place.born()
    place.commit(base, Close(successor="elsewhere"))
    outcome = place.commit(base, add(new_file("a")))
    assert isinstance(outcome, Conflict)
    assert outcome.successor == "elsewhere"


def faults(storage: MemoryStorage, *, done: bool, times: int, error: Exception | None = None) -> None:
    """Lets the next writes to the store's own objects fail, before their effect or after it."""
    left: Iterator[int] = iter(range(times))

    def hook(step: Step) -> None:
        if step.operation == "put" and step.done is done and next(left, None) is not None:
            raise error or UnknownOutcome("no answer", key=step.key)

    storage.hook = hook


@pytest.mark.parametrize("done", [False, True], ids=["before its effect", "after its effect"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_commit_whose_reply_is_lost_is_there_exactly_once(place: Place, done: bool, times: int) -> None:
    base = place.born()
    faults(place.storage, done=done, times=times)
    outcome = place.commit(base, add(new_file("a")))
    assert isinstance(outcome, Loaded)
    assert place.listed() == ["a"]


def test_a_refusal_that_answers_one_s_own_success_counts_as_success(place: Place) -> None:
    base = place.born()
    original = place.storage.put

    def retried(key: str, body: bytes, **conditions: object) -> object:
        original(key, body, **conditions)  # type: ignore[arg-type]
        return original(key, body, **conditions)  # type: ignore[arg-type]

    place.storage.put = retried  # type: ignore[method-assign,assignment]
    outcome = place.commit(base, add(new_file("a")))
    assert isinstance(outcome, Loaded)
    assert place.listed() == ["a"]
    assert place.commit(outcome, add(new_file("b")))
    assert place.listed() == ["a", "b"]


def test_an_outcome_that_cannot_be_known_is_an_error_of_its_own(place: Place) -> None:
    base = place.born()
    faults(place.storage, done=False, times=1000)
    with pytest.raises(UnknownOutcome):
        place.commit(base, add(new_file("a")), attempts=5)
    assert place.listed() == []


def test_a_writer_that_loses_every_race_gives_up_with_nothing_committed(place: Place) -> None:
    base = place.born()
    numbers = iter(range(1000))

    def somebody_else_commits(_: float) -> None:
        current = place.store().load()
        assert current is not None
        place.store().commit(current, place.transaction(add(new_file(f"other{next(numbers)}"))))

    place.clock.on_sleep = somebody_else_commits
    somebody_else_commits(0)
    original_load = place.store().load

    class AlwaysLate:
        kind = place.kind
        exclusive = False

        def load(self) -> Loaded | None:
            loaded = original_load()
            somebody_else_commits(0)
            return loaded

        def create(self, manifest: Manifest) -> Loaded:
            return place.store().create(manifest)

        def commit(self, base: Loaded, transaction: Transaction) -> Loaded | Outdated | Conflict:
            return place.store().commit(base, transaction)

    with pytest.raises(TooManyConflicts, match="7 times in a row"):
        commit_transaction(AlwaysLate(), base, place.transaction(add(new_file("mine"))), clock=place.clock, attempts=7)
    assert "mine" not in place.listed()


def test_a_state_that_disappears_during_a_commit_is_not_taken_for_a_new_stream(place: Place) -> None:
    base = place.born()
    for entry in list(place.storage.list("raw/")):
        place.storage.delete(entry.key)
    with pytest.raises(UnknownOutcome, match="disappeared"):
        place.commit(base, add(new_file("a")))
    assert place.store().load() is None


BODIES: dict[str, tuple[bytes, type[Exception]]] = {
    "cut": (b'{"format":1,"tap":"t"', CorruptObject),
    "empty": (b"", CorruptObject),
    "another kind": (b'{"format":1,"streams":[]}', CorruptObject),
    "no format": (b'{"versions":{},"files":[]}', CorruptObject),
    "newer": (b'{"format":2}', UnsupportedFormat),
}


@pytest.mark.parametrize("kind", BODIES)
def test_a_state_that_cannot_be_believed_stops_everything_and_stays_as_it_is(kind: str) -> None:
    place = Place("lockfile")
    body, error = BODIES[kind]
    place.storage.put(KEY, body)
    for act in (place.store().load, place.born):
        with pytest.raises(error, match=r"raw/t/s/manifest\.json"):
            act()
    stored = place.storage.get(KEY)
    assert stored is not None
    assert stored.body == body


@pytest.mark.parametrize(("field", "value"), [("tap", "T"), ("stream", "S"), ("store", "log")])
def test_another_s_manifest_is_refused_and_stays_as_it_is(field: str, value: str) -> None:
    place = Place("lockfile")
    body = to_json(msgspec.structs.replace(place.first(), **{field: value}))
    place.storage.put(KEY, body)
    with pytest.raises(ForeignManifest, match=field):
        place.born()
    stored = place.storage.get(KEY)
    assert stored is not None
    assert stored.body == body


def test_without_conditions_the_lockfile_store_says_it_is_best_effort(caplog: pytest.LogCaptureFixture) -> None:
    place = Place("lockfile", ignore_conditions=True)
    base = place.born()
    assert place.store().exclusive
    assert "best effort" in caplog.text
    place.commit(base, add(new_file("a")))
    place.commit(base, add(new_file("b")))
    assert place.listed() == ["a", "b"]
