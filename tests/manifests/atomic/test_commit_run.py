"""An atomic run in a log: all streams at once, whatever comes between."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import msgspec
import pytest

from singerlake.errors import (
    CommitRefusedError,
    MissingFileError,
    SettingError,
    StorageUnavailableError,
    StreamClosedError,
    TooManyConflictsError,
)
from singerlake.format import layout
from singerlake.format.decision import aborted
from singerlake.format.state.additions import Conflict
from singerlake.format.state.transactions import Close, PrepareFiles, RecordRun, RetireFiles
from singerlake.manifests.atomic.commit_run import ATTEMPTS, Part
from singerlake.manifests.port import Loaded
from tests.format.state.test_fold import add, new_file
from tests.manifests.atomic.runs import Runs, files
from tests.manifests.stores import Place
from tests.storage.memory import Step

STREAMS = ("a", "b", "c")


@pytest.fixture
def place() -> Place:
    return Place("log")


@pytest.fixture
def runs(place: Place) -> Runs:
    return Runs(place)


def prepare(part: Part, commit: str) -> PrepareFiles:
    return PrepareFiles(commit=commit, files=part.files, schemas=part.schemas, run=part.run)


def prepared(runs: Runs, stream: str, commit: str, *ids: str) -> Loaded:
    """A run that stopped behind this step."""
    part = runs.part(stream, *files(*ids), name="stopped")
    outcome = runs.place.commit(part.writer.loaded, prepare(part, commit), stream)
    assert isinstance(outcome, Loaded)
    return outcome


def test_a_run_is_in_all_of_its_streams(runs: Runs) -> None:
    states = runs.run({stream: files(f"{stream}1", f"{stream}2") for stream in STREAMS})
    assert runs.listed(*STREAMS) == [["a1", "a2"], ["b1", "b2"], ["c1", "c2"]]
    (name,) = runs.decisions.listed().names
    assert {state.settled for state in states.values()} == {name}
    decision = runs.decisions.get(name)
    assert decision is not None
    assert (decision.committed, decision.run, decision.writer) == (True, "w", "w")
    assert {stream: (each.offset, each.end) for stream, each in decision.streams.items()} == dict.fromkeys(
        STREAMS, (0, 6)
    )
    assert runs.decisions.listed().shown == {name}
    assert all(state.runs[-1].records == 6 for state in states.values())


class Killed(BaseException):
    """Nothing behind this is done any more."""


def begun() -> tuple[Place, Runs, list[Part]]:
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


def test_names_ascend_however_the_clock_goes(place: Place, runs: Runs) -> None:
    names = []
    for number, seconds in enumerate((1000.0, 10.0, 0.0, 500.0)):
        place.clock.seconds = seconds
        names.append(runs.run({"a": files(f"a{number}")})["a"].settled)
    assert names == sorted(names)
    assert len(set(names)) == 4


def test_a_greater_name_that_came_meanwhile_makes_the_run_take_another(place: Place, runs: Runs) -> None:
    part = runs.part("a", *files("a1"))
    part.writer.open()
    place.clock.seconds = 10_000
    runs.run({"a": files("a0")}, name="fast")
    place.clock.seconds = 0
    runs.commit([part])
    assert runs.listed("a") == [["a0", "a1"]]
    committed = [decision for decision in runs.decisions.all_of(runs.decisions.listed().names) if decision.committed]
    assert [decision.run for decision in committed] == ["fast", "w"]


def test_plain_commits_between_are_no_conflict(place: Place, runs: Runs) -> None:
    parts = [runs.part(stream, *files(f"{stream}1")) for stream in ("a", "b")]
    runs.append("a", new_file("a0"))
    runs.append("b", new_file("b0"))
    runs.commit(parts)
    assert runs.listed("a", "b") == [["a0", "a1"], ["b0", "b1"]]


def test_a_run_that_is_sent_again_adds_nothing_twice(runs: Runs) -> None:
    for _ in range(2):
        runs.run({"a": files("a1"), "b": files("b1")})
    assert runs.listed("a", "b") == [["a1"], ["b1"]]


def test_without_files_nothing_is_decided(runs: Runs) -> None:
    assert runs.commit([]) == {}
    assert runs.decisions.listed().names == ()


def test_a_file_that_is_not_there_ends_the_run_and_nothing_of_it_is_seen(place: Place, runs: Runs) -> None:
    parts = [runs.part(stream, *files(f"{stream}1")) for stream in ("a", "b")]
    place.storage.delete(layout.stream_prefix("t", "b") + parts[1].files[0].path)
    with pytest.raises(MissingFileError):
        runs.commit(parts)
    assert runs.listed("a", "b") == [[], []]
    began = place.clock.seconds
    runs.append("a", new_file("a2"))
    assert place.clock.seconds - began < 1


def test_a_file_that_does_not_fit_ends_the_run(place: Place, runs: Runs) -> None:
    part = runs.part("a", *files("a1"))
    part.writer.open()
    outcome = place.commit(part.writer.loaded, RetireFiles(files=(("a1", part.files[0].path),)), "a")
    assert isinstance(outcome, Loaded)
    with pytest.raises(CommitRefusedError, match="orphan"):
        runs.commit([part, runs.part("b", *files("b1"))])
    assert runs.listed("a", "b") == [[], []]


def test_a_stream_that_moves_ends_the_run(place: Place, runs: Runs) -> None:
    part = runs.part("a", *files("a1"))
    part.writer.open()
    outcome = place.commit(part.writer.loaded, Close(successor="lockfile"), "a")
    assert isinstance(outcome, Loaded)
    with pytest.raises(StreamClosedError, match="lockfile"):
        runs.commit([part])


@pytest.mark.parametrize("kind", ["lockfile", "merge"])
def test_a_store_that_commits_each_stream_by_itself_is_refused(kind: str) -> None:
    runs = Runs(Place(kind))
    with pytest.raises(SettingError, match=f"{kind} does not.*migrate"):
        runs.run({"a": files("a1")})
    assert runs.listed("a") == [[]]


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
    with pytest.raises(TooManyConflictsError, match=str(ATTEMPTS)):
        runs.commit([part])
    place.storage.hook = lambda _: None
    assert runs.listed("a") == [[]]


@pytest.mark.parametrize("pooled", [False, True])
def test_runs_over_the_same_streams_at_once_are_all_there(pooled: bool) -> None:
    place = Place("log")
    place.clock.on_sleep = lambda _: threading.Event().wait(0.001) and None
    runs = Runs(place)
    errors: list[BaseException] = []

    def work(name: str, order: tuple[str, ...]) -> None:
        try:
            with ThreadPoolExecutor(2) as pool:
                runs.run(
                    {stream: files(f"{stream}{name}") for stream in order}, name=name, pool=pool if pooled else None
                )
        except BaseException as error:
            errors.append(error)

    orders: list[tuple[str, ...]] = [STREAMS, STREAMS[::-1], ("b", "a"), ("c", "b")]
    threads = [threading.Thread(target=work, args=(str(number), order)) for number, order in enumerate(orders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for stream in STREAMS:
        wanted = sorted(f"{stream}{number}" for number, order in enumerate(orders) if stream in order)
        assert sorted(runs.listed(stream)[0]) == wanted


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
