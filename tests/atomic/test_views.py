"""``Lake.snapshot`` and ``Lake.commits``: several streams as one view, and the runs that came whole."""

from __future__ import annotations

import doctest
from collections.abc import Callable, Mapping

import msgspec
import pytest

from singerlake.errors import LineageChangedError, RetryableError, SettingError, UnknownNameError
from singerlake.format import layout
from singerlake.format.decision import Brought, Decision, decision_to_json
from singerlake.format.state.model import Manifest, Run
from singerlake.lake import Lake
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.atomic.view import StreamView, end_as_of, offsets_behind, view_as_of
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.drop import drop_stream
from tests.atomic.lakes import SCHEMA, commit_together, decide_against, numbers
from tests.everywhere.erasing import context_of
from tests.fakes import FakeClock, counting_ids
from tests.lakes import build_stream
from tests.storage.memory import MemoryStorage, Step

TAP = "t"


class FarStorage(MemoryStorage):
    """As if each request took its way over a network."""

    @property
    def near(self) -> bool:
        return False


@pytest.fixture(params=[MemoryStorage, FarStorage], ids=["near", "far"])
def storage(request: pytest.FixtureRequest) -> MemoryStorage:
    return request.param(clock=FakeClock(), ids=counting_ids())


@pytest.fixture
def lake(storage: MemoryStorage) -> Lake:
    return Lake(storage, FakeClock(), counting_ids())


def ends(views: Mapping[str, StreamView]) -> dict[str, int]:
    return {name: view.end for name, view in views.items()}


def once(storage: MemoryStorage, when: Callable[[Step], bool], work: Callable[[], object]) -> None:
    """Have ``work`` done before the first operation that ``when`` means."""

    def hook(step: Step) -> None:
        if not step.done and when(step):
            storage.hook = lambda _: None
            work()

    storage.hook = hook


def loads(stream: str) -> Callable[[Step], bool]:
    prefix = layout.stream_prefix(TAP, stream)
    return lambda step: step.key.startswith(prefix)


def test_all_streams_in_the_order_of_names_or_those_named_in_theirs(lake: Lake) -> None:
    commit_together(lake, TAP, {"b": numbers(0, 3), "a": numbers(0, 2)})
    commit_together(lake, TAP, {"c": numbers(0, 1)})
    assert list(ends(lake.snapshot(TAP)).items()) == [("a", 2), ("b", 3), ("c", 1)]
    assert list(ends(lake.snapshot(TAP, ["c", "a"])).items()) == [("c", 1), ("a", 2)]
    assert lake.snapshot(TAP, []) == {}


def test_a_tap_without_atomic_runs(lake: Lake) -> None:
    build_stream(lake, TAP, "a", SCHEMA, numbers(0, 4))
    assert ends(lake.snapshot(TAP)) == {"a": 4}
    assert lake.commits(TAP) == []


@pytest.mark.parametrize("between", ["a", "b"])
def test_of_a_run_that_is_committed_while_the_streams_are_loaded_nothing_is_seen(
    lake: Lake, storage: MemoryStorage, between: str
) -> None:
    commit_together(lake, TAP, {"a": numbers(0, 2), "b": numbers(0, 3)})
    once(storage, loads(between), lambda: commit_together(lake, TAP, {"a": numbers(2, 4), "b": numbers(3, 6)}))
    assert ends(lake.snapshot(TAP)) == {"a": 2, "b": 3}
    assert ends(lake.snapshot(TAP)) == {"a": 4, "b": 6}


def test_of_the_first_run_of_a_stream_too(lake: Lake, storage: MemoryStorage) -> None:
    build_stream(lake, TAP, "a", SCHEMA, numbers(0, 2), store="log")
    build_stream(lake, TAP, "b", SCHEMA, [], store="log")
    once(storage, loads("b"), lambda: commit_together(lake, TAP, {"a": numbers(2, 4), "b": numbers(0, 6)}))
    assert ends(lake.snapshot(TAP)) == {"a": 2, "b": 0}


def test_what_was_prepared_and_is_not_decided_is_not_seen(lake: Lake, storage: MemoryStorage) -> None:
    commit_together(lake, TAP, {"a": numbers(0, 2), "b": numbers(0, 3)})
    seen: list[Mapping[str, int]] = []
    decides = lambda step: step.operation == "put" and f"/{layout.COMMITS}/" in step.key  # noqa: E731
    once(storage, decides, lambda: seen.append(ends(lake.snapshot(TAP))))
    commit_together(lake, TAP, {"a": numbers(2, 4), "b": numbers(3, 6)})
    assert seen == [{"a": 2, "b": 3}]


def test_as_of_each_commit(lake: Lake) -> None:
    first = commit_together(lake, TAP, {"a": numbers(0, 2)})
    second = commit_together(lake, TAP, {"a": numbers(2, 3), "b": numbers(0, 5)})
    third = commit_together(lake, TAP, {"a": numbers(3, 9), "late": numbers(0, 1)})
    build_stream(lake, TAP, "b", SCHEMA, numbers(5, 7))
    build_stream(lake, TAP, "never", SCHEMA, numbers(0, 4))
    assert ends(lake.snapshot(TAP, as_of=first)) == {"a": 2, "b": 0, "late": 0, "never": 4}
    assert ends(lake.snapshot(TAP, as_of=second)) == {"a": 3, "b": 5, "late": 0, "never": 4}
    assert ends(lake.snapshot(TAP, as_of=third)) == {"a": 9, "b": 5, "late": 1, "never": 4}
    assert ends(lake.snapshot(TAP)) == {"a": 9, "b": 7, "late": 1, "never": 4}


@pytest.mark.parametrize("between", ["a", "b"])
def test_as_of_a_commit_while_another_run_commits(lake: Lake, storage: MemoryStorage, between: str) -> None:
    commit = commit_together(lake, TAP, {"a": numbers(0, 2)})
    build_stream(lake, TAP, "b", SCHEMA, [], store="log")
    once(storage, loads(between), lambda: commit_together(lake, TAP, {"a": numbers(2, 4), "b": numbers(0, 6)}))
    assert ends(lake.snapshot(TAP, as_of=commit)) == {"a": 2, "b": 0}


def test_what_begins_behind_a_commit_is_what_is_not_in_the_view_as_of_it(lake: Lake) -> None:
    names = [
        commit_together(lake, TAP, {"a": numbers(0, 2)}),
        commit_together(lake, TAP, {"b": numbers(0, 5)}),
        commit_together(lake, TAP, {"a": numbers(2, 3), "b": numbers(5, 6)}),
    ]
    states = {name: view.manifest for name, view in lake.snapshot(TAP).items()}
    for name in names:
        assert offsets_behind(Decisions(lake.storage, TAP), name, states) == ends(lake.snapshot(TAP, as_of=name))


def test_a_commit_that_is_not_there_is_refused_and_the_newest_is_named(lake: Lake) -> None:
    with pytest.raises(UnknownNameError, match="no tap 't'"):
        lake.snapshot(TAP, as_of="x")
    build_stream(lake, TAP, "a", SCHEMA, numbers(0, 1), store="log")
    with pytest.raises(UnknownNameError, match=r"no commit 'x'.*this tap has none"):
        lake.snapshot(TAP, as_of="x")
    newest = commit_together(lake, TAP, {"a": numbers(1, 2)})
    with pytest.raises(UnknownNameError, match=rf"no commit 'x'.*the newest is {newest}"):
        lake.snapshot(TAP, as_of="x")


def test_a_run_that_was_decided_against_is_no_commit_to_read(lake: Lake) -> None:
    taken_place = commit_together(lake, TAP, {"a": numbers(0, 2)})
    against = decide_against(lake, TAP)
    with pytest.raises(UnknownNameError, match="was decided against"):
        lake.snapshot(TAP, as_of=against)
    assert [commit.name for commit in lake.commits(TAP)] == [taken_place]
    assert [(commit.name, commit.committed) for commit in lake.commits(TAP, aborted=True)] == [
        (taken_place, True),
        (against, False),
    ]


def test_a_commit_says_what_it_brought(lake: Lake) -> None:
    first = commit_together(lake, TAP, {"a": numbers(0, 2)}, run="r1")
    second = commit_together(lake, TAP, {"a": numbers(2, 3), "b": numbers(0, 5)}, run="r2")
    lineages = {name: view.manifest.lineage for name, view in lake.snapshot(TAP).items()}
    one, two = lake.commits(TAP)
    assert (one.name, one.run, one.writer, one.messages) == (first, "r1", "a-test", 2)
    assert one.at.startswith("2026-01-01T00:00:00")
    assert (two.name, two.run, two.messages) == (second, "r2", 6)
    assert two.streams == {
        "a": Brought(lineage=lineages["a"], offset=2, end=3),
        "b": Brought(lineage=lineages["b"], offset=0, end=5),
    }


def test_a_stream_that_was_dropped_since_is_named_and_others_are_read(lake: Lake) -> None:
    first = commit_together(lake, TAP, {"a": numbers(0, 2), "b": numbers(0, 2)})
    stream = lake.stream(TAP, "b")
    drop_stream(StreamContext(lake.storage, TAP, "b", lake.clock, lake.ids, stream.store()), dry_run=False)
    second = commit_together(lake, TAP, {"a": numbers(2, 3), "b": numbers(0, 1)})
    what = (
        f"stream 'b' was dropped and captured anew after commit {first}; .*, or choose commit {second} or a later one"
    )
    with pytest.raises(LineageChangedError, match=what):
        lake.snapshot(TAP, as_of=first)
    assert ends(lake.snapshot(TAP, ["a"], as_of=first)) == {"a": 2}
    assert ends(lake.snapshot(TAP, as_of=second)) == {"a": 3, "b": 1}
    assert ends(lake.snapshot(TAP)) == {"a": 3, "b": 1}


def test_what_became_of_a_stream_is_told_whether_its_folder_is_there_or_not(lake: Lake) -> None:
    first = commit_together(lake, TAP, {"a": numbers(0, 2), "b": numbers(0, 2)})
    state = lake.stream(TAP, "b").snapshot()
    drop_stream(context_of(lake, TAP, "b"), dry_run=False)
    what = f"stream 'b' was dropped after commit {first}; leave this stream out"
    with pytest.raises(LineageChangedError, match=what):
        lake.snapshot(TAP, as_of=first)
    for entry in list(lake.storage.list(lake.stream(TAP, "b").prefix)):
        lake.storage.delete(entry.key)
    with pytest.raises(LineageChangedError, match=what):
        lake.snapshot(TAP, as_of=first)
    assert ends(lake.snapshot(TAP, ["a"], as_of=first)) == {"a": 2}
    rebuild = Run(id="r", writer="w", started="2026", kind="rebuild")
    for other, words in (
        (msgspec.structs.replace(state, lineage="x", runs=(rebuild,)), "was rebuilt or dropped after"),
        (msgspec.structs.replace(state, lineage=None), "lost its manifest after"),
    ):
        with pytest.raises(LineageChangedError, match=words):
            offsets_behind(Decisions(lake.storage, TAP), first, {"b": other})


def test_a_stream_that_was_born_again_is_told_before_one_that_is_behind(lake: Lake) -> None:
    commit_together(lake, TAP, {"a": numbers(0, 2), "b": numbers(0, 2)})
    older = lake.stream(TAP, "a").snapshot()
    commit = commit_together(lake, TAP, {"a": numbers(2, 4), "b": numbers(2, 4)})
    drop_stream(context_of(lake, TAP, "b"), dry_run=False)
    build_stream(lake, TAP, "b", SCHEMA, numbers(0, 1))
    states = {"a": older, "b": lake.stream(TAP, "b").snapshot()}
    with pytest.raises(LineageChangedError, match="'b' was dropped and captured anew"):
        view_as_of(Decisions(lake.storage, TAP), commit, lambda: states)


def test_a_commit_that_a_stream_does_not_show_yet_is_left_out_or_waited_for(lake: Lake) -> None:
    first = commit_together(lake, TAP, {"a": numbers(0, 2), "b": numbers(0, 3)})
    states = {name: view.manifest for name, view in lake.snapshot(TAP).items()}
    name = layout.commit_name(layout.commit_time(first).replace(microsecond=9), "0" * 16)
    ahead = {
        stream: Brought(lineage=str(state.lineage), offset=state.next_offset - (stream == "a"), end=9)
        for stream, state in states.items()
    }
    decision = Decision(id=name, at="2026-01-01T00:00:00Z", run=None, writer="w", committed=True, streams=ahead)
    lake.storage.put(layout.commit_key(TAP, name), decision_to_json(decision))
    assert ends(lake.snapshot(TAP)) == {"a": 1, "b": 3}
    with pytest.raises(RetryableError, match=f"commit {name} was decided, and not every stream shows it yet"):
        lake.snapshot(TAP, as_of=name)


def test_one_text_is_no_list_of_streams_and_unknown_ones_are_named(lake: Lake) -> None:
    commit_together(lake, TAP, {"a": numbers(0, 2)})
    with pytest.raises(SettingError, match=r"give a list of names, as \['a'\]"):
        lake.snapshot(TAP, "a")
    with pytest.raises(UnknownNameError, match="tap 't' has no stream 'z'; it has: a"):
        lake.snapshot(TAP, ["a", "z"])
    for read in (lake.commits, lake.snapshot):
        with pytest.raises(UnknownNameError, match="no tap 'u'"):
            read("u")


def test_a_stream_ends_where_it_does_now_if_no_commit_names_it(lake: Lake) -> None:
    build_stream(lake, TAP, "a", SCHEMA, numbers(0, 4))
    state: Manifest = lake.stream(TAP, "a").snapshot()
    assert end_as_of("a", state, [], "any") == 4


def test_the_example_of_the_docstring(lake: Lake) -> None:
    commit_together(lake, "my-tap", {"users": numbers(0, 2), "photos": numbers(0, 1)})
    (example,) = doctest.DocTestFinder().find(Lake.snapshot, "snapshot", globs={"lake": lake})
    assert len(example.examples) == 1
    assert doctest.DocTestRunner().run(example).failed == 0
