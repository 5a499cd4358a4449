"""What several writers add at once, in every store; and committers that make such transactions."""

from __future__ import annotations

import pytest

from singerlake.format.exact_json import decode
from singerlake.format.state.model import Run
from singerlake.format.state.transactions import AddFiles, AddTogether, AttachFiles
from singerlake.stores.numbered import Record
from singerlake.stores.port import Loaded
from tests.format.state.test_attach_files import A, row, with_rows
from tests.format.state.test_fold import add, check_log, new_file
from tests.stores.queued.queues import MemoryQueue, QueuedPlace, queued_place
from tests.stores.queued.test_store import sent, store_of
from tests.stores.stores import KINDS, Place, make_place

NUMBERED = tuple(kind for kind in KINDS if kind != "merge")
ONE, OTHER = (Run(id=name, writer="w", started="2026", updated="2026") for name in ("one", "other"))


@pytest.fixture(params=NUMBERED)
def plain(request: pytest.FixtureRequest) -> Place:
    return make_place(request.param, request)


def test_parts_are_one_transaction_and_come_back_from_the_store(plain: Place) -> None:
    base = plain.born()
    first = add(new_file("a", 3), run=ONE)
    second = AttachFiles(files=(with_rows(new_file("b", 2), row(0, A)),), schemas=first.schemas, run=OTHER)
    after = plain.committed(base, AddTogether(parts=(first, second)))
    state = plain.state()
    check_log(state)
    assert state.transaction.number == 1
    assert [(file.id, file.offset, len(file.attached)) for file in state.files] == [("a", 0, 0), ("b", 3, 1)]
    assert [(run.id, run.files) for run in state.runs] == [("one", 1), ("other", 1)]
    assert after.manifest.files == state.files


def test_a_part_that_came_meanwhile_is_passed_over(plain: Place) -> None:
    base = plain.born()
    plain.committed(base, add(new_file("b")))
    plain.committed(base, AddTogether(parts=(add(new_file("a")), add(new_file("b")))))
    assert plain.listed() == ["b", "a"]


def test_merge_has_no_entry_for_it() -> None:
    place = Place("merge")
    base = place.born()
    with pytest.raises(TypeError, match="no entry for AddTogether"):
        place.store().commit(base, place.transaction(AddTogether(parts=(add(new_file("a")),))))


def written(place: QueuedPlace, number: int) -> Record:
    stored = place.inner.storage.get(f"raw/t/s/_log/{number:020d}.json")
    assert stored is not None
    return decode(stored.body, Record)


def test_ten_messages_are_one_transaction_and_one_alone_goes_as_it_came(request: pytest.FixtureRequest) -> None:
    place = queued_place("log", request)
    place.works = False
    base = place.inner.born()
    alone = sent(place, store_of(place), base, "alone")
    place.empty()
    assert written(place, 1).transaction.id == alone.id
    assert type(written(place, 1).transaction.change) is AddFiles
    stores = [store_of(place) for _ in range(11)]
    receipts = [sent(place, store, base, f"f{at}") for at, store in enumerate(stores)]
    assert [place.empty(), place.empty()] == [10, 1]
    together = written(place, 2).transaction.change
    assert isinstance(together, AddTogether)
    assert [part.files[0].id for part in together.parts] == [f"f{at}" for at in range(10)]
    for store, receipt in zip(stores, receipts, strict=True):
        assert isinstance(store.settle(base, receipt), Loaded)
    assert place.inner.listed() == ["alone", *(f"f{at}" for at in range(11))]


def test_merge_takes_messages_one_by_one(request: pytest.FixtureRequest) -> None:
    inner = make_place("merge", request)
    place = QueuedPlace(inner, MemoryQueue(inner.clock))
    place.works = False
    base = place.inner.born()
    stores = [store_of(place) for _ in range(3)]
    receipts = [sent(place, store, base, f"f{at}") for at, store in enumerate(stores)]
    place.empty()
    for store, receipt in zip(stores, receipts, strict=True):
        assert isinstance(store.settle(base, receipt), Loaded)
    assert place.inner.listed() == ["f0", "f1", "f2"]
    assert place.queue.messages == []
