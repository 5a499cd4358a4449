"""A writer that sends to a queue: what it waits for, for how long, and in which order what it sent takes effect."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from singerlake.errors import CommitRefusedError, SettingError
from singerlake.format import layout
from singerlake.format.state.additions import Conflict
from singerlake.format.state.transactions import Close, RecordRun, RetireFiles
from singerlake.stores.commit import commit_transaction, submit_transaction
from singerlake.stores.port import Loaded, Pending
from singerlake.stores.queued.message import LARGEST, read_message
from singerlake.stores.queued.store import QueuedStore
from tests.format.state.test_fold import add, new_file
from tests.stores.queued.queues import MemoryQueue, QueuedPlace, queued_place
from tests.stores.stores import ON_THE_LAKE, Place
from tests.stores.test_any_writer import run, upload
from tests.stores.test_stores import run as run_record

BESIDE = ("lockfile", "log")


@pytest.fixture(params=BESIDE)
def place(request: pytest.FixtureRequest) -> QueuedPlace:
    made = queued_place(request.param, request)
    made.works = False
    return made


def sent(place: QueuedPlace, store: QueuedStore, base: Loaded, *names: str) -> Pending:
    change = add(*(new_file(name) for name in names))
    commit = submit_transaction(store, base, place.inner.transaction(change), clock=place.inner.clock)
    assert commit.pending is not None
    return commit.pending


def store_of(place: QueuedPlace) -> QueuedStore:
    store = place.inner.store()
    assert isinstance(store, QueuedStore)
    return store


def listed(place: QueuedPlace) -> list[str]:
    return place.inner.listed()


def keys(place: QueuedPlace) -> list[str]:
    return [entry.key for entry in place.inner.storage.list(layout.queue_prefix("t", "s"))]


def test_nothing_is_settled_before_a_committer_was_there(place: QueuedPlace) -> None:
    base, store = place.inner.born(), store_of(place)
    pending = sent(place, store, base, "a")
    assert store.settle(base, pending) is None
    assert (listed(place), place.queue.sent) == ([], 1)
    place.empty()
    outcome = store.settle(base, pending)
    assert isinstance(outcome, Loaded)
    assert (listed(place), place.queue.messages) == (["a"], [])
    assert "a" in outcome.manifest.by_id


def test_a_message_says_whose_it_is_and_until_when(place: QueuedPlace) -> None:
    base, store = place.inner.born(), store_of(place)
    pending = sent(place, store, base, "a")
    (message,) = place.queue.receive(10, wait=0)
    read = read_message(message.body, place.inner.lake.lake_id())
    assert (read.tap, read.stream, read.store, read.id) == ("t", "s", place.inner.kind, pending.id)  # type: ignore[union-attr]
    assert read.until == "2026-01-01T00:00:30.000000Z"  # type: ignore[union-attr]


def test_without_a_committer_a_writer_commits_by_itself_when_its_patience_ends(
    place: QueuedPlace, caplog: pytest.LogCaptureFixture
) -> None:
    base, store = place.inner.born(), store_of(place)
    pending = sent(place, store, base, "a")
    place.inner.clock.sleep(29)
    assert store.settle(base, pending) is None
    place.inner.clock.sleep(2)
    with caplog.at_level(logging.WARNING):
        outcome = store.settle(base, pending)
    assert isinstance(outcome, Loaded)
    assert listed(place) == ["a"]
    assert "commit_queue_patience_seconds=30" in caplog.text
    assert place.queue.name in caplog.text
    # It does not wait for the next one as long again.
    direct = commit_transaction(store, outcome, place.inner.transaction(add(new_file("b"))), clock=place.inner.clock)
    assert isinstance(direct, Loaded)
    assert listed(place) == ["a", "b"]
    place.inner.clock.sleep(301)
    sent(place, store, direct, "c")


def test_what_a_writer_committed_by_itself_is_not_committed_again(place: QueuedPlace) -> None:
    base, store = place.inner.born(), store_of(place)
    pending = sent(place, store, base, "a")
    place.inner.clock.sleep(31)
    assert isinstance(store.settle(base, pending), Loaded)
    number = place.inner.state().transaction.number
    place.empty()
    assert (listed(place), place.inner.state().transaction.number, place.queue.messages) == (["a"], number, [])


def test_a_committer_drops_what_no_writer_waits_for_any_more(place: QueuedPlace) -> None:
    base, store = place.inner.born(), store_of(place)
    sent(place, store, base, "a")
    place.inner.clock.sleep(31)
    place.empty()
    assert (listed(place), place.queue.messages) == ([], [])


def test_where_the_queue_is_down_the_commit_is_made_at_once_and_told_once(
    place: QueuedPlace, caplog: pytest.LogCaptureFixture
) -> None:
    place.queue.down.add("send")
    base, store = place.inner.born(), store_of(place)
    with caplog.at_level(logging.WARNING):
        for name in "abc":
            outcome = commit_transaction(
                store, base, place.inner.transaction(add(new_file(name))), clock=place.inner.clock
            )
            assert isinstance(outcome, Loaded)
            base = outcome
    assert listed(place) == ["a", "b", "c"]
    assert len([record for record in caplog.records if "took no message" in record.message]) == 1
    place.queue.down.clear()
    place.inner.clock.sleep(31)
    sent(place, store, base, "d")


def test_what_comes_behind_a_message_is_not_committed_before_it(place: QueuedPlace) -> None:
    base, store = place.inner.born(), store_of(place)
    first = sent(place, store, base, "a")
    place.queue.down.add("send")
    second = sent(place, store, base, "b")
    third = store.commit(base, place.inner.transaction(RecordRun(run=run_record("finished"))))
    assert isinstance(third, Pending)
    assert listed(place) == []
    for pending in (third, second, first):
        assert store.settle(base, pending) is None
    place.queue.down.clear()
    place.empty()
    assert isinstance(store.settle(base, third), Loaded)
    for pending in (second, first):
        assert isinstance(store.settle(base, pending), Loaded)
    assert listed(place) == ["a", "b"]
    assert [each.status for each in place.inner.state().runs] == ["finished"]


def test_a_committer_that_lost_the_first_message_does_not_commit_the_second(place: QueuedPlace) -> None:
    base, store = place.inner.born(), store_of(place)
    first, second = sent(place, store, base, "a"), sent(place, store, base, "b")
    del place.queue.messages[0]
    place.empty()
    assert listed(place) == []
    place.inner.clock.sleep(2)
    assert store.settle(base, first) is None
    place.inner.clock.sleep(30)
    assert isinstance(store.settle(base, first), Loaded)
    assert isinstance(store.settle(base, second), Loaded)
    assert listed(place) == ["a", "b"]


def test_a_refusal_is_looked_into_and_not_believed(place: QueuedPlace) -> None:
    base, store = place.inner.born(), store_of(place)
    pending = sent(place, store, base, "a")
    place.inner.storage.put(layout.refusal_key("t", "s", pending.id), b"no reason at all")
    place.inner.clock.sleep(2)
    assert isinstance(store.settle(base, pending), Loaded)
    assert (listed(place), keys(place)) == (["a"], [])


def test_a_refused_transaction_is_the_conflict_that_it_is_and_is_told_before_the_patience_ends(
    place: QueuedPlace,
) -> None:
    base, store = place.inner.born(), store_of(place)
    pending = sent(place, store, base, "a")
    place.plain().commit(base, place.inner.transaction(RetireFiles(files=(("a", "x/a"),))))
    place.empty()
    place.inner.clock.sleep(2)
    outcome = store.settle(base, pending)
    assert isinstance(outcome, Conflict)
    assert "retired as an orphan" in outcome.reason
    assert keys(place) == []


def test_what_does_not_fit_is_a_conflict_before_it_is_sent(place: QueuedPlace) -> None:
    base = place.inner.born()
    gone = place.plain().commit(base, place.inner.transaction(RetireFiles(files=(("a", "x/a"),))))
    assert isinstance(gone, Loaded)
    outcome = place.inner.commit(gone, add(new_file("a")))
    assert isinstance(outcome, Conflict)
    assert place.queue.sent == 0


def test_a_large_transaction_lies_beside_the_data_until_it_is_settled(place: QueuedPlace) -> None:
    base, store = place.inner.born(), store_of(place)
    names = [f"file{number}" for number in range(800)]
    pending = sent(place, store, base, *names)
    assert keys(place) == [layout.queued_body_key("t", "s", pending.id)]
    (message,) = place.queue.messages
    assert len(message.body) < 1000 < LARGEST
    place.empty()
    assert isinstance(store.settle(base, pending), Loaded)
    assert listed(place) == names
    assert keys(place) == []


def test_a_writer_s_messages_are_one_group_and_other_streams_are_others(request: pytest.FixtureRequest) -> None:
    place = queued_place("log", request)
    groups = {store_of(place)._group for _ in range(5)} | {QueuedStore._group_in(store_of(place), 4)}
    other = place.inner.store("other")
    assert isinstance(other, QueuedStore)
    assert len(groups) == 1
    assert other._group not in groups
    assert all(len(group) <= 128 and group.isascii() and group.isalnum() for group in groups)


def test_streams_of_postgres_have_a_bounded_number_of_groups(request: pytest.FixtureRequest) -> None:
    place = queued_place("log", request)
    groups = set()
    for _ in range(60):
        store = store_of(place)
        store.kind = "postgres"
        groups.add(store._group_in(4))
    assert len(groups) == 4
    assert all(len(group) <= 128 for group in groups)


def test_storage_without_conditions_is_refused(request: pytest.FixtureRequest) -> None:
    inner = Place("lockfile", ignore_conditions=True)
    place = QueuedPlace(inner, MemoryQueue(inner.clock))
    with pytest.raises(SettingError, match="commit_queue_url is set, and this storage ignores conditional writes"):
        place.inner.lake.stream("t", "s").writer(writer_id="ada", store="lockfile").open()
    assert not list(inner.storage.list("raw/t/"))


def test_a_writer_holds_no_lock_while_it_waits(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    place = queued_place("lockfile", request)
    place.works = False
    writer = place.inner.lake.stream("t", "s").writer(writer_id="ada", store="lockfile")
    receipt = writer.submit([upload(place.inner, tmp_path)], run())
    assert receipt.manifest is None
    assert not [entry.key for entry in place.inner.storage.list("raw/t/s/") if entry.key.endswith("singerlake.lock")]


@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_stream_that_moves_while_messages_wait_loses_none(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = queued_place(kind, request)
    place.works = False
    other = "log" if kind == "lockfile" else "lockfile"
    writer = place.inner.lake.stream("t", "s").writer(writer_id="ada", store=kind)
    receipts = [writer.submit([upload(place.inner, tmp_path)], run()) for _ in range(2)]
    from singerlake.upkeep.context import StreamContext
    from singerlake.upkeep.migrate import migrate_stream

    inner = place.inner
    context = StreamContext(inner.storage, "t", "s", inner.clock, inner.ids, place.plain("s", kind))
    migrate_stream(context, place.plain("s", other))
    place.works = True
    for receipt in receipts:
        writer.settled(receipt)
    writer.finish()
    ids = [file.id for receipt in receipts for file in receipt.files]
    assert [file.id for file in inner.lake.stream("t", "s").snapshot().files] == ids
    assert place.queue.messages == []


def test_a_stream_that_is_closed_and_went_nowhere_ends_the_wait(place: QueuedPlace) -> None:
    base, store = place.inner.born(), store_of(place)
    pending = sent(place, store, base, "a")
    place.plain().commit(base, place.inner.transaction(Close(successor="merge")))
    outcome = store.settle(base, pending)
    assert isinstance(outcome, Conflict)
    assert outcome.successor == "merge"
    place.empty()
    assert place.queue.messages == []


def test_a_run_whose_file_was_retired_meanwhile_ends_as_without_a_queue(place: QueuedPlace, tmp_path: Path) -> None:
    writer = place.inner.lake.stream("t", "s").writer(writer_id="ada", store=place.inner.kind)
    file = upload(place.inner, tmp_path)
    receipt = writer.submit([file], run())
    there = place.plain().load()
    assert there is not None
    place.plain().commit(there, place.inner.transaction(RetireFiles(files=((file.file.id, file.file.path),))))
    place.works = True
    with pytest.raises(CommitRefusedError, match="retired as an orphan"):
        writer.settled(receipt)
