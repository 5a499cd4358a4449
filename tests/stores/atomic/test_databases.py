"""An atomic run in a database, for those who have the lake alone, and among other writers."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from singerlake.errors import (
    SettingError,
    StorageUnavailableError,
    TooManyConflictsError,
    UnknownOutcomeError,
)
from singerlake.format import layout
from singerlake.format.state.features import features_of
from singerlake.format.state.transactions import Rebase
from singerlake.stores import commit
from singerlake.stores.atomic.view import view
from singerlake.stores.port import Loaded, Outdated
from singerlake.upkeep.caches import use_manifest_store
from singerlake.upkeep.migrate import migrate_stream
from tests.fakes import FakeClock
from tests.format.state.test_fold import new_file
from tests.storage.memory import Step
from tests.stores.atomic.databases import (
    AFTER,
    BEFORE,
    READS,
    Acts,
    before_and_after,
    begun,
    kept,
    only_in_the_database,
    only_in_the_database_now,
    place,
    publish,
    runs,
)
from tests.stores.atomic.runs import Runs, files
from tests.stores.stores import Place

__all__ = ["before_and_after", "place", "runs"]


def test_at_no_step_is_a_part_of_a_run_seen(request: pytest.FixtureRequest, place: Place) -> None:
    seen, clock = [], FakeClock()
    for step in itertools.count(1):
        place, runs, parts = begun(place.kind, request, clock)
        steps, came = itertools.count(1), False

        def look(at: Step, place: Place = place, runs: Runs = runs, step: int = step, steps: Any = steps) -> None:
            nonlocal came
            if at.operation not in READS and next(steps) == step:
                came = True
                place.storage.hook = lambda _: None
                seen.append(runs.viewed())

        place.storage.hook = look
        runs.commit(parts)
        if not came:
            break
    assert all(each in (BEFORE, AFTER) for each in seen)
    assert BEFORE in seen
    assert AFTER in seen


def test_readers_between_whose_loads_a_run_is_published_see_nothing_of_it(place: Place, runs: Runs) -> None:
    for stream in ("a", "b"):
        runs.append(stream, new_file(f"{stream}0"))
    for first, last in (("a", "b"), ("b", "a")):
        number = len(place.listed("a"))
        loads = {name: runs.place.lake.stream("t", name).snapshot for name in ("a", "b")}

        def load(first: str = first, last: str = last, number: int = number, loads: Any = loads) -> Any:
            state = loads[first]()
            runs.run({name: files(f"{name}{number}") for name in ("a", "b")})
            return {first: state, last: loads[last]()}

        ends = {name: each.end for name, each in view(runs.decisions, load).items()}
        assert ends == {"a": 3 * number, "b": 3 * number}


def test_readers_whose_first_look_shows_a_run_that_is_published_while_they_load_see_nothing_of_it(
    place: Place, runs: Runs
) -> None:
    for stream in ("a", "b"):
        runs.append(stream, new_file(f"{stream}0"))
    name = only_in_the_database(place, runs, "a", "b")
    decision = kept(place, "a", name)
    runs.decisions.decide(decision)

    def load() -> Any:
        late = place.lake.stream("t", "a").snapshot()
        publish(place, "b")
        return {"a": late, "b": place.lake.stream("t", "b").snapshot()}

    assert {name: each.end for name, each in view(runs.decisions, load).items()} == BEFORE
    assert runs.decisions.listed().shown == {name}


def test_streams_in_different_stores_are_refused(place: Place, runs: Runs) -> None:
    elsewhere = Runs(Place("log"))
    parts = [runs.part("a", *files("a1")), elsewhere.part("b", *files("b1"))]
    with pytest.raises(SettingError, match=rf"'a' is in {place.kind}, 'b' is in log.*store migrate"):
        runs.commit(parts)
    assert (runs.listed("a"), elsewhere.listed("b")) == ([[]], [[]])


def test_the_decision_on_the_lake_is_the_one_that_the_database_holds(place: Place, runs: Runs) -> None:
    name = runs.run({"a": files("a1", "a2"), "b": files("b1")})["a"].settled
    assert isinstance(name, str)
    decision = kept(place, "b", name)
    assert runs.decisions.get(name) == decision
    assert {stream: (each.offset, each.end) for stream, each in decision.streams.items()} == {"a": (0, 6), "b": (0, 3)}
    other: Any = place.store("b")
    assert other.completion.kept("20260101T000000.000000Z-aaaaaaaaaaaaaaaa") is None


def test_a_commit_of_another_store_goes_with_a_stream_that_moves_here_and_away(place: Place) -> None:
    at_home = Place("log", settings=place.settings, s3=place.s3, ids=place.ids)
    runs = Runs(at_home)
    name = runs.run({"a": files("a1")})["a"].settled
    assert isinstance(name, str)
    at_home.storage.delete(layout.shown_commit_key("t", name))
    migrate_stream(at_home.context("a"), at_home.store("a", place.kind))
    assert at_home.lake.stream("t", "a").snapshot().settled == name
    went_to(at_home, place.kind)
    second = runs.run({"a": files("a2")})["a"].settled
    assert isinstance(second, str)
    assert second > name
    for kind in ("lockfile", "merge", "log"):
        migrate_stream(at_home.context("a"), at_home.store("a", kind))
        went_to(at_home, kind)
        state = at_home.lake.stream("t", "a").snapshot()
        assert (state.store, state.settled, features_of(state)) == (kind, second, ("atomic",))
    assert at_home.listed("a") == ["a1", "a2"]


def went_to(place: Place, kind: str) -> None:
    """What the command does behind the migration of the last stream."""
    use_manifest_store(place.storage, kind, lake_id=place.lake.lake_id())
    place.kind, place.lake = kind, place.opened()


def test_a_commit_that_was_lost_on_the_lake_and_that_the_database_never_had_stops_nobody(
    place: Place, runs: Runs
) -> None:
    born = runs.append("a", new_file("a0"))
    lost = f"20260101T000000.000000Z-{'a' * 16}"
    moved = msgspec.structs.replace(born.manifest, settled=lost)
    assert isinstance(place.commit(born, Rebase(manifest=moved), "a"), Loaded)
    runs.append("a", new_file("a1"))
    assert runs.listed("a") == [["a0", "a1"]]
    assert runs.decisions.listed().names == ()


def test_a_run_that_is_in_the_database_and_could_not_be_published_says_that_it_may_be_seen(
    place: Place, runs: Runs
) -> None:
    parts = [runs.part(stream, *files(f"{stream}1")) for stream in ("a", "b")]
    for part in parts:
        part.writer.open()

    def out(step: Step) -> None:
        if step.key == layout.manifest_key("t", "b") and step.operation == "put":
            raise StorageUnavailableError("out")

    place.storage.hook = out
    with pytest.raises(UnknownOutcomeError, match="is in the lake"):
        runs.commit(parts)
    place.storage.hook = lambda _: None
    assert runs.viewed() == {"a": 0, "b": 0}
    runs.append("b", new_file("b2"))
    assert runs.viewed() == {"a": 3, "b": 6}


def test_a_run_before_which_others_always_come_gives_up_and_nothing_of_it_is_there(
    place: Place, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: Any = type(place.store("a"))
    monkeypatch.setattr(kind, "commit_together", lambda *_: Outdated())
    with pytest.raises(TooManyConflictsError, match=str(commit.ATTEMPTS)):
        runs.run({"a": files("a1")})
    monkeypatch.undo()
    assert place.listed("a") == []


def test_a_run_meets_the_plain_commits_that_come_while_it_tries(
    place: Place, runs: Runs, before_and_after: Acts
) -> None:
    left = iter(range(3))

    def rival() -> None:
        if (number := next(left, None)) is not None:
            for stream in ("a", "b"):
                runs.append(stream, new_file(f"{stream}-rival-{number}"))

    parts = [runs.part(stream, *files(f"{stream}1")) for stream in ("a", "b")]
    before_and_after["before"] = rival
    states = runs.commit(parts)
    came = 3 - len(list(left))
    assert came > 0
    for stream in ("a", "b"):
        assert [file.id for file in states[stream].files] == [
            *(f"{stream}-rival-{number}" for number in range(came)),
            f"{stream}1",
        ]
        assert runs.listed(stream) == [[file.id for file in states[stream].files]]


def test_a_run_that_came_meanwhile_makes_another_begin_again_with_a_greater_name(
    place: Place, runs: Runs, before_and_after: Acts
) -> None:
    parts = [runs.part(stream, *files(f"{stream}1")) for stream in ("a", "b")]
    names: list[str] = []

    def rival() -> None:
        before_and_after.clear()
        names.append(only_in_the_database_now(place, runs))

    before_and_after["before"] = rival
    states = runs.commit(parts)
    assert states["a"].settled > names[0]
    assert runs.listed("a", "b") == [["x1", "a1"], ["b1"]]
    assert runs.decisions.listed().names == (names[0], states["a"].settled)
