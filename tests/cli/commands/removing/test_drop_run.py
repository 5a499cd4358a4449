"""``singerlake drop --run``: what one run brought goes from every stream, and nothing else."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import StorageUnavailableError
from singerlake.lake import Lake
from target_singerlake.target import TargetSingerlake
from tests.cli.commands.upkeep.test_vacuum import everything
from tests.cli.conftest import Run
from tests.lakes import record_line

SCHEMA = {"properties": {"id": {"type": "integer"}}}


def capture(root: Path, first: int, *streams: str, activate: bool = False, **settings: Any) -> str:
    """A run of the target that brings three records to each stream; its id."""
    lines = []
    for stream in streams:
        lines.append(json.dumps({"type": "SCHEMA", "stream": stream, "schema": SCHEMA, "key_properties": ["id"]}))
        lines += [record_line(stream, {"id": n}).decode() for n in range(first, first + 3)]
        if activate:
            lines.append(json.dumps({"type": "ACTIVATE_VERSION", "stream": stream, "version": first}))
    target = TargetSingerlake(config={"lake_root": str(root), "tap_id": "t", **settings})
    target.listen(io.StringIO("\n".join(lines) + "\n"))
    run = Lake.open(str(root)).stream("t", streams[0]).snapshot().runs[-1]
    assert run.captures
    return run.id


def ids(root: Path, stream: str) -> list[int]:
    return Lake.open(str(root)).stream("t", stream).to_arrow().read_all().column("id").to_pylist()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.mark.parametrize("joined", [False, True])
def test_what_a_run_brought_goes_from_every_stream(run: Run, root: Path, joined: bool) -> None:
    capture(root, 0, "a", "b")
    bad = capture(root, 10, "a", "b", activate=True)
    capture(root, 20, "a")
    if joined:
        assert run("vacuum", "--yes", root).exit_code == 0
    before = everything(root)
    shown = run("drop", root, "--tap", "t", "--run", bad)
    assert shown.exit_code == 0
    assert "t/a: 4 messages would be dropped in 1 of " in shown.stdout
    assert "t/b: 4 messages would be dropped in 1 of " in shown.stdout
    assert everything(root) == before
    writer = next(each.writer for each in Lake.open(str(root)).stream("t", "b").snapshot().runs if each.id == bad)
    told = run("drop", root, "--tap", "t", "--run", writer, "--delete", "--now")
    assert told.exit_code == 0
    assert "t/a: 4 messages dropped in 1 of " in told.stdout
    assert (ids(root, "a"), ids(root, "b")) == ([0, 1, 2, 20, 21, 22], [0, 1, 2])
    rows = Lake.open(str(root)).stream("t", "a").to_arrow(metadata=True, messages="all").read_all()
    assert rows.column("_singerlake_offset").to_pylist() == [0, 1, 2, 7, 8, 9]
    assert run("verify", root).exit_code == 0


@pytest.mark.parametrize("step", ["upkeep.erase.erase.record_run", "lake.tables_from"])
@pytest.mark.parametrize("error", [StorageUnavailableError("storage is away"), OSError("a library failed")])
def test_what_fails_behind_the_drop_does_not_make_it_undone(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: Exception
) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise error

    bad = capture(root, 0, "a", "b")
    with monkeypatch.context() as patch:
        patch.setattr(f"singerlake.{step}", away)
        shown = run("drop", root, "--tap", "t", "--stream", "b", "--run", bad)
        result = run("drop", root, "--tap", "t", "--stream", "a", "--run", bad, "--delete")
        told = json.loads(run("drop", root, "--tap", "t", "--stream", "b", "--run", bad, "--delete", "--json").stdout)
    assert result.exit_code == 1
    assert "t/a: dropped, at least in part, and then failed: " in result.stdout
    assert "not dropped" not in result.stdout
    assert [(each["stream"], each["dropped"]) for each in told["failed"]] == [("b", True)]
    assert ("t/b: not dropped: " in shown.stdout) == (step == "lake.tables_from")
    assert (ids(root, "a"), ids(root, "b")) == ([], [])


def test_a_stream_that_was_not_touched_is_told_as_not_dropped(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise StorageUnavailableError("storage is away")

    bad = capture(root, 0, "a")
    monkeypatch.setattr("singerlake.upkeep.context.submit_change", away)
    result = run("drop", root, "--tap", "t", "--run", bad, "--delete")
    assert (result.exit_code, "t/a: not dropped: storage is away" in result.stdout) == (1, True)
    assert ids(root, "a") == [0, 1, 2]


def test_an_atomic_run_goes_from_all_streams_and_its_commit_can_still_be_named(run: Run, root: Path) -> None:
    atomic = {"atomic_run": True, "manifest_store": "log"}
    capture(root, 0, "a", "b", **atomic)
    bad = capture(root, 10, "a", "b", **atomic)
    capture(root, 20, "b", "a", **atomic)
    told = run("drop", root, "--tap", "t", "--run", bad, "--delete", "--now")
    assert (told.exit_code, told.stdout.count("3 messages dropped in 1 of 3 files")) == (0, 2)
    lake = Lake.open(str(root))
    assert {name: view.end for name, view in lake.snapshot("t").items()} == {"a": 9, "b": 9}
    commits = [commit.name for commit in lake.commits("t")]
    for stream in ("a", "b"):
        assert ids(root, stream) == [0, 1, 2, 20, 21, 22]
        seen = [lake.stream("t", stream).to_arrow(as_of=name).read_all().column("id").to_pylist() for name in commits]
        assert seen == [[0, 1, 2], [0, 1, 2], [0, 1, 2, 20, 21, 22]]
    assert run("verify", root).exit_code == 0
