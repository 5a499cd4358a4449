"""An atomic run in a database whose writer is killed: readers of the lake see all of it or nothing, and the next one
that comes to its streams shows it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress

import pytest

from singerlake.errors import (
    CorruptObjectError,
    RetryableError,
    StorageUnavailableError,
)
from singerlake.format import layout
from singerlake.format.decision import decision_to_json
from singerlake.format.state.transactions import Close
from singerlake.stores.port import Loaded
from singerlake.upkeep.gc.apply import collect_stream
from singerlake.upkeep.migrate import migrate_stream
from tests.fakes import FakeClock
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import Step
from tests.stores.atomic.databases import (
    AFTER,
    BEFORE,
    DATABASES,
    Acts,
    Killed,
    before_and_after,
    begun,
    committed,
    kept,
    kill_at,
    only_in_the_database,
    place,
    publish,
    runs,
)
from tests.stores.atomic.runs import Runs, files
from tests.stores.stores import Place

__all__ = ["before_and_after", "place", "runs"]


NEXT: dict[str, Callable[[Place, Runs], object]] = {
    "a plain run": lambda place, runs: runs.append("b", new_file("b2")),
    "an atomic run": lambda place, runs: runs.run({"a": files("a2")}, name="next"),
    "an atomic run that brings more streams": lambda place, runs: runs.run(
        {"b": files("b2"), "c": files("c2")}, name="next"
    ),
    "one who publishes": lambda place, runs: publish(place, "a"),
    "one who trims": lambda place, runs: place.store("b").trim(keep=0, dry_run=False),
    "one who opens a stream": lambda place, runs: runs.writer("a").open(),
}


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("following", NEXT)
@pytest.mark.parametrize("kind", DATABASES[::-1])
def test_a_run_that_is_killed_at_any_step_is_seen_whole_or_not_at_all_and_the_next_one_shows_it(
    kind: str, following: str, request: pytest.FixtureRequest
) -> None:
    seen, clock = set(), FakeClock()
    for step in itertools.count():
        place, runs, parts = begun(kind, request, clock)
        came = kill_at(place, step)
        with suppress(Killed):
            runs.commit(parts)
        place.storage.hook = lambda _: None
        there, viewed = committed(place), runs.viewed()
        assert viewed in (BEFORE, AFTER)
        assert there or viewed == BEFORE
        seen.add((there, viewed == AFTER))
        NEXT[following](place, runs)
        assert [f"{stream}1" in runs.listed(stream)[0] for stream in ("a", "b")] == [there, there]
        viewed, listed = runs.viewed(), runs.decisions.listed()
        assert not there or min(viewed["a"], viewed["b"]) >= 6
        assert listed.shown == set(listed.names)
        assert there is any((decision := runs.decisions.get(name)) and decision.run == "w" for name in listed.names)
        if not came():
            break
    assert seen == {(False, False), (True, False), (True, True)}


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_writer_that_is_killed_beside_the_database_s_transaction(
    place: Place, runs: Runs, before_and_after: Acts, side: str
) -> None:
    parts = [runs.part(stream, *files(f"{stream}1")) for stream in ("a", "b")]

    def kill() -> None:
        raise Killed

    before_and_after[side] = kill
    with pytest.raises(Killed):
        runs.commit(parts)
    before_and_after.clear()
    assert committed(place) is (side == "after")
    assert runs.viewed() == {"a": 0, "b": 0}
    assert runs.decisions.listed().names == ()
    runs.append("a", new_file("a2"))
    assert runs.viewed() == ({"a": 6, "b": 3} if side == "after" else {"a": 3, "b": 0})


def test_nothing_follows_a_run_that_is_not_decided_on_the_lake(place: Place, runs: Runs) -> None:
    for stream in ("a", "b"):
        runs.append(stream, new_file(f"{stream}0"))
    stale = place.store("a").load()
    assert stale is not None
    only_in_the_database(place, runs, "a", "b")
    late = runs.part("a", *files("a2"))

    def out(step: Step) -> None:
        if "/_commits/" in step.key and step.operation == "put" and step.key.endswith(".json"):
            raise StorageUnavailableError("out")

    for act in (
        lambda: runs.append("a", new_file("a3")),
        lambda: place.commit(stale, add(new_file("a4")), "a"),
        lambda: runs.commit([late]),
        lambda: publish(place, "b"),
        lambda: place.store("b").trim(keep=0, dry_run=False),
        lambda: collect_stream(place.context("a"), delete=True),
        lambda: migrate_stream(place.context("a"), place.store("a", "log")),
    ):
        place.storage.hook = out
        with pytest.raises(RetryableError):
            act()
        place.storage.hook = lambda _: None
        assert (place.listed("a"), place.listed("b")) == (["a0", "a1"], ["b0", "b1"])
        assert runs.viewed() == BEFORE
        assert place.state("a").closed is None
    runs.append("a", new_file("a3"))
    assert runs.viewed() == {"a": 9, "b": 6}


def test_runs_of_which_each_was_left_undone_are_all_shown_by_one(place: Place, runs: Runs) -> None:
    """No run follows one that is undecided, so the second one is in its way with another stream alone."""
    only_in_the_database(place, runs, "a", "b")
    only_in_the_database(place, runs, "c", "d")
    runs.run({"b": files("b2"), "c": files("c2")})
    assert runs.viewed() == {"a": 3, "b": 6, "c": 6, "d": 3}
    listed = runs.decisions.listed()
    assert len(listed.names) == 3
    assert listed.shown == set(listed.names)


def test_a_stream_that_cannot_be_published_now_keeps_nobody_from_the_others(place: Place, runs: Runs) -> None:
    for stream in ("a", "b"):
        runs.append(stream, new_file(f"{stream}0"))
    only_in_the_database(place, runs, "a", "b")

    def out(step: Step) -> None:
        if step.key == layout.manifest_key("t", "b") and step.operation == "put":
            raise StorageUnavailableError("out")

    place.storage.hook = out
    runs.append("a", new_file("a2"))
    place.storage.hook = lambda _: None
    assert runs.viewed() == BEFORE
    assert runs.decisions.listed().shown == frozenset()
    runs.append("a", new_file("a3"))
    assert runs.viewed() == {"a": 12, "b": 6}
    assert runs.decisions.listed().shown


def test_a_stream_that_was_closed_meanwhile_does_not_stop_the_others(place: Place, runs: Runs) -> None:
    name = only_in_the_database(place, runs, "a", "b")
    loaded = place.store("b").load()
    assert loaded is not None
    assert isinstance(place.commit(loaded, Close(successor="log"), "b"), Loaded)
    runs.append("a", new_file("a2"))
    assert runs.decisions.get(name) is not None
    assert runs.listed("a") == [["a1", "a2"]]


def test_another_decision_of_the_same_name_is_an_error(place: Place, runs: Runs) -> None:
    name = only_in_the_database(place, runs, "a")
    place.storage.put(layout.commit_key("t", name), b"{}")
    with pytest.raises(CorruptObjectError):
        runs.append("a", new_file("a2"))
    place.storage.put(layout.commit_key("t", name), decision_to_json(kept(place, "a", name)))
    runs.append("a", new_file("a2"))
    assert runs.listed("a") == [["a1", "a2"]]
