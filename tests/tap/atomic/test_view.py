"""Runs of the tap over streams with atomic runs: one view of all, as of a commit, behind a commit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import ExpiredMessagesError, LineageChangedError, SettingError, UnknownNameError
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stream import LakeStream
from singerlake.upkeep.drop import drop_stream
from tap_singerlake.extent import Extent, extents_of
from tap_singerlake.settings import Commits
from tests.atomic.lakes import SCHEMA, commit_together, decide_against, decide_on, numbers
from tests.attached.lakes import attach
from tests.everywhere.erasing import context_of, vacuum
from tests.fakes import FakeClock, counting_ids
from tests.lakes import FilesOf, build_stream
from tests.storage.memory import MemoryStorage, Step
from tests.tap.batch.support import batch_config, unpacked
from tests.tap.expired.test_replay import expire as expire_flights
from tests.tap.runs import V1, V2, Output, discover, replay

TAP = "tap-a"


def ids(output: Output, stream: str) -> list[int]:
    return [record["id"] for record in output.records(stream)]


def offsets(output: Output) -> dict[str, int]:
    return {name: bookmark["offset"] for name, bookmark in output.state.get("bookmarks", {}).items()}


@pytest.fixture
def three_runs(lake: Lake) -> list[str]:
    """The commits of three runs over ``items`` and ``orders``; ``late`` comes with the last one."""
    files = FilesOf(SCHEMA, member_size=4)
    return [
        commit_together(lake, TAP, {"orders": numbers(0, 10), "items": numbers(0, 5)}, files=files),
        commit_together(lake, TAP, {"orders": numbers(10, 15)}, files=files),
        commit_together(
            lake, TAP, {"orders": numbers(15, 30), "items": numbers(5, 9), "late": numbers(0, 1)}, files=files
        ),
    ]


def during(monkeypatch: pytest.MonkeyPatch, stream: str, work: Callable[[], object]) -> None:
    """Have ``work`` done once, before the state of ``stream`` is loaded."""
    snapshot = LakeStream.snapshot
    left = [work]

    def after_work(self: LakeStream) -> Any:
        if self.name == stream and left:
            left.pop()()
        return snapshot(self)

    monkeypatch.setattr(LakeStream, "snapshot", after_work)


@pytest.mark.parametrize("atomic", [True, False])
def test_a_run_that_commits_between_two_loads_is_left_out_of_both_or_seen_half(
    lake: Lake, root: Path, three_runs: list[str], monkeypatch: pytest.MonkeyPatch, atomic: bool
) -> None:
    more = {"orders": numbers(30, 33), "items": numbers(9, 12)}
    during(monkeypatch, "orders", lambda: commit_together(lake, TAP, more))
    output = replay(root, atomic=atomic)
    assert ids(output, "items") == list(range(9))
    assert ids(output, "orders") == list(range(30 if atomic else 33))
    rest = replay(root, state=output.state)
    assert ids(rest, "items") == list(range(9, 12))
    assert ids(rest, "orders") == list(range(30 if atomic else 33, 33))


def test_a_deselected_stream_is_no_part_of_the_view(
    lake: Lake, root: Path, three_runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = discover(root)
    for entry in catalog["streams"]:
        if entry["stream"] == "items":
            entry["metadata"][0]["metadata"]["selected"] = False
    lake.storage.put(layout.manifest_key(TAP, "items"), b"{")
    output = replay(root, catalog=catalog)
    assert (ids(output, "items"), ids(output, "orders"), ids(output, "late")) == ([], list(range(30)), [0])


@pytest.mark.parametrize("vacuumed", [False, True], ids=["as written", "vacuumed"])
def test_as_of_each_commit_and_from_there_on(lake: Lake, root: Path, three_runs: list[str], vacuumed: bool) -> None:
    if vacuumed:
        vacuum(lake, TAP, "orders")
        vacuum(lake, TAP, "items")
        # One file spans the ends of all runs.
        assert [file.offset for file in lake.stream(TAP, "orders").snapshot().files] == [0]
        assert [file.offset for file in lake.stream(TAP, "items").snapshot().files] == [0]
    for commit, orders, items in zip(three_runs, (10, 15, 30), (5, 5, 9), strict=True):
        output = replay(root, as_of=commit)
        assert ids(output, "orders") == list(range(orders))
        assert ids(output, "items") == list(range(items))
        born = commit == three_runs[2]
        assert ids(output, "late") == [0] * born
        assert offsets(output) == {"orders": orders, "items": items} | ({"late": 1} if born else {})
        # What comes behind it, with its bookmarks and without any.
        for rest in (replay(root, state=output.state), replay(root, from_commit=commit)):
            assert ids(rest, "orders") == list(range(orders, 30))
            assert ids(rest, "items") == list(range(items, 9))
            assert ids(rest, "late") == [0] * (not born)


def test_from_one_commit_to_another(root: Path, three_runs: list[str]) -> None:
    output = replay(root, from_commit=three_runs[0], as_of=three_runs[1])
    assert (ids(output, "orders"), ids(output, "items"), ids(output, "late")) == (list(range(10, 15)), [], [])
    same = replay(root, from_commit=three_runs[1], as_of=three_runs[1])
    assert (same.records(), offsets(same)) == ([], {})


def test_a_bookmark_counts_more_than_from_commit_and_one_behind_as_of_stays(root: Path, three_runs: list[str]) -> None:
    first = replay(root, as_of=three_runs[0]).state
    assert ids(replay(root, state=first, from_commit=three_runs[2]), "orders") == list(range(10, 30))
    done = replay(root).state
    again = replay(root, state=done, as_of=three_runs[0])
    assert (again.records(), again.state.get("bookmarks", done["bookmarks"])) == ([], done["bookmarks"])


@pytest.mark.parametrize("alone", [["orders"], ["items"]])
def test_one_stream_alone_as_of_a_commit(root: Path, three_runs: list[str], alone: list[str]) -> None:
    output = replay(root, streams=alone, as_of=three_runs[0])
    assert len(output.records()) == {"orders": 10, "items": 5}[alone[0]]
    rest = replay(root, streams=alone, from_commit=three_runs[0])
    assert len(rest.records()) == {"orders": 20, "items": 4}[alone[0]]


def test_the_bytes_are_those_of_the_lake(root: Path, lake: Lake, three_runs: list[str]) -> None:
    vacuum(lake, TAP, "orders")
    whole = [line for line in replay(root, streams=["orders"]).lines if b'"RECORD"' in line]
    cut = [line for line in replay(root, streams=["orders"], as_of=three_runs[1]).lines if b'"RECORD"' in line]
    assert cut == whole[:15]


def test_max_records_before_the_end_of_the_view_and_at_it(root: Path, three_runs: list[str]) -> None:
    first = replay(root, as_of=three_runs[1], max_records=12)
    assert (ids(first, "orders"), offsets(first)["orders"]) == (list(range(12)), 12)
    rest = replay(root, as_of=three_runs[1], max_records=12, state=first.state)
    assert (ids(rest, "orders"), offsets(rest)["orders"]) == (list(range(12, 15)), 15)


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_batch_files_hold_what_is_in_the_view(
    root: Path, tmp_path: Path, lake: Lake, three_runs: list[str], format: str
) -> None:
    vacuum(lake, TAP, "orders")
    config = batch_config(tmp_path / "out", format=format, batch_size=4)
    output = replay(root, as_of=three_runs[1], batch_config=config)
    assert offsets(output) == {"orders": 15, "items": 5}
    if format == "jsonl":
        records = [each for each in unpacked(output) if isinstance(each, tuple)]
        assert [record["id"] for stream, record in records if stream == "orders"] == list(range(15))
    else:
        import pyarrow.parquet

        urls = [url for message in output.of("BATCH", "orders") for url in message["manifest"]]
        rows = [row for url in urls for row in pyarrow.parquet.read_table(url.removeprefix("file://")).to_pylist()]
        assert [row["id"] for row in rows] == list(range(15))


def test_copies_are_those_of_records_in_the_view(root: Path, tmp_path: Path, lake: Lake) -> None:
    bodies = [b"zero", b"one", b"two", b"three"]
    attach(lake, TAP, "photos", [[body] for body in bodies], file_size=2)
    commit = decide_on(lake, TAP, {"photos": (0, 3)})
    vacuum(lake, TAP, "photos")
    output = replay(root, as_of=commit, include_files=str(tmp_path / "copies"))
    assert (ids(output, "photos"), offsets(output)) == ([0, 1, 2], {"photos": 3})
    copied = [path for path in (tmp_path / "copies" / "photos").rglob("*") if path.is_file()]
    assert sorted(path.read_bytes() for path in copied if path.suffix != ".jsonl") == sorted(bodies[:3])
    (index,) = (path for path in copied if path.suffix == ".jsonl")
    assert [json.loads(line)["offset"] for line in index.read_text().splitlines()] == [0, 1, 2]


def test_records_that_are_mapped_end_there_too(root: Path, three_runs: list[str]) -> None:
    output = replay(root, as_of=three_runs[1], include_lake_metadata=True)
    assert [record["_singerlake_offset"] for record in output.records("orders")] == list(range(15))


def test_versions_and_as_of_both_hold(lake: Lake, root: Path, flights: Lake) -> None:
    commit = decide_on(flights, TAP, {"flights": (0, 260)})
    assert ids(replay(root, versions=["v2"], as_of=commit), "flights") == list(range(250, 260))
    assert ids(replay(root, from_version="v2", as_of=commit), "flights") == list(range(250, 260))
    early = decide_on(flights, TAP, {"flights": (260, 261)})
    assert ids(replay(root, from_commit=commit, as_of=early), "flights") == [260]


def test_discovery_offers_the_key_and_the_columns_that_were_in_force_as_of_a_commit(lake: Lake, root: Path) -> None:
    keys, commits = (["id"], ["id", "name"], ["id"], ["name"]), []
    for schema, key in zip((V1, V2, V1, V1), keys, strict=True):
        brought = {"s": [{"id": 1, "name": "a"}], "other": numbers(0, 1)}
        commits.append(commit_together(lake, TAP, brought, files=FilesOf(schema, key_properties=key)))
    vacuum(lake, TAP, "s")
    for number, (commit, key) in enumerate(zip(commits, keys, strict=True)):
        catalog = discover(root, as_of=commit)
        entry = next(each for each in catalog["streams"] if each["stream"] == "s")
        assert entry["key_properties"] == key
        assert list(entry["schema"]["properties"]) == (["id", "name"] if number else ["id"])
        # What discovery said is nobody's wish: each SCHEMA message stays as it was captured.
        said = [message["key_properties"] for message in replay(root, catalog=catalog, as_of=commit).of("SCHEMA", "s")]
        assert said == list(keys[: number + 1])
    behind = discover(root, from_commit=commits[2])["streams"]
    assert [list(entry["schema"]["properties"]) for entry in behind] == [["id"]] * 2
    assert [entry["key_properties"] for entry in discover(root, from_version="v2")["streams"]] == [["name"]] * 2


@pytest.mark.parametrize("setting", ["as_of", "from_commit"])
def test_a_commit_that_is_not_there_or_was_decided_against_is_an_error_before_any_output(
    lake: Lake, root: Path, three_runs: list[str], setting: str
) -> None:
    against = decide_against(lake, TAP)
    for name, words in (("x", "no commit 'x'.*the newest is"), (against, "was decided against")):
        with pytest.raises(UnknownNameError, match=words) as caught:
            replay(root, **{setting: name})
        assert caught.value.output.text == b""  # type: ignore[attr-defined]


@pytest.mark.parametrize("setting", ["as_of", "from_commit"])
def test_a_tap_without_atomic_runs_has_no_commit(lake: Lake, root: Path, setting: str) -> None:
    build_stream(lake, TAP, "a", SCHEMA, numbers(0, 2))
    with pytest.raises(UnknownNameError, match=r"no commit 'x'.*this tap has none"):
        replay(root, **{setting: "x"})


@pytest.mark.parametrize("setting", ["as_of", "from_commit"])
def test_a_stream_that_was_dropped_since_is_an_error_that_names_it(
    lake: Lake, root: Path, three_runs: list[str], setting: str
) -> None:
    drop_stream(context_of(lake, TAP, "items"), dry_run=False)
    newest = commit_together(lake, TAP, {"items": numbers(0, 1)})
    what = f"'items' was dropped and captured anew after commit {three_runs[0]}; leave this stream out, or choose"
    with pytest.raises(LineageChangedError, match=f"{what} commit {newest} or a later one") as caught:
        replay(root, **{setting: three_runs[0]})
    assert caught.value.output.text == b""  # type: ignore[attr-defined]
    assert replay(root, streams=["orders"], **{setting: three_runs[0]}).records("orders")
    assert ids(replay(root, as_of=newest), "items") == [0]


@pytest.mark.parametrize("setting", ["as_of", "from_commit"])
@pytest.mark.parametrize("others", [True, False])
def test_a_dropped_stream_that_nobody_left_out_is_an_error_though_the_tap_has_it_no_more(
    lake: Lake, root: Path, three_runs: list[str], caplog: pytest.LogCaptureFixture, setting: str, others: bool
) -> None:
    catalog = discover(root)
    for name in ("items",) if others else ("items", "late", "orders"):
        drop_stream(context_of(lake, TAP, name), dry_run=False)
    lake.storage.delete(layout.catalogue_key(TAP))
    named = {setting: three_runs[1]}
    for asked in (replay, discover):
        with pytest.raises(
            LineageChangedError, match=r"'(items|orders)' was dropped after commit .*; leave this stream"
        ):
            asked(root, **named)
    if not others:
        return
    with pytest.raises(LineageChangedError, match="'items' was dropped"):
        replay(root, catalog=catalog, **named)
    left = ids(replay(root, streams=["orders", "l*"], **named), "orders")
    assert left == list(range(15) if setting == "as_of" else range(15, 30))
    (items,) = (entry for entry in catalog["streams"] if entry["stream"] == "items")
    items["metadata"][0]["metadata"]["selected"] = False
    assert ids(replay(root, catalog=catalog, **named), "orders") == left
    assert "items" not in caplog.text
    catalog["streams"].remove(items)
    assert ids(replay(root, catalog=catalog, **named), "orders") == left
    assert "'items' was dropped after a commit that is named, and is not in the catalog" in caplog.text
    # Without a commit, what is not there is not in the view.
    assert ids(replay(root), "orders") == list(range(30))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"as_of": "b", "atomic": False}, "as_of is set and atomic is false"),
        ({"from_commit": "b", "from_version": "v1"}, "from_commit and from_version are both set"),
        ({"from_commit": "b", "as_of": "a"}, "from_commit b is later than as_of a"),
    ],
)
def test_settings_that_contradict_each_other(
    root: Path, three_runs: list[str], config: dict[str, Any], words: str
) -> None:
    with pytest.raises(SettingError, match=words):
        replay(root, **config)


def test_empty_settings_count_as_none(root: Path, three_runs: list[str]) -> None:
    assert ids(replay(root, as_of=" ", from_commit=""), "orders") == list(range(30))


@pytest.mark.parametrize(("setting", "left"), [("as_of", []), ("from_commit", [299])])
def test_what_expired_is_an_error_unless_it_is_skipped(
    flights: Lake, root: Path, setting: str, left: list[int]
) -> None:
    commit = decide_on(flights, TAP, {"flights": (0, 100)})
    build_stream(flights, TAP, "flights", V2, [], key_properties=["id"])
    expire_flights(flights, 300)
    build_stream(flights, TAP, "flights", V1, [{"id": 299}])
    with pytest.raises(ExpiredMessagesError, match="set skip_expired"):
        replay(root, **{setting: commit})
    assert ids(replay(root, skip_expired=True, **{setting: commit}), "flights") == left


class TestRequests:
    """What a view asks of storage, by the operations that it is asked for."""

    @pytest.fixture
    def storage(self) -> MemoryStorage:
        return MemoryStorage(clock=FakeClock(), ids=counting_ids())

    @pytest.fixture
    def memory_lake(self, storage: MemoryStorage) -> Lake:
        lake = Lake(storage, FakeClock(), counting_ids())
        for name in ("a", "b", "c"):
            build_stream(lake, TAP, name, SCHEMA, numbers(0, 2), store="log")
        return lake

    def asked(self, lake: Lake, storage: MemoryStorage, names: str, commits: Commits) -> tuple[list[Extent], list[str]]:
        seen: list[str] = []

        def hook(step: Step) -> None:
            if not step.done:
                seen.append(f"{step.operation} {step.key.removeprefix(layout.tap_prefix(TAP))}")

        storage.hook = hook
        return extents_of(Decisions(storage, TAP), [lake.stream(TAP, name) for name in names], commits), seen

    def test_without_atomic_runs_it_is_one_listing(self, memory_lake: Lake, storage: MemoryStorage) -> None:
        extents, seen = self.asked(memory_lake, storage, "abc", Commits())
        assert (extents, seen) == ([Extent()] * 3, ["list _commits/"])

    @pytest.mark.parametrize(("names", "commits"), [("a", Commits()), ("", Commits()), ("abc", Commits(atomic=False))])
    def test_for_one_stream_or_without_a_view_it_is_nothing(
        self, memory_lake: Lake, storage: MemoryStorage, names: str, commits: Commits
    ) -> None:
        commit_together(memory_lake, TAP, {"a": numbers(2, 3)})
        extents, seen = self.asked(memory_lake, storage, names, commits)
        assert (extents, seen) == ([Extent()] * len(names), [])

    def test_no_decision_is_read_whose_streams_all_show_it(self, memory_lake: Lake, storage: MemoryStorage) -> None:
        commit_together(memory_lake, TAP, {"a": numbers(2, 3), "b": numbers(2, 4)})
        extents, seen = self.asked(memory_lake, storage, "abc", Commits())
        assert [extent.end for extent in extents] == [3, 4, 2]
        assert [each for each in seen if "_commits/" in each] == ["list _commits/"] * 2
