"""Nobody waits to write, and everybody comes to the same order."""

from __future__ import annotations

import json

import pytest

from singerlake.format.state import fold
from singerlake.format.state.model import Manifest, Run
from singerlake.format.state.transactions import (
    AddFiles,
    RecordRun,
    Transaction,
)
from singerlake.stores.merge.settings import MergeSettings
from singerlake.stores.port import Loaded
from tests.format.state.test_fold import add, new_file
from tests.stores.merge.merging import LAG, LOG, STORAGES, Crew, born, calls


@pytest.fixture(params=STORAGES)
def crew(request: pytest.FixtureRequest) -> Crew:
    return born(request.param)


def test_a_commit_is_a_put_and_a_head_and_one_touch_in_a_while(crew: Crew) -> None:
    writer = crew.member()
    writer.known()
    made = calls(crew)
    writer.commit("a")
    assert made == ["put manifest.json", "head manifest.json", "put last_change"]
    del made[:]
    writer.commit("b")
    assert made == ["put manifest.json", "head manifest.json"]
    crew.wait(1.5)
    writer.commit("c")
    assert made.count("put last_change") == 1


def test_what_is_committed_is_seen_by_nobody_before_it_has_its_place(crew: Crew) -> None:
    writer = crew.member()
    pending = writer.commit("a")
    crew.wait(LAG - 1)
    assert writer.settle(pending) is None
    assert crew.listed() == []
    assert crew.state().transaction.number == 0


def test_asking_too_early_asks_storage_for_nothing(crew: Crew) -> None:
    writer = crew.member()
    pending = writer.commit("a")
    crew.wait(LAG - 2)
    made = calls(crew)
    assert writer.settle(pending) is None
    assert made == []


def test_a_transaction_gets_its_place_after_the_lag(crew: Crew) -> None:
    writer = crew.member()
    pending = writer.commit("a")
    crew.wait()
    outcome = writer.settle(pending)
    assert isinstance(outcome, Loaded)
    assert [file.id for file in outcome.manifest.files] == ["a"]
    assert outcome.manifest == crew.state()
    assert outcome.manifest.transaction.number == 1


def test_one_record_gives_the_transactions_of_all_writers_their_places_in_the_order_of_time(crew: Crew) -> None:
    ada, bob = crew.member(), crew.member()
    for number in range(6):
        (ada, bob)[number % 2].commit(f"f{number}")
        crew.wait(0.01)
    crew.wait()
    bob.settled(bob.held[-1])
    assert crew.listed() == [f"f{number}" for number in range(6)]
    assert crew.state().transaction.number == 1
    made = calls(crew)
    assert ada.settled(ada.held[0]) == crew.state()
    assert "list manifest.json" not in made


def test_a_record_holds_what_it_settles_in_a_form_that_can_be_read(crew: Crew) -> None:
    writer = crew.member()
    pending = writer.commit("a")
    writer.settled(pending)
    stored = crew.storage.get(f"{LOG}00000000000000000001.json")
    entry = crew.storage.get(pending.key)
    assert stored is not None
    assert entry is not None
    record = json.loads(stored.body)
    assert record["number"] == 1
    assert [held["key"] for held in record["entries"]] == [pending.key.removeprefix(LOG)]
    held = record["entries"][0]["transaction"]
    assert (held["id"], held["change"]["kind"]) == (pending.id, "add_files")
    assert set(json.loads(entry.body)["patch"]["files"]) == {"a"}
    assert json.loads(entry.body)["id"] == pending.id


def test_a_record_says_which_one_it_follows(crew: Crew) -> None:
    born = crew.state().transaction
    writer = crew.member()
    for name in "ab":
        writer.settled(writer.commit(name))
    one, other = crew.records()
    assert (one.number, one.after) == (1, born.id)
    assert (other.number, other.after) == (2, one.id)
    assert other.until > one.until
    assert crew.state().transaction.id == other.id


def test_a_state_goes_on_from_manifest_json(crew: Crew) -> None:
    writer = crew.member()
    for name in "abc":
        writer.settled(writer.commit(name))
        writer.store.publish(writer.known(), run_ended=True)
    late = crew.member()
    made = calls(crew)
    assert [file.id for file in late.known().manifest.files] == ["a", "b", "c"]
    assert "get 00000000000000000001.json" not in made
    crew.storage.hook = lambda step: None
    late.settled(late.commit("d"))
    assert crew.listed() == ["a", "b", "c", "d"]


def test_the_entries_of_a_writer_keep_their_order_in_one_millisecond(crew: Crew) -> None:
    writer = crew.member()
    names = [f"f{number}" for number in range(1025)]
    for name in names:
        writer.commit(name)
    keys = crew.entries()
    assert len(keys) == 1025
    assert len({key.session for key in keys}) == 2
    assert len({key.time for key in keys}) == 2
    writer.settled(writer.held[-1])
    assert crew.listed() == names


def test_two_writers_in_one_millisecond_lose_nothing_and_stand_as_everybody_sees_them(crew: Crew) -> None:
    writers = [crew.member() for _ in range(3)]
    for number in range(4):
        for place, writer in enumerate(writers):
            writer.commit(f"w{place}n{number}")
    assert len({key.time for key in crew.entries()}) == 1
    states = [writer.settled(writer.held[-1]) for writer in writers]
    assert states[0] == states[1] == states[2] == crew.state()
    for place in range(3):
        assert [name for name in crew.listed() if name[1] == str(place)] == [f"w{place}n{n}" for n in range(4)]


def test_no_record_for_long_is_no_matter(crew: Crew) -> None:
    for number in range(30):
        crew.member().commit(f"f{number}")
        crew.wait(1000)
    late = crew.member()
    pending = late.commit("last")
    late.settled(pending)
    assert crew.listed() == [*(f"f{number}" for number in range(30)), "last"]
    assert crew.state().transaction.number == 1


def test_many_entries_are_settled_in_records_of_a_bearable_size() -> None:
    crew = Crew(settings=MergeSettings(entries=4))
    crew.born()
    writer = crew.member()
    for number in range(11):
        writer.commit(f"f{number}")
        crew.wait(0.001)
    crew.wait()
    assert isinstance(writer.settle(writer.held[-1]), Loaded), "in one go, since all of it is due"
    assert crew.listed() == [f"f{number}" for number in range(11)]
    assert [len(record.entries) for record in crew.records()] == [4, 4, 3]


def test_more_entries_in_one_millisecond_than_a_record_should_hold_are_not_divided() -> None:
    crew = Crew(settings=MergeSettings(entries=2))
    crew.born()
    writer = crew.member()
    for number in range(5):
        writer.commit(f"f{number}")
    writer.settled(writer.held[-1])
    assert [len(record.entries) for record in crew.records()] == [5]


def test_the_same_record_lists_no_more_than_what_may_be_new(crew: Crew) -> None:
    writer = crew.member()
    for number in range(40):
        writer.settled(writer.commit(f"f{number}"))
        crew.wait(30)
    seen: list[str] = []
    original = crew.storage.list

    def listing(prefix: str, *, start_after: str = "") -> object:
        for entry in original(prefix, start_after=start_after):
            seen.append(entry.key)
            yield entry

    crew.storage.list = listing  # type: ignore[method-assign,assignment]
    pending = writer.commit("last")
    crew.wait()
    assert isinstance(writer.settle(pending), Loaded)
    assert 1 <= len(seen) <= 3


def test_runs_and_their_counts_are_kept(crew: Crew) -> None:
    writer = crew.member()
    run = Run(id="r", writer="w", started="2026", updated="2026")
    change = AddFiles(files=(new_file("a", 3),), schemas=add().schemas, run=run)
    writer.commit(change)
    writer.settled(writer.commit(RecordRun(run=Run(id="r", writer="w", started="2026", status="completed"))))
    assert [(each.id, each.status, each.messages) for each in crew.state().runs] == [("r", "completed", 3)]


def test_a_commit_copies_no_listing() -> None:
    crew = Crew()
    base = crew.born().manifest
    many = fold.apply(base, Transaction(id="t", at="", change=add(*(new_file(f"f{n}") for n in range(100)))))
    assert isinstance(many, Manifest)
    loaded = Loaded(many, "1")
    store = crew.member().store
    for number in range(3):
        store.commit(loaded, Transaction(id=crew.ids(), at="", change=add(new_file(f"new{number}"))))
    # Nothing was put at the end of the listing that all states after this one share.
    grown = many.files.extended([many.files[0]])
    assert grown.tail._shared is many.files.tail._shared


def test_publishing_at_a_run_s_end_settles_what_others_left_behind(crew: Crew) -> None:
    crew.member().commit("left behind")
    crew.wait(60)
    reader = crew.member()
    reader.store.publish(reader.known())
    assert crew.listed() == []
    reader.store.publish(reader.known(), run_ended=True)
    assert crew.listed() == ["left behind"]
    stored = crew.storage.get("raw/t/s/manifest.json")
    assert stored is not None
    assert b"left behind" in stored.body
