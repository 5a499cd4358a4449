"""What comes late, what excludes another, and what a stream that was closed or made anew makes of it."""

from __future__ import annotations

import logging

import msgspec
import pytest

from singerlake.format.state import fold
from singerlake.format.state.additions import Conflict
from singerlake.format.state.model import Position
from singerlake.format.state.transactions import (
    AddFiles,
    Close,
    Rebase,
    ReplaceFiles,
    RetireFiles,
    Transaction,
)
from singerlake.stores.port import Loaded
from tests.format.state.test_fold import add, new_file
from tests.stores.merge.merging import STORAGES, Crew, born


@pytest.fixture(params=STORAGES)
def crew(request: pytest.FixtureRequest) -> Crew:
    return born(request.param)


def test_a_straggler_gets_a_place_in_a_later_record_and_moves_nothing(crew: Crew) -> None:
    slow, quick = crew.member(), crew.member()
    for member in (slow, quick):
        member.known()
    pending = slow.commit("slow")
    stored = crew.storage._objects.pop(pending.key)  # in flight: dated, and not visible yet
    quick.settled(quick.commit("quick"))
    before = crew.state()
    crew.storage._objects[pending.key] = stored
    third = crew.member()
    third.settled(third.commit("third"))
    assert crew.listed() == ["quick", "slow", "third"]
    assert crew.state().files[0] == before.files[0]
    assert isinstance(slow.settle(pending), Loaded)


def test_a_straggler_far_behind_is_settled_by_its_own_writer(crew: Crew) -> None:
    slow, quick = crew.member(), crew.member()
    pending = slow.commit("slow")
    stored = crew.storage._objects.pop(pending.key)
    for number in range(5):
        quick.settled(quick.commit(f"q{number}"))
        crew.wait(100)
    crew.storage._objects[pending.key] = stored
    slow.settled(pending)
    assert crew.listed() == [*(f"q{number}" for number in range(5)), "slow"]


def test_a_straggler_far_behind_whose_writer_is_dead_is_settled_by_the_next_trim(crew: Crew) -> None:
    pending = crew.member().commit("slow")
    stored = crew.storage._objects.pop(pending.key)
    quick = crew.member()
    for number in range(5):
        quick.settled(quick.commit(f"q{number}"))
        crew.wait(100)
    crew.storage._objects[pending.key] = stored
    quick.settled(quick.commit("q5"))
    assert "slow" not in crew.listed()
    crew.member().store.trim(keep=2, dry_run=False)
    assert crew.listed() == [*(f"q{number}" for number in range(6)), "slow"]


def test_of_two_overlapping_replacements_the_later_is_void(crew: Crew) -> None:
    ada, bob = crew.member(), crew.member()
    for name in "abc":
        ada.commit(name)
        crew.wait(0.001)
    ada.settled(ada.held[-1])
    crew.wait(0.01)
    one = ada.commit(ReplaceFiles(old=("a", "b"), new=(new_file("ab", 6),)))
    crew.wait(0.01)
    other = bob.commit(ReplaceFiles(old=("b", "c"), new=(new_file("bc", 6),)))
    crew.wait()
    lost = bob.settle(other)
    assert isinstance(lost, Conflict)
    assert "not listed" in lost.reason
    assert bob.settle(other) == lost
    ada.settled(one)
    assert crew.listed() == ["ab", "c"]
    assert len(list(crew.records())[-1].entries) == 2


def test_whatever_a_closed_stream_is_told_later_is_void(crew: Crew) -> None:
    ada, bob = crew.member(), crew.member()
    bob.known()
    before = ada.commit("before")
    crew.wait(0.01)
    closing = ada.commit(Close(successor="log"))
    crew.wait(0.01)
    after = bob.commit("after")
    crew.wait()
    outcome = bob.settle(after)
    assert isinstance(outcome, Conflict)
    assert outcome.successor == "log"
    assert ada.settled(before).closed == "log"
    assert ada.settled(closing) == crew.state()
    assert crew.listed() == ["before"]
    fresh = crew.member()
    refused = fresh.store.commit(fresh.known(), Transaction(id="t", at="", change=add(new_file("x"))))
    assert isinstance(refused, Conflict)
    assert refused.successor == "log"


def test_a_receipt_of_a_stream_that_was_closed_before_it_was_settled_is_void_at_once(crew: Crew) -> None:
    ada, bob = crew.member(), crew.member()
    bob.known()
    ada.settled(ada.commit(Close(successor="log")))
    pending = bob.commit("late")
    bob.base = bob.store.catch_up(bob.known())
    outcome = bob.settle(pending)
    assert isinstance(outcome, Conflict)
    assert outcome.successor == "log"
    assert crew.state().transaction.number == 1


def test_of_a_closed_stream_there_are_no_more_records_whoever_still_waits(crew: Crew) -> None:
    ada, bob = crew.member(), crew.member()
    bob.known()
    closing = ada.commit(Close(successor="log"))
    crew.wait(2)
    late = bob.commit("late")
    ada.settled(closing)
    crew.wait()
    outcome = bob.settle(late)
    assert isinstance(outcome, Conflict)
    assert outcome.successor == "log"
    bob.store.publish(bob.known(), run_ended=True)
    crew.member().store.trim(keep=0, dry_run=False)
    assert [record.number for record in crew.records()] == [1]


def test_a_new_whole_state_never_takes_the_place_of_one_that_it_was_not_made_from(crew: Crew) -> None:
    keeper, writer = crew.member(), crew.member()
    fresh = fold.empty(tap="t", stream="s", store="merge", lineage="l2", created="2026", transaction_id="x")
    keeper.known()
    writer.commit("a")
    crew.wait(0.01)
    rebase = keeper.commit(Rebase(manifest=fresh))
    crew.wait()
    outcome = keeper.settle(rebase)
    assert isinstance(outcome, Conflict)
    assert crew.listed() == ["a"]
    keeper.base = keeper.store.catch_up(keeper.known())
    manifest = keeper.settled(keeper.commit(Rebase(manifest=fresh)))
    assert (manifest.lineage, list(manifest.files), manifest.transaction.number) == ("l2", [], 2)


def test_a_whole_state_with_nulls_comes_through(crew: Crew) -> None:
    keeper = crew.member()
    keeper.settled(keeper.commit("a"))
    keeper.settled(keeper.commit(RetireFiles(files=(("o", "v/o"),))))
    whole = keeper.known().manifest
    assert keeper.settled(keeper.commit(Rebase(manifest=whole))).retired == whole.retired


@pytest.mark.parametrize(
    "change",
    [
        add(new_file("a"), new_file("a")),
        ReplaceFiles(old=("a", "a"), new=(new_file("b", 6),)),
        ReplaceFiles(old=("a",), new=(new_file("a"),)),
        RetireFiles(files=(("a", "p"), ("a", "q"))),
    ],
)
def test_a_change_that_names_a_file_twice_is_refused(crew: Crew, change: AddFiles | ReplaceFiles | RetireFiles) -> None:
    writer = crew.member()
    outcome = writer.store.commit(writer.known(), Transaction(id="t", at="", change=change))
    assert isinstance(outcome, Conflict)
    assert crew.entries() == []


def test_another_file_under_a_listed_id_is_refused_at_once(crew: Crew) -> None:
    writer = crew.member()
    writer.settled(writer.commit("a"))
    other = msgspec.structs.replace(new_file("a"), sha256="1" * 64)
    outcome = writer.store.commit(writer.known(), Transaction(id="t", at="", change=add(other)))
    assert isinstance(outcome, Conflict)
    assert "other content" in outcome.reason


def test_entries_of_a_log_that_was_closed_are_none_of_the_log_that_begins_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    crew = Crew()
    crew.born()
    old = crew.member()
    old.commit("a")
    crew.wait(0.01)
    closed = old.settled(old.commit(Close(successor="log")))
    renewed = msgspec.structs.replace(
        closed, files=(), next_offset=0, versions={}, schemas={}, closed=None, transaction=Position(2, "again")
    )
    crew.storage.delete("raw/t/s/manifest.json")
    crew.member().store.create(renewed)
    new = crew.member()
    new.settled(new.commit("b"))
    assert crew.state().closed is None
    assert crew.listed() == ["b"]
    with caplog.at_level(logging.WARNING):
        new.store.trim(keep=0, dry_run=False)
    new.settled(new.commit("c"))
    assert crew.state().closed is None
    assert crew.listed() == ["b", "c"]
