"""An atomic run in every manifest store that has them: all streams at once, whatever comes between."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from singerlake.adapters import ATOMIC_STORES
from singerlake.errors import CommitRefusedError, MissingFileError, SettingError, StreamClosedError
from singerlake.format import layout
from singerlake.format.state.features import features_of
from singerlake.format.state.transactions import Close, ExpireFiles, RetireFiles
from singerlake.stores.port import Loaded
from tests.format.state.test_fold import new_file
from tests.stores.atomic.runs import Runs, files
from tests.stores.stores import KINDS, Place, make_place

STREAMS = ("a", "b", "c")


@pytest.fixture(params=ATOMIC_STORES)
def place(request: pytest.FixtureRequest) -> Place:
    return make_place(request.param, request)


@pytest.fixture
def runs(place: Place) -> Runs:
    return Runs(place)


@pytest.mark.parametrize("kind", KINDS)
def test_the_stores_that_are_named_are_those_that_can_do_it(kind: str, request: pytest.FixtureRequest) -> None:
    abilities = make_place(kind, request).store().abilities
    assert (abilities.prepares or abilities.together) is (kind in ATOMIC_STORES)


def test_a_run_that_has_committed_is_in_what_every_reader_sees(place: Place, runs: Runs) -> None:
    runs.append("a", new_file("a0"))
    assert runs.viewed() == {"a": 3}
    runs.run({stream: files(f"{stream}1") for stream in STREAMS})
    assert runs.viewed() == {"a": 6, "b": 3, "c": 3}
    assert [place.listed(stream) for stream in STREAMS] == runs.listed(*STREAMS) == [["a0", "a1"], ["b1"], ["c1"]]


def test_a_stream_keeps_the_name_of_its_last_commit_whatever_comes_behind(place: Place, runs: Runs) -> None:
    name = runs.run({"a": files("a1"), "b": files("b1")})["a"].settled
    appended = runs.append("a", new_file("a2"))
    change = ExpireFiles(before=3, lineage=appended.manifest.lineage or "")
    assert isinstance(place.commit(appended, change, "a"), Loaded)
    store = place.store("a")
    assert store.trim(keep=0, dry_run=False).transactions > 0
    for state in (place.state("a"), runs.place.lake.stream("t", "a").snapshot()):
        assert (state.settled, features_of(state)) == (name, ("atomic", "expired"))
        assert [file.id for file in state.files] == ["a2"]
    assert runs.run({"a": files("a3")})["a"].settled > name


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


@pytest.mark.parametrize("pooled", [False, True])
def test_runs_over_the_same_streams_at_once_are_all_there(place: Place, pooled: bool) -> None:
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
