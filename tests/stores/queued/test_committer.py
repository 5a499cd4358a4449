"""Committers: what they take, what they drop, and what is left where one dies."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from singerlake.errors import StorageUnavailableError
from singerlake.format import layout
from singerlake.stores.port import Loaded
from singerlake.stores.queued.committer import Worker
from singerlake.stores.queued.message import Received, to_text
from tests.format.state.test_fold import add, new_file
from tests.stores.queued.queues import QueuedPlace, queued_place
from tests.stores.queued.test_store import BESIDE, keys, listed, sent, store_of

SECRET = "hunter2"


@pytest.fixture(params=BESIDE)
def place(request: pytest.FixtureRequest) -> QueuedPlace:
    made = queued_place(request.param, request)
    made.works = False
    return made


def good(place: QueuedPlace, name: str = "a") -> dict[str, Any]:
    """A message that a writer would send."""
    store = store_of(place)
    base = place.plain().load() or place.inner.born()
    sent(place, store, base, name)
    body: dict[str, Any] = json.loads(place.queue.messages.pop().body)
    return body


def put(place: QueuedPlace, body: object) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    place.queue.send(text, group="g", deduplication=place.inner.ids())


Change = Callable[[dict[str, Any]], object]
POISON: dict[str, Change] = {
    "not JSON": lambda body: SECRET,
    "no object": lambda body: "[1]",
    "too deep": lambda body: "[" * 100_000,
    "another lake": lambda body: {**body, "lake_id": SECRET},
    "another format": lambda body: {**body, "format": 2},
    "no format": lambda body: {**body, "format": SECRET},
    "an unknown kind": lambda body: {**body, "transaction": {**body["transaction"], "change": {"kind": SECRET}}},
    "another change": lambda body: {
        **body,
        "transaction": {**body["transaction"], "change": {"kind": "close", "successor": SECRET}},
    },
    "no transaction": lambda body: {**body, "transaction": None},
    "two of them": lambda body: {**body, "sha256": "0" * 64},
    "another id": lambda body: {**body, "id": "0" * 16},
    "an id that is a path": lambda body: {**body, "id": "../../x"},
    "a time that is none": lambda body: {**body, "until": SECRET},
    "a tap that is a path": lambda body: {**body, "tap": "../../etc"},
    "a stream that is a path": lambda body: {**body, "stream": "../t/s"},
    "an empty name": lambda body: {**body, "tap": ""},
    "a name that is too long": lambda body: {**body, "stream": "x" * 300},
    "another store": lambda body: {**body, "store": "merge"},
    "a file outside of its stream": lambda body: _with_file(body, path="../../x"),
    "a file in the log": lambda body: _with_file(body, path="_log/x"),
    "a file with no messages": lambda body: _with_file(body, messages=0, members=[]),
    "members that do not add up": lambda body: _with_file(body, members=[[0, 2]]),
    "no object of that name": lambda body: {**body, "transaction": None, "sha256": "0" * 64},
}


def _with_file(body: dict[str, Any], **changes: object) -> dict[str, Any]:
    transaction = json.loads(json.dumps(body["transaction"]))
    transaction["change"]["files"][0].update(changes)
    return {**body, "transaction": transaction}


@pytest.mark.parametrize("name", POISON)
def test_poison_is_dropped_and_told_without_its_content(
    place: QueuedPlace, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    body = good(place)
    put(place, POISON[name](body))
    put(place, good(place, "b"))
    before = {entry.key for entry in place.inner.storage.list("")}
    with caplog.at_level(logging.WARNING):
        place.empty()
    assert (listed(place), place.queue.messages) == (["b"], [])
    (told,) = [record.message for record in caplog.records]
    assert told.startswith("message m")
    assert SECRET not in caplog.text
    fresh = {entry.key for entry in place.inner.storage.list("")} - before
    assert all(layout.LOG in key or key.endswith(".refused.json") for key in fresh)
    assert all(key.startswith("raw/") and ".." not in key.split("/") for key in fresh)


@pytest.mark.parametrize("known", [True, False])
def test_the_object_of_a_message_is_where_its_stream_and_id_say_and_as_it_says(place: QueuedPlace, known: bool) -> None:
    body = good(place)
    stored = json.dumps(body["transaction"]).encode()
    place.inner.storage.put(layout.queued_body_key("t", "s", body["id"]), stored if known else stored + b" ")
    put(place, {**body, "transaction": None, "sha256": hashlib.sha256(stored).hexdigest(), "object": "raw/t/else.json"})
    place.empty()
    assert listed(place) == (["a"] if known else [])
    assert place.queue.messages == []


def test_an_object_that_is_no_transaction_is_dropped(place: QueuedPlace) -> None:
    body, stored = good(place), b"{}"
    place.inner.storage.put(layout.queued_body_key("t", "s", body["id"]), stored)
    put(place, {**body, "transaction": None, "sha256": hashlib.sha256(stored).hexdigest()})
    place.empty()
    assert (listed(place), place.queue.messages) == ([], [])


def test_one_that_does_not_fit_alone_is_refused_and_the_others_are_committed(place: QueuedPlace) -> None:
    base = place.inner.born()
    stores = [store_of(place) for _ in range(3)]
    receipts = [
        sent(place, stores[0], base, "a"),
        sent(place, stores[1], base, "a"),
        sent(place, stores[2], base, "c"),
    ]
    body = json.loads(place.queue.messages[1].body)
    place.queue.messages[1].body = json.dumps(_with_file(body, sha256="1" * 64))
    place.empty()
    assert (listed(place), place.queue.messages) == (["a", "c"], [])
    assert keys(place) == [layout.refusal_key("t", "s", receipts[1].id)]
    assert isinstance(stores[0].settle(base, receipts[0]), Loaded)
    assert isinstance(stores[2].settle(base, receipts[2]), Loaded)


def test_a_message_that_comes_again_is_committed_once(place: QueuedPlace) -> None:
    sent(place, store_of(place), place.inner.born(), "a")
    place.queue.again()
    place.queue.messages[1].group = "another"
    body = json.loads(place.queue.messages[0].body)
    place.empty()
    assert (listed(place), place.queue.messages, keys(place)) == (["a"], [], [])
    place.inner.clock.sleep(301)
    put(place, body)
    put(place, body | {"until": "2027-01-01T00:00:00Z"})
    place.empty()
    assert (listed(place), place.queue.messages, keys(place)) == (["a"], [], [])


@pytest.mark.parametrize("dies", ["received", "committed"])
def test_what_a_committer_left_that_died_another_one_does(place: QueuedPlace, dies: str) -> None:
    base, store = place.inner.born(), store_of(place)
    pending = sent(place, store, base, "a")
    messages = place.queue.receive(10, wait=0)
    if dies == "committed":
        assert place.committer.handle(messages)
    place.committer = place.new_committer()
    assert place.empty() == 0
    place.queue.hidden = 10
    place.inner.clock.sleep(29)
    for each in place.queue.messages:
        each.hidden_until = 0
    assert place.empty() == 1
    assert (listed(place), place.queue.messages) == (["a"], [])
    assert isinstance(store.settle(base, pending), Loaded)


def test_two_committers_that_have_the_same_messages_commit_them_once(place: QueuedPlace) -> None:
    base = place.inner.born()
    for name in "abc":
        sent(place, store_of(place), base, name)
    messages = place.queue.receive(10, wait=0)
    other = place.new_committer()
    assert place.committer.handle(messages[:1])
    assert other.handle(messages[:2])
    assert place.committer.handle(messages)
    assert other.handle(messages)
    assert listed(place) == ["a", "b", "c"]


def test_a_committer_of_a_lambda_that_keeps_an_old_state_catches_up(place: QueuedPlace) -> None:
    base = place.inner.born()
    sent(place, store_of(place), base, "a")
    place.empty()
    for name in "bcd":
        base = place.plain().load() or base
        assert isinstance(place.plain().commit(base, place.inner.transaction(add(new_file(name)))), Loaded)
    sent(place, store_of(place), base, "e")
    place.empty()
    assert listed(place) == list("abcde")


def test_streams_of_one_batch_are_committed_each_for_itself(place: QueuedPlace) -> None:
    for stream in ("s", "other"):
        base = place.inner.born(stream)
        store = place.inner.store(stream)
        store.commit(base, place.inner.transaction(add(new_file("a"))))
    place.empty()
    assert (place.inner.listed("s"), place.inner.listed("other")) == (["a"], ["a"])


def test_a_stream_that_cannot_be_read_keeps_its_messages_and_no_other_s(
    place: QueuedPlace, caplog: pytest.LogCaptureFixture
) -> None:
    for stream in ("s", "other"):
        base = place.inner.born(stream)
        place.inner.store(stream).commit(base, place.inner.transaction(add(new_file("a"))))
    key = layout.manifest_key("t", "s")
    stored = place.inner.storage.get(key)
    assert stored is not None
    place.inner.storage.put(key, b"{}")
    place.empty()
    assert len(place.queue.messages) == 1
    assert place.inner.listed("other") == ["a"]
    place.inner.storage.put(key, stored.body)
    for each in place.queue.messages:
        each.hidden_until = 0
    place.empty()
    assert place.inner.listed("s") == ["a"]


def test_only_so_many_streams_are_kept_at_hand(place: QueuedPlace) -> None:
    place.committer.streams = 2
    for number in range(5):
        base = place.inner.born(f"s{number}")
        place.inner.store(f"s{number}").commit(base, place.inner.transaction(add(new_file("a"))))
    place.empty()
    assert len(place.committer._idle) == 2
    assert all(place.inner.listed(f"s{number}") == ["a"] for number in range(5))


def test_what_is_due_is_published_behind_the_commits(request: pytest.FixtureRequest) -> None:
    place = queued_place("log", request)
    place.works = False
    store, base = store_of(place), place.inner.born()
    for name in ("a", "b"):
        pending = sent(place, store, base, name)
        place.empty()
        assert isinstance(store.settle(base, pending), Loaded)
        place.inner.clock.sleep(500)
    place.inner.clock.sleep(3600)
    place.committer.publish()
    published = place.inner.storage.get(layout.manifest_key("t", "s"))
    assert published is not None
    assert b'"id":"b"' in published.body


def worker(place: QueuedPlace) -> Worker:
    return Worker(place.queue, place.committer, place.inner.clock, wait=0)


def test_a_worker_deletes_a_message_only_when_it_is_committed(
    place: QueuedPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(place, store_of(place), place.inner.born(), "a")
    seen: list[list[str]] = []
    delete = place.queue.delete

    def watched(messages: list[Received]) -> Any:
        seen.append(listed(place))
        return delete(messages)

    monkeypatch.setattr(place.queue, "delete", watched)
    assert worker(place).once() == 1
    assert seen == [["a"]]


def test_a_worker_waits_for_a_queue_that_is_down_and_says_so(
    place: QueuedPlace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = worker(place)
    rests: list[float] = []
    monkeypatch.setattr(working.ended, "wait", lambda seconds: rests.append(seconds))
    place.queue.down.add("receive")
    for _ in range(6):
        assert working.once() == 0
    assert rests == sorted(rests)
    assert 0 < rests[0] < rests[-1] < 30
    assert "gives no messages" in caplog.text
    place.queue.down.clear()
    sent(place, store_of(place), place.inner.born(), "a")
    assert working.once() == 1
    assert listed(place) == ["a"]


def test_a_deletion_that_fails_is_harmless(place: QueuedPlace, caplog: pytest.LogCaptureFixture) -> None:
    sent(place, store_of(place), place.inner.born(), "a")
    place.queue.down.add("delete")
    assert worker(place).once() == 1
    assert "come again" in caplog.text
    place.queue.down.clear()
    for each in place.queue.messages:
        each.hidden_until = 0
    assert worker(place).once() == 1
    assert (listed(place), place.queue.messages) == (["a"], [])


def test_a_worker_rests_while_storage_is_down_and_keeps_the_messages(
    place: QueuedPlace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sent(place, store_of(place), place.inner.born(), "a")
    working = worker(place)
    rests: list[float] = []
    monkeypatch.setattr(working.ended, "wait", lambda seconds: rests.append(seconds))

    def down(*_: object) -> None:
        raise StorageUnavailableError("storage is down", hint="wait")

    with monkeypatch.context() as broken:
        broken.setattr(place.committer, "open_store", down)
        assert working.once() == 1
    assert len(place.queue.messages) == 1
    assert len(rests) == 1
    assert "messages m0 of t/s must wait" in caplog.text
    for each in place.queue.messages:
        each.hidden_until = 0
    assert working.once() == 1
    assert listed(place) == ["a"]


def test_a_worker_ends_when_it_is_told_and_when_nothing_comes(place: QueuedPlace) -> None:
    working = worker(place)
    working.ended.set()
    working.run()
    idle = worker(place)
    place.queue.receive = lambda most, *, wait: place.inner.clock.sleep(1) or []  # type: ignore[method-assign]
    idle.run(idle_exit=5)
    assert place.inner.clock.monotonic() >= 5


def test_a_message_of_a_writer_comes_back_as_it_was(place: QueuedPlace) -> None:
    from singerlake.stores.queued.message import CommitMessage, read_message

    store, base = store_of(place), place.inner.born()
    sent(place, store, base, "a")
    (message,) = place.queue.messages
    read = read_message(message.body, place.inner.lake.lake_id())
    assert isinstance(read, CommitMessage)
    assert to_text(read) == message.body
    assert message.body.isascii()
