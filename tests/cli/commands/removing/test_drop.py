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
            "TAP  STREAM   FILES  RECORDS   BYTES",
            "t    flights      3       25  1.5 kB",
            "dropped: 1 stream, 3 files (1.5 kB), 25 records",
            "the files stay until 'singerlake gc --delete' has run twice, a grace time apart",
        ],
    )
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


def test_a_tap_is_one_table_with_a_total_and_what_was_dropped_before_is_no_row(
    run: Run, lake: Lake, root: Path
) -> None:
    shown = run("drop", root, "--tap", "t").stdout.splitlines()
    assert [line.split()[:4] for line in shown[1:3]] == [["t", "a/b", "1", "1"], ["t", "flights", "3", "25"]]
    assert shown[3].startswith("would be dropped: 2 streams, 4 files (")
    assert shown[3].endswith("), 26 records")
    assert shown[4:] == ["dry run: nothing changed; --delete does it"]
    run("drop", root, "--tap", "t", "--stream", "flights", "--delete")
    shown = run("drop", root, "--tap", "t").stdout.splitlines()
    assert shown[2].startswith("would be dropped: 1 stream, 1 file (")
    assert shown[3] == "t/flights: nothing to drop; 3 objects wait for 'singerlake gc --delete'"
    for _ in range(3):
        run("gc", root, "--grace", "0s", "--delete")
    assert "t/flights: nothing to drop" in run("drop", root, "--tap", "t").stdout.splitlines()


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
    assert "dropped: 1 stream, 3 files" in result.stdout
    failed = json.loads(run("drop", root, "--tap", "t", "--json").stdout)["failed"]
    assert [(each["stream"], each["error"]["kind"]) for each in failed] == [("a/b", "storage_unavailable")]
