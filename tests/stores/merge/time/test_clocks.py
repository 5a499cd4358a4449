"""Clocks that are wrong, step, or stand still: a writer's order holds, and nothing that was stored is lost to them."""

from __future__ import annotations

import pytest

from singerlake.errors import StorageUnavailableError
from singerlake.format.merge.entry_key import milliseconds
from singerlake.stores.merge.settings import MergeSettings
from singerlake.stores.port import Loaded
from tests.storage.memory import Step
from tests.stores.merge.merging import LAG, STORAGES, Crew, Seconds, born, calls


@pytest.fixture(params=STORAGES)
def crew(request: pytest.FixtureRequest) -> Crew:
    return born(request.param)


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
    with pytest.raises(StorageUnavailableError, match="so none of them counts"):
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
    with pytest.raises(StorageUnavailableError, match="went back"):
        writer.commit("b")
    crew.wait(500 + LAG)
    writer.clock.begins -= 500
    writer.settled(pending)
    crew.wait(-500)
    writer.clock.begins += 500
    writer.settled(writer.commit("b"))
    assert crew.listed() == ["a", "b"]


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
