"""A storage that ignores conditions: time alone keeps settle records apart, and that is said."""

from __future__ import annotations

import logging

import pytest

from singerlake.format.state import fold
from singerlake.format.state.model import Manifest
from singerlake.stores.merge.settings import MergeSettings
from singerlake.stores.port import Loaded
from tests.storage.memory import Step
from tests.stores.merge.merging import LAG, LOG, Crew


@pytest.fixture
def crew() -> Crew:
    crew = Crew(ignore_conditions=True)
    crew.born()
    return crew


def first(name: str) -> Manifest:
    return fold.empty(tap="t", stream="s", store="merge", lineage=name, created="2026", transaction_id=name)


def test_it_is_said_once_and_several_writers_may_run(crew: Crew, caplog: pytest.LogCaptureFixture) -> None:
    store = crew.member().store
    with caplog.at_level(logging.WARNING):
        assert not store.exclusive
        assert not store.exclusive
    assert caplog.text.count("ignores conditional writes") == 1


def test_with_conditions_there_is_nothing_to_say(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert not Crew().member().store.exclusive
    assert caplog.text == ""


def test_a_birth_waits_until_nobody_can_overwrite_it_any_more() -> None:
    crew = Crew(ignore_conditions=True)
    before = crew.clock.seconds
    crew.born()
    assert crew.clock.seconds - before >= LAG


@pytest.mark.parametrize("at", range(8))
def test_of_two_births_one_stays_whenever_the_other_comes(at: int) -> None:
    """The other's birth begins before each of the first's requests, and is as quick as it must be."""
    crew = Crew(ignore_conditions=True)
    born: list[Loaded] = []
    count = iter(range(1000))

    def hook(step: Step) -> None:
        if not step.done and next(count) == at:
            crew.storage.hook = lambda _: None
            stopped = crew.clock.seconds
            born.append(crew.member().store.create(first("y")))
            if at > 3:
                return
            # The first one goes on within the time that it has.
            crew.clock.seconds = stopped + 1

    crew.storage.hook = hook
    born.append(crew.member().store.create(first("x")))
    crew.storage.hook = lambda _: None
    crew.wait()
    state = crew.state()
    assert born[-1].manifest == state
    assert crew.member().store.create(first("z")).manifest == state


def test_a_record_is_believed_when_nobody_can_overwrite_it_any_more(crew: Crew) -> None:
    writer, reader = crew.member(), crew.member()
    reader.known()
    pending = writer.commit("a")
    crew.wait()
    assert writer.settle(pending) is None
    assert crew.storage.head(f"{LOG}00000000000000000001.json") is not None
    assert crew.listed() == []
    crew.wait()
    assert crew.listed() == ["a"]
    outcome = writer.settle(pending)
    assert isinstance(outcome, Loaded)
    assert outcome.manifest == crew.state()


def test_a_reader_need_not_find_out_what_the_storage_honours(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    """To find out takes writing, which it may not be allowed to."""
    writer = crew.member()
    pending = writer.commit("a")
    crew.wait()
    assert writer.settle(pending) is None
    reader = crew.member().store
    monkeypatch.setattr(crew.storage, "capabilities", None)

    def listed() -> list[str]:
        loaded = reader.load()
        assert loaded is not None
        assert reader.trim(keep=0, dry_run=True).transactions >= 0
        return [file.id for file in loaded.manifest.files]

    assert listed() == []
    crew.wait()
    assert listed() == ["a"]


def test_a_settler_waits_for_the_record_that_is_there(crew: Crew) -> None:
    ada, bob = crew.member(), crew.member()
    one = ada.commit("a")
    crew.wait(0.01)
    other = bob.commit("b")
    crew.wait()
    assert ada.settle(one) is None
    made: list[str] = []
    crew.storage.hook = lambda step: made.append(step.operation)
    assert bob.settle(other) is None
    assert set(made) == {"get"}
    crew.storage.hook = lambda _: None
    crew.wait()
    assert bob.settled(other) == ada.settled(one) == crew.state()
    assert crew.listed() == ["a", "b"]


def test_of_two_records_written_at_once_the_last_is_the_one_for_all(crew: Crew) -> None:
    ada, bob = crew.member(), crew.member()
    one, other = ada.commit("a"), bob.commit("b")
    crew.wait()

    def hook(step: Step) -> None:
        if step.operation == "put" and not step.done and "/0000" in step.key:
            crew.storage.hook = lambda _: None
            assert bob.settle(other) is None
            crew.wait(2)

    crew.storage.hook = hook
    assert ada.settle(one) is None
    crew.wait()
    assert ada.settled(one) == bob.settled(other) == crew.state()
    assert sorted(crew.listed()) == ["a", "b"]
    assert crew.state().transaction.number == 1


def test_who_took_too_long_between_the_look_and_the_write_does_not_write(crew: Crew) -> None:
    writer = crew.member()
    pending = writer.commit("a")
    crew.wait()

    def hook(step: Step) -> None:
        if step.operation == "get" and step.done and step.key.endswith("1.json"):
            crew.wait(6)

    crew.storage.hook = hook
    assert writer.settle(pending) is None
    assert crew.storage.head(f"{LOG}00000000000000000001.json") is None
    crew.storage.hook = lambda _: None
    writer.settled(pending)
    assert crew.listed() == ["a"]


def test_a_write_that_may_have_replaced_what_others_read_is_said(crew: Crew, caplog: pytest.LogCaptureFixture) -> None:
    writer = crew.member()
    pending = writer.commit("a")
    crew.wait()

    def hook(step: Step) -> None:
        if step.operation == "put" and not step.done and "/0000" in step.key:
            crew.wait(6)

    crew.storage.hook = hook
    with caplog.at_level(logging.WARNING):
        writer.settle(pending)
    assert "may have replaced a record" in caplog.text
    assert "00000000000000000001.json" in caplog.text


def test_writers_with_wrong_clocks_agree_all_the_same() -> None:
    crew = Crew(ignore_conditions=True, settings=MergeSettings(stale=5))
    crew.born()
    writers = [crew.member(skew) for skew in (4.9, -4.9, 0, 3600)]
    for number in range(3):
        for place, writer in enumerate(writers):
            writer.commit(f"w{place}n{number}")
            crew.wait(0.3)
    states = [writer.settled(writer.held[-1]) for writer in writers]
    crew.wait(60)
    final = crew.state()
    assert len(final.files) == 12
    for state in states:
        assert list(state.files) == list(final.files[: len(state.files)])
    for place in range(4):
        assert [name for name in crew.listed() if name[1] == str(place)] == [f"w{place}n{n}" for n in range(3)]


def test_a_stream_is_trimmed_as_elsewhere(crew: Crew) -> None:
    writer = crew.member()
    for number in range(4):
        writer.settled(writer.commit(f"f{number}"))
        crew.wait(60)
    crew.member().store.trim(keep=1, dry_run=False)
    assert len(crew.entries()) == 1
    assert crew.listed() == ["f0", "f1", "f2", "f3"]
    writer.settled(writer.commit("next"))
    crew.wait(60)
    assert crew.listed()[-1] == "next"
