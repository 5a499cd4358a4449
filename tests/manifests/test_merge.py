"""Nobody waits to write, and everybody comes to the same order."""

from __future__ import annotations

import json
import logging

import msgspec
import pytest

from singerlake.errors import CorruptObject, SingerlakeError, StorageUnavailable, UnknownOutcome
from singerlake.format import fold
from singerlake.format.fold import Conflict
from singerlake.format.merge_key import milliseconds
from singerlake.format.model import Manifest, Position, Run
from singerlake.format.transactions import (
    AddFiles,
    Close,
    Rebase,
    RecordRun,
    ReplaceFiles,
    RetireFiles,
    Transaction,
)
from singerlake.manifests.merge_settings import MergeSettings
from singerlake.manifests.port import Loaded, Pending
from singerlake.storage.memory import MemoryStorage, Step
from tests.fakes import START
from tests.format.test_fold import add, new_file
from tests.manifests.merging import LAG, LOG, Crew, Mixed, Seconds


@pytest.fixture(params=[MemoryStorage, Seconds, Mixed])
def crew(request: pytest.FixtureRequest) -> Crew:
    crew = Crew(request.param)
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


@pytest.mark.parametrize("skew", [0.4, -0.4, 1.9, -1.9, 4.9, -4.9, 3600, -3600, 86400 * 400, -86400 * 400])
def test_a_wrong_clock_is_corrected_both_ways_by_the_first_commit(crew: Crew, skew: float) -> None:
    crew.wait(0.25)
    writer, right = crew.member(skew), crew.member()
    first = writer.commit("a")
    crew.wait(1)
    made = calls(crew)
    writer.commit("b")
    assert [call for call in made if call.startswith("put manifest")] == ["put manifest.json"]
    crew.storage.hook = lambda step: None
    assert abs(writer.key(writer.held[1]).time - milliseconds(crew.clock.now())) <= 1000
    crew.wait(2)
    right.settled(right.commit("c"))
    assert crew.listed() == ["a", "b", "c"]
    assert isinstance(writer.settle(first), Loaded)


def test_an_entry_that_does_not_count_never_does_and_its_writer_writes_another(crew: Crew) -> None:
    writer = crew.member(3600)
    pending = writer.commit("a")
    wrong, right = sorted(crew.entries(), key=lambda key: key.count)
    assert wrong.time - right.time >= 3590_000
    assert writer.key(pending) == right
    writer.settled(pending)
    crew.wait(4000)
    other = crew.member()
    other.settled(other.commit("b"))
    assert crew.listed() == ["a", "b"]
    assert [len(record.entries) for record in crew.records()] == [1, 1]


@pytest.mark.parametrize("stale", [5.0, 6.0])
def test_two_writers_almost_stale_in_opposite_ways_both_survive(stale: float) -> None:
    crew = Crew(settings=MergeSettings(stale=stale))
    crew.born()
    ahead, behind = crew.member(4.9), crew.member(-4.9)
    first = ahead.commit("ahead")
    crew.wait(0.05)
    second = behind.commit("behind")
    assert behind.key(second).time < ahead.key(first).time - 9_500
    for writer, pending in ((ahead, first), (behind, second)):
        manifest = writer.settled(pending)
        assert {file.id for file in manifest.files} == {"ahead", "behind"}
    assert crew.listed() == ["behind", "ahead"]


@pytest.mark.parametrize("back", [0.5, 5, 3600])
def test_a_wall_clock_that_is_set_while_it_runs_changes_nothing(crew: Crew, back: float) -> None:
    writer = crew.member()
    for number in range(6):
        writer.commit(f"f{number}")
        writer.clock.skew += back * (-1, 1, -2)[number % 3]
        crew.wait(0.3)
    assert len(crew.entries()) == 6
    writer.settled(writer.held[-1])
    assert crew.listed() == [f"f{number}" for number in range(6)]


def test_a_machine_that_slept_corrects_its_clock_again(crew: Crew) -> None:
    writer = crew.member()
    writer.commit("a")
    crew.wait(500)
    writer.clock.begins -= 500  # its monotonic clock stood still
    writer.commit("b")
    assert len(crew.entries()) == 3
    writer.settled(writer.held[-1])
    assert crew.listed() == ["a", "b"]


def test_a_storage_whose_clock_makes_no_sense_is_an_error_with_nothing_committed() -> None:
    crew = Crew()
    crew.born()
    writer = crew.member()
    writer.known()

    def jumps(step: Step) -> None:
        if step.operation == "put" and not step.done:
            crew.clock.seconds += 1000
            writer.clock.begins -= 1000

    crew.storage.hook = jumps
    with pytest.raises(StorageUnavailable, match="none counts"):
        writer.commit("a")
    crew.storage.hook = lambda step: None
    crew.wait()
    other = crew.member()
    other.settled(other.commit("b"))
    assert crew.listed() == ["b"]


def test_a_storage_that_goes_back_in_time_may_not_put_a_writer_s_commits_out_of_order() -> None:
    crew = Crew()
    crew.born()
    crew.wait(1000)
    writer = crew.member()
    pending = writer.commit("a")
    crew.wait(-500)
    writer.clock.begins += 500.25
    with pytest.raises(StorageUnavailable, match="went back"):
        writer.commit("b")
    crew.wait(500 + LAG)
    writer.clock.begins -= 500
    writer.settled(pending)
    crew.wait(-500)
    writer.clock.begins += 500
    writer.settled(writer.commit("b"))
    assert crew.listed() == ["a", "b"]


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
    writer.settled(writer.held[-1])
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


def test_what_is_settled_reaches_no_less_far_by_a_writer_that_knows_the_time_less_well() -> None:
    crew = Crew(Seconds)
    crew.born()
    exact, vague = crew.member(), crew.member()
    for number in range(30):
        exact.commit(f"e{number}")
        crew.wait(0.033)
    pending = vague.commit("straggler")
    stored = crew.storage._objects.pop(pending.key)
    crew.wait(LAG + 0.5)
    exact.settled(exact.held[-1])
    crew.storage._objects[pending.key] = stored
    crew.wait(0.6)
    vague.settled(pending)
    untils = [record.until for record in crew.records()]
    assert untils == sorted(untils)
    assert crew.listed()[-1] == "straggler"


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


def test_runs_and_their_counts_are_kept(crew: Crew) -> None:
    writer = crew.member()
    run = Run(id="r", writer="w", started="2026", updated="2026")
    change = AddFiles(files=(new_file("a", 3),), schemas=add().schemas, run=run)
    writer.commit(change)
    writer.settled(writer.commit(RecordRun(run=Run(id="r", writer="w", started="2026", status="completed"))))
    assert [(each.id, each.status, each.messages) for each in crew.state().runs] == [("r", "completed", 3)]


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
    assert outcome == Conflict("one file is named twice")
    assert crew.entries() == []


def test_another_file_under_a_listed_id_is_refused_at_once(crew: Crew) -> None:
    writer = crew.member()
    writer.settled(writer.commit("a"))
    other = msgspec.structs.replace(new_file("a"), sha256="1" * 64)
    outcome = writer.store.commit(writer.known(), Transaction(id="t", at="", change=add(other)))
    assert isinstance(outcome, Conflict)
    assert "other content" in outcome.reason


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
    assert grown._shared is many.files._shared


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
        raise UnknownOutcome("no answer", key=key)

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
    with pytest.raises(UnknownOutcome):
        writer.commit("a")


@pytest.mark.parametrize("error", [StorageUnavailable, UnknownOutcome])
def test_an_entry_that_was_written_and_could_not_be_looked_at_is_an_unknown_outcome(
    crew: Crew, error: type[SingerlakeError]
) -> None:
    writer = crew.member()
    writer.known()
    fail_once(crew, "head", done=False, error=error)
    with pytest.raises(UnknownOutcome):
        writer.commit("a")
    again = writer.commit("a")
    manifest = writer.settled(again)
    assert [file.id for file in manifest.files] == ["a"]
    assert len(crew.entries()) == 2


def test_a_commit_that_failed_outright_is_as_if_it_had_not_been(crew: Crew) -> None:
    writer = crew.member()
    writer.known()
    fail_once(crew, "put", done=False, error=StorageUnavailable)
    with pytest.raises(StorageUnavailable):
        writer.commit("a")
    assert crew.entries() == []


def test_a_touch_that_fails_is_nobody_s_failure(crew: Crew) -> None:
    writer = crew.member()
    writer.known()
    fail_once(crew, "put", done=False, error=StorageUnavailable, name="last_change")
    pending = writer.commit("a")
    assert crew.storage.head(f"{LOG}last_change") is None
    writer.settled(pending)
    assert crew.listed() == ["a"]


def fail_once(
    crew: Crew,
    operation: str,
    *,
    done: bool,
    error: type[SingerlakeError] = UnknownOutcome,
    name: str = "manifest.json@",
) -> None:
    """The next such request for such an object fails, before its effect or after it."""

    def hook(step: Step) -> None:
        if (step.operation, step.done) == (operation, done) and step.key.startswith(LOG + name):
            crew.storage.hook = lambda _: None
            raise error("no answer", key=step.key)

    crew.storage.hook = hook


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
        with pytest.raises(UnknownOutcome, match="gone"):
            writer.settled(Pending(f"id {key}", key))


def test_an_entry_that_somebody_removed_is_an_error_and_its_file_is_not_listed(crew: Crew) -> None:
    writer = crew.member()
    pending = writer.commit("a")
    crew.storage.delete(pending.key)
    crew.wait()
    with pytest.raises(UnknownOutcome, match="gone"):
        writer.settle(pending)
    writer.settled(writer.commit("b"))
    assert crew.listed() == ["b"]


def test_an_entry_that_is_none_stops_everybody_and_stays_as_it_is(crew: Crew) -> None:
    writer = crew.member()
    pending = writer.commit("a")
    body = b'{"id":"x","at":"","patch":{"from":"the future"}}'
    crew.storage.put(pending.key, body)
    crew.wait()
    with pytest.raises(CorruptObject, match=r"manifest\.json@"):
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
    with pytest.raises(CorruptObject, match="settle record 1"):
        crew.member().store.load()


def test_a_gap_in_the_records_is_an_error(crew: Crew) -> None:
    writer = crew.member()
    for name in "abc":
        writer.settled(writer.commit(name))
    crew.storage.delete(f"{LOG}00000000000000000002.json")
    with pytest.raises(CorruptObject):
        crew.member().store.load()


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


def test_a_poller_is_told_of_commits_and_at_intervals_of_what_nobody_told() -> None:
    crew = Crew()
    crew.born()
    poller, writer = crew.member(), crew.member()
    assert poller.store.changed()
    assert not poller.store.changed()
    writer.commit("a")
    assert poller.store.changed()
    assert not poller.store.changed()
    crew.wait(LAG)
    assert poller.store.changed(), "an interval has passed"
    fail_once(crew, "put", done=False, name="last_change")
    writer.settled(writer.held[0])
    assert crew.listed() == ["a"]
    crew.storage.hook = lambda step: None
    assert not poller.store.changed(), "the record's writer crashed before it told anybody"
    crew.wait(LAG)
    assert poller.store.changed()
    caught = poller.store.catch_up(poller.known())
    assert caught is not None
    assert [file.id for file in caught.manifest.files] == ["a"]


def test_a_record_is_told_of_at_once_however_lately_an_entry_was() -> None:
    crew = Crew()
    crew.born()
    poller, writer = crew.member(), crew.member()
    pending = writer.commit("a")
    crew.wait()
    writer.commit("b")
    poller.store.changed()
    assert isinstance(writer.settle(pending), Loaded)
    assert poller.store.changed()


def test_every_touch_makes_another_body() -> None:
    crew = Crew()
    crew.born()
    writer, bodies = crew.member(), set()
    for number in range(5):
        writer.commit(f"f{number}")
        stored = crew.storage.get(f"{LOG}last_change")
        assert stored is not None
        bodies.add(stored.body)
        crew.wait(2)
    assert len(bodies) == 5


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


def test_a_log_whose_last_record_was_lost_still_settles_what_writers_vouch_for(crew: Crew) -> None:
    writer = crew.member()
    writer.settled(writer.commit("a"))
    writer.store.publish(writer.known(), run_ended=True)
    crew.storage.delete(f"{LOG}00000000000000000001.json")
    late = crew.member()
    late.settled(late.commit("b"))
    assert crew.listed() == ["a", "b"]
