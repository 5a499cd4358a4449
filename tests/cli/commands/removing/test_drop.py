"""``singerlake drop``: what it says, what it takes out of the lake, and what it leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from singerlake.errors import StorageUnavailableError
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from tests.cli.commands.upkeep.test_gc import data_files
from tests.cli.conftest import Run


def names(lake: Lake, tap: str) -> set[str]:
    """The streams that the tap's catalogue offers."""
    return {entry["tap_stream_id"] for entry in lake.catalogue(tap)["streams"]}


def test_one_stream_goes_and_the_others_stay(run: Run, lake: Lake, root: Path) -> None:
    files = data_files(root)
    result = run("drop", root, "--tap", "t", "--stream", "flights", "--delete")
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        [
            next(line for line in result.stdout.splitlines() if line.startswith("t/flights: dropped: 3 files (")),
            "  the files stay until 'singerlake gc --delete' has run twice, a grace time apart",
        ],
    )
    assert result.stdout.splitlines()[0].endswith(", 25 records")
    assert data_files(root) == files
    listed = run("ls", root).stdout
    assert "a/b" in listed
    assert "flights" not in listed
    assert names(lake, "t") == {"a/b"}
    assert "flights" not in json.loads((root / "raw/t/catalogue.json").read_text())["streams"]
    assert run("verify", root).exit_code == 0
    for _ in range(3):
        assert run("gc", root, "--grace", "0s", "--delete").exit_code == 0
    assert len(data_files(root)) == 2
    assert run("verify", root).exit_code == 0


def test_the_others_go_though_one_cannot(run: Run, lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = LocalStorage.list

    def away(self: LocalStorage, prefix: str, *, start_after: str = "") -> object:
        if prefix == layout.stream_prefix("t", "a/b"):
            raise StorageUnavailableError("the server is away", key=prefix)
        return real(self, prefix, start_after=start_after)

    monkeypatch.setattr(LocalStorage, "list", away)
    result = run("drop", root, "--tap", "t", "--delete")
    assert result.exit_code == 1
    assert "t/a/b: not dropped: the server is away" in result.stdout
    assert "t/flights: dropped" in result.stdout
    failed = json.loads(run("drop", root, "--tap", "t", "--json").stdout)["failed"]
    assert [(each["stream"], each["error"]["kind"]) for each in failed] == [("a/b", "storage_unavailable")]
