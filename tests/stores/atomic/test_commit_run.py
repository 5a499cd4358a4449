"""An atomic run in a log: all streams at once, whatever comes between."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest

from singerlake.errors import (
    StorageUnavailableError,
    TooManyConflictsError,
)
from singerlake.format import layout
from singerlake.format.decision import aborted
from singerlake.format.state.additions import Conflict
from singerlake.format.state.transactions import PrepareFiles, RecordRun
from singerlake.stores.atomic.commit_run import _LOG_ATTEMPTS, RunShare
from singerlake.stores.port import Loaded
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import Step
from tests.stores.atomic.runs import Runs, files
from tests.stores.stores import Place

STREAMS = ("a", "b", "c")


@pytest.fixture
def place() -> Place:
    return Place("log")


@pytest.fixture
def runs(place: Place) -> Runs:
    return Runs(place)


def prepare(part: RunShare, commit: str) -> PrepareFiles:
    return PrepareFiles(commit=commit, files=part.files, schemas=part.schemas, run=part.run)


def prepared(runs: Runs, stream: str, commit: str, *ids: str) -> Loaded:
    """A run that stopped behind this step."""
    part = runs.part(stream, *files(*ids), name="stopped")
    outcome = runs.place.commit(part.writer.loaded, prepare(part, commit), stream)
    assert isinstance(outcome, Loaded)
    return outcome


class Killed(BaseException):
    """Nothing behind this is done any more."""


def begun() -> tuple[Place, Runs, list[RunShare]]:
    """A run that is about to commit to two streams; one of them has a file."""
    place = Place("log")
    runs = Runs(place)
    runs.append("a", new_file("a0"))
    return place, runs, [runs.part(stream, *files(f"{stream}1")) for stream in ("a", "b")]


def at_step(place: Place, wanted: int, act: Callable[[], None]) -> Callable[[], bool]:
    """Have ``act`` called at a step of the storage and at those behind it; the answer tells whether it came to that."""
    steps = 0

    def hook(_: Step) -> None:
        nonlocal steps
        steps += 1
        if steps >= wanted:
            act()

    place.storage.hook = hook
    return lambda: steps >= wanted


def test_at_no_step_is_a_part_of_a_run_seen() -> None:
    seen = set()
    for step in itertools.count(1):
        place, runs, parts = begun()

        def look(place: Place = place, runs: Runs = runs) -> None:
            place.storage.hook = lambda _: None
            seen.add(json.dumps(runs.listed("a", "b")))

        came = at_step(place, step, look)
        runs.commit(parts)
        if not came():
            break
    assert seen == {'[["a0"], []]', '[["a0", "a1"], ["b1"]]'}


def test_a_run_that_is_killed_at_any_step_is_there_whole_or_not_at_all() -> None:
    seen = set()
    for step in itertools.count(1):
        place, runs, parts = begun()

        def kill() -> None:
            raise Killed

        came = at_step(place, step, kill)
        with suppress(Killed):
            runs.commit(parts)
        place.storage.hook = lambda _: None
        a, b = runs.listed("a", "b")
        seen.add(json.dumps([a, b]))
        assert came() or b
        began = place.clock.seconds
        runs.append("a", new_file("a2"))
        assert place.clock.seconds - began < 70
        runs.append("b", new_file("b2"))
        assert runs.listed("a", "b") == [[*a, "a2"], [*b, "b2"]]
        again = runs.run({stream: files(f"{stream}3") for stream in ("a", "b")}, name="next")
        assert [file.id for file in again["a"].files] == [*a, "a2", "a3"]
        if not came():
            break
    assert seen == {'[["a0"], []]', '[["a0", "a1"], ["b1"]]'}


def test_another_writer_settles_a_run_that_is_decided(place: Place, runs: Runs) -> None:
    parts = [runs.part(stream, *files(f"{stream}1")) for stream in ("a", "b")]

    def after_the_decision(step: Step) -> None:
        if step.operation == "put" and "/_commits/" in step.key and step.done:
            place.storage.hook = dead

    def dead(_: Step) -> None:
        raise Killed

    place.storage.hook = after_the_decision
    with pytest.raises(Killed):
        runs.commit(parts)
    place.storage.hook = lambda _: None
    log = layout.log_prefix("t", "a")
    assert place.storage.get(log + layout.log_name(2)) is None
    assert runs.listed("a", "b") == [["a1"], ["b1"]]
    began = place.clock.seconds
    appended = runs.append("a", new_file("a2"))
    assert place.clock.seconds - began < 1
    assert appended.manifest.transaction.number == 3
    settled = place.storage.get(log + layout.log_name(2))
    assert settled is not None
    assert b'"kind":"settle"' in settled.body


def test_publishing_and_trimming_write_the_settlement_first(place: Place, runs: Runs) -> None:
    for number, work in enumerate(("publish", "trim")):
        stream = f"s{number}"
        undecided = prepared(runs, stream, f"2026010{number + 1}T000000.000000Z-{'a' * 16}", f"{stream}1")
        commit = undecided.manifest.prepared
        assert commit is not msgspec.UNSET
        runs.decisions.decide(aborted(commit.commit, at=place.clock.now(), writer="x", run=None))
        store = place.store(stream)
        loaded = store.load()
        assert loaded is not None
        if work == "publish":
            store.publish(loaded, run_ended=True)
        else:
            store.trim(keep=0, dry_run=False)
        key = layout.log_prefix("t", stream) + layout.log_name(loaded.manifest.transaction.number)
        floor = place.storage.get(layout.log_prefix("t", stream) + layout.LOG_FLOOR)
        assert place.storage.get(key) is not None or floor is not None
        assert place.state(stream).transaction == loaded.manifest.transaction


def test_an_undecided_state_is_never_published_nor_trimmed(place: Place, runs: Runs) -> None:
    runs.append("a", new_file("a0"))
    undecided = prepared(runs, "a", f"20260101T000000.000000Z-{'a' * 16}", "a1")
    store = place.store("a")
    store.publish(undecided, run_ended=True)
    before = sorted(entry.key for entry in place.storage.list(""))
    assert store.trim(keep=0, dry_run=False).transactions == 0
    assert sorted(entry.key for entry in place.storage.list("")) == before
    stored = place.storage.get(layout.manifest_key("t", "a"))
    assert stored is not None
    assert b"prepared" not in stored.body
    assert runs.listed("a") == [["a0"]]


def test_a_writer_waits_for_a_run_that_is_undecided_and_then_decides_against_it(place: Place, runs: Runs) -> None:
    name = f"20260101T000000.000000Z-{'a' * 16}"
    prepared(runs, "a", name, "a1")
    began = place.clock.seconds
    runs.append("a", new_file("a2"))
    assert 60 <= place.clock.seconds - began < 70
    decision = runs.decisions.get(name)
    assert decision is not None
    assert not decision.committed
    assert runs.listed("a") == [["a2"]]
    assert name in runs.decisions.listed().shown


def test_a_run_that_was_decided_against_meanwhile_begins_again(place: Place, runs: Runs) -> None:
    parts = [runs.part(stream, *files(f"{stream}1")) for stream in ("a", "b")]
    against: list[str] = []

    def abort(step: Step) -> None:
        if step.operation == "put" and "/_commits/" in step.key and not step.done and not against:
            name = layout.commit_name_in(step.key.rpartition("/")[2])
            assert name is not None
            against.append(name)
            runs.decisions.decide(aborted(name, at=place.clock.now(), writer="x", run=None))

    place.storage.hook = abort
    runs.commit(parts)
    assert runs.listed("a", "b") == [["a1"], ["b1"]]
    first, second = runs.decisions.listed().names
    assert against == [first]
    decision = runs.decisions.get(second)
    assert decision is not None
    assert decision.committed


def test_an_outage_ends_the_run_and_nothing_of_it_is_seen(place: Place, runs: Runs) -> None:
    parts = [runs.part(stream, *files(f"{stream}1")) for stream in ("a", "b")]
    for part in parts:
        part.writer.open()

    def out(step: Step) -> None:
        if step.operation == "put" and step.key.startswith(layout.log_prefix("t", "b")) and not step.done:
            raise StorageUnavailableError("out")

    place.storage.hook = out
    with pytest.raises(StorageUnavailableError):
        runs.commit(parts)
    place.storage.hook = lambda _: None
    assert runs.listed("a", "b") == [[], []]
    began = place.clock.seconds
    runs.append("a", new_file("a2"))
    assert place.clock.seconds - began < 1


def test_a_run_gives_up_where_others_always_come_first(place: Place, runs: Runs) -> None:
    part = runs.part("a", *files("a1"))

    def against(step: Step) -> None:
        if step.operation == "put" and "/_commits/" in step.key and step.key.endswith(".json") and not step.done:
            name = layout.commit_name_in(step.key.rpartition("/")[2])
            assert name is not None
            place.storage.hook = lambda _: None
            runs.decisions.decide(aborted(name, at=place.clock.now(), writer="x", run=None))
            place.storage.hook = against

    place.storage.hook = against
    with pytest.raises(TooManyConflictsError, match=str(_LOG_ATTEMPTS)):
        runs.commit([part])
    place.storage.hook = lambda _: None
    assert runs.listed("a") == [[]]


def test_a_plain_change_on_an_undecided_state_of_another_kind_waits_too(place: Place, runs: Runs) -> None:
    name = f"20260101T000000.000000Z-{'a' * 16}"
    undecided = prepared(runs, "a", name, "a1")

    def decide(_: float) -> None:
        runs.decisions.decide(aborted(name, at=place.clock.now(), writer="x", run=None))

    place.clock.on_sleep = decide
    run = runs.part("a").run
    outcome = place.commit(undecided, RecordRun(run=run), "a")
    assert isinstance(outcome, Loaded)
    assert place.clock.seconds < 10
    assert not isinstance(place.commit(outcome, add(*files("a3")), "a"), Conflict)
