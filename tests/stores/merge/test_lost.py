"""Answers that were lost, receipts, and records and entries that are gone or are none."""

from __future__ import annotations

import json

import pytest

from singerlake.errors import CorruptObjectError, SingerlakeError, StorageUnavailableError, UnknownOutcomeError
from singerlake.format.merge.entry_key import milliseconds
from singerlake.stores.port import Loaded, Pending
from tests.fakes import START
from tests.storage.memory import Step
from tests.stores.merge.merging import LAG, LOG, STORAGES, Crew, born, fail_once


@pytest.fixture(params=STORAGES)
def crew(request: pytest.FixtureRequest) -> Crew:
    return born(request.param)


def test_an_entry_whose_reply_was_lost_is_found_and_counts_once(crew: Crew) -> None:
    writer = crew.member()
    writer.known()
    fail_once(crew, "put", done=True)
    pending = writer.commit("a")
    assert len(crew.entries()) == 1
    assert [file.id for file in writer.settled(pending).files] == ["a"]


def test_an_entry_that_lands_a_second_time_later_still_counts(crew: Crew) -> None:
    """A try that was given up on its way may arrive when its second has long been answered."""
    writer = crew.member()
    writer.known()
    original, sent = crew.storage.put, []

    def put(key: str, body: bytes, **conditions: bool) -> object:
        sent.append((key, body, conditions))
        return original(key, body, **conditions)  # type: ignore[arg-type]

    crew.storage.put = put  # type: ignore[method-assign,assignment]
    pending = writer.commit("a")
    crew.wait(5)
    key, body, conditions = sent[0]
    original(key, body, **conditions)  # type: ignore[arg-type]
    writer.settled(pending)
    assert crew.listed() == ["a"]


def test_an_entry_that_lands_just_before_it_is_looked_for_makes_nobody_hasty() -> None:
    crew = Crew()
    crew.born()
    writer = crew.member()
    writer.known()
    original = crew.storage.put
    late: list[tuple[str, bytes]] = []

    def lost(key: str, body: bytes, **conditions: bool) -> object:
        if "manifest.json@" not in key:
            return original(key, body, **conditions)  # type: ignore[arg-type]
        late.append((key, body))
        raise UnknownOutcomeError("no answer", key=key)

    def hook(step: Step) -> None:
        if step.operation == "head" and not step.done and late:
            crew.clock.seconds += 1.5
            original(*late.pop())

    crew.storage.put = lost  # type: ignore[method-assign,assignment]
    crew.storage.hook = hook
    pending = writer.commit("a")
    assert writer.key(pending).time == milliseconds(START)
    crew.wait(LAG - 1.5 - 0.1)
    assert writer.settle(pending) is None
    crew.wait(1.6)
    assert isinstance(writer.settle(pending), Loaded)


def test_an_entry_that_may_still_land_is_an_unknown_outcome(crew: Crew) -> None:
    writer = crew.member()
    writer.known()
    fail_once(crew, "put", done=False)
    with pytest.raises(UnknownOutcomeError):
        writer.commit("a")


@pytest.mark.parametrize("error", [StorageUnavailableError, UnknownOutcomeError])
def test_an_entry_that_was_written_and_could_not_be_looked_at_is_an_unknown_outcome(
    crew: Crew, error: type[SingerlakeError]
) -> None:
    writer = crew.member()
    writer.known()
    fail_once(crew, "head", done=False, error=error)
    with pytest.raises(UnknownOutcomeError):
        writer.commit("a")
    again = writer.commit("a")
    manifest = writer.settled(again)
    assert [file.id for file in manifest.files] == ["a"]
    assert len(crew.entries()) == 2


def test_a_commit_that_failed_outright_is_as_if_it_had_not_been(crew: Crew) -> None:
    writer = crew.member()
    writer.known()
    fail_once(crew, "put", done=False, error=StorageUnavailableError)
    with pytest.raises(StorageUnavailableError):
        writer.commit("a")
    assert crew.entries() == []


def test_a_touch_that_fails_is_nobody_s_failure(crew: Crew) -> None:
    writer = crew.member()
    writer.known()
    fail_once(crew, "put", done=False, error=StorageUnavailableError, name="last_change")
    pending = writer.commit("a")
    assert crew.storage.head(f"{LOG}last_change") is None
    writer.settled(pending)
    assert crew.listed() == ["a"]


@pytest.mark.parametrize("done", [True, False])
def test_a_record_whose_reply_was_lost_is_written_once(crew: Crew, done: bool) -> None:
    writer = crew.member()
    pending = writer.commit("a")
    crew.wait()
    fail_once(crew, "put", done=done, name="0000")
    outcome = writer.settle(pending)
    assert isinstance(outcome, Loaded) is done
    writer.settled(pending)
    assert [len(record.entries) for record in crew.records()] == [1]
    assert crew.listed() == ["a"]


def test_a_receipt_can_be_handed_to_another_object(crew: Crew) -> None:
    ada, bob = crew.member(), crew.member()
    pending = ada.commit("a")
    assert bob.settle(pending) is None
    crew.wait()
    assert [file.id for file in bob.settled(pending).files] == ["a"]
    carl = crew.member()
    assert [file.id for file in carl.settled(pending).files] == ["a"]


def test_a_receipt_of_nothing_is_an_error_and_not_waited_for(crew: Crew) -> None:
    writer = crew.member()
    writer.commit("a")
    for key in (f"{LOG}elsewhere", writer.held[0].key[:-2] + "00"):
        with pytest.raises(UnknownOutcomeError, match="gone"):
            writer.settled(Pending(f"id {key}", key))


def test_an_entry_that_somebody_removed_is_an_error_and_its_file_is_not_listed(crew: Crew) -> None:
    writer = crew.member()
    pending = writer.commit("a")
    crew.storage.delete(pending.key)
    crew.wait()
    with pytest.raises(UnknownOutcomeError, match="gone"):
        writer.settle(pending)
    writer.settled(writer.commit("b"))
    assert crew.listed() == ["b"]


def test_an_entry_that_is_none_stops_everybody_and_stays_as_it_is(crew: Crew) -> None:
    writer = crew.member()
    pending = writer.commit("a")
    body = b'{"id":"x","at":"","patch":{"from":"the future"}}'
    crew.storage.put(pending.key, body)
    crew.wait()
    with pytest.raises(CorruptObjectError, match=r"manifest\.json@"):
        writer.settle(pending)
    stored = crew.storage.get(pending.key)
    assert stored is not None
    assert stored.body == body
    assert crew.listed() == []


@pytest.mark.parametrize(
    "change",
    [{"after": "another"}, {"number": 7}, {"id": None}, {"entries": [{"key": "k"}]}, {"until": "x"}],
    ids=lambda change: next(iter(change)),
)
def test_a_record_that_does_not_continue_the_log_is_refused(crew: Crew, change: dict[str, object]) -> None:
    writer = crew.member()
    writer.settled(writer.commit("a"))
    key = f"{LOG}00000000000000000001.json"
    stored = crew.storage.get(key)
    assert stored is not None
    crew.storage.put(key, json.dumps(json.loads(stored.body) | change).encode())
    with pytest.raises(CorruptObjectError, match="settle record 1"):
        crew.member().store.load()


def test_a_gap_in_the_records_is_an_error(crew: Crew) -> None:
    writer = crew.member()
    for name in "abc":
        writer.settled(writer.commit(name))
    crew.storage.delete(f"{LOG}00000000000000000002.json")
    with pytest.raises(CorruptObjectError):
        crew.member().store.load()


def test_a_log_whose_last_record_was_lost_still_settles_what_writers_vouch_for(crew: Crew) -> None:
    writer = crew.member()
    writer.settled(writer.commit("a"))
    writer.store.publish(writer.known(), run_ended=True)
    crew.storage.delete(f"{LOG}00000000000000000001.json")
    late = crew.member()
    late.settled(late.commit("b"))
    assert crew.listed() == ["a", "b"]
