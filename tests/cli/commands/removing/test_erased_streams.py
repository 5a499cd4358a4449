"""What the commands that only look say of a stream from which records were erased."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.everywhere.erasing import erase, holes_of

GONE = (0, 3, 12, 19)


@pytest.fixture
def erased(lake: Lake, run: Run) -> Lake:
    """``flights``: of 25 records in three files, of which the last one is of v2, six are erased."""
    result = run("erase", lake.storage.url, "--tap", "t", "--stream", "flights", "--where", f"n in {GONE}", "--delete")
    assert "6 records erased in 3 of 3 files" in result.stdout
    assert holes_of(lake, "t", "flights") == [2, 2, 2]
    return lake


def stream_in(document: Any) -> dict[str, Any]:
    """The entry of ``flights``."""
    found: dict[str, Any] = next(each for each in document["taps"][0]["streams"] if each["stream"] == "flights")
    return found


def test_ls_counts_what_is_left(run: Run, erased: Lake) -> None:
    shown = run("ls", erased.storage.url).stdout
    assert "flights  v1..v2        3       19" in shown
    assert "21 records" in shown
    counts = stream_in(json.loads(run("ls", erased.storage.url, "--json").stdout))
    assert [counts[name] for name in ("files", "messages", "records", "erased")] == [3, 25, 19, 6]
    others = json.loads(run("ls", erased.storage.url, "--tap", "u", "--json").stdout)["taps"][0]["streams"]
    assert [each["erased"] for each in others] == [0]


def test_export_counts_what_is_left_and_says_who_erased(run: Run, erased: Lake) -> None:
    stream = stream_in(json.loads(run("export", erased.storage.url).stdout))
    assert [stream[name] for name in ("messages", "records", "erased", "next_offset")] == [25, 19, 6, 25]
    assert [version["records"] for version in stream["versions"]] == [16, 3]
    assert [(each["kind"], each["files"], each["records"]) for each in stream["runs"] if each["kind"] == "erase"] == [
        ("erase", 3, 6)
    ]


def test_versions_keep_their_offsets_and_count_what_is_left(run: Run, erased: Lake) -> None:
    stream = json.loads(run("versions", erased.storage.url, "--tap", "t", "--stream", "flights", "--json").stdout)
    versions = stream["streams"][0]["versions"]
    assert [(each["first_offset"], each["last_offset"], each["records"]) for each in versions] == [
        (0, 19, 16),
        (20, 24, 3),
    ]
    assert stream["streams"][0]["next_offset"] == 25


def test_diff_and_status_go_on_as_before(run: Run, lake: Lake) -> None:
    asked = ("--tap", "t", "--stream", "flights")
    before = run("diff", lake.storage.url, "v1", "v2", *asked).stdout
    erase(lake, "t", "flights", GONE, name="n")
    assert run("diff", lake.storage.url, "v1", "v2", *asked).stdout == before
    result = run("status", lake.storage.url, *asked)
    assert result.exit_code == 0


@pytest.mark.parametrize("command", [("verify",), ("vacuum", "--dry-run"), ("rebuild", "--dry-run")])
def test_what_looks_after_a_lake_finds_nothing_wrong(run: Run, erased: Lake, command: tuple[str, ...]) -> None:
    result = run(command[0], erased.storage.url, *command[1:])
    assert result.exit_code == 0, result.output
    assert "ERASED" not in result.output


def test_the_site_counts_what_is_left_and_shows_no_hole(run: Run, erased: Lake, tmp_path: Path) -> None:
    done = run("docs", "build", erased.storage.url, "-o", tmp_path / "site", "--samples", "5")
    assert done.exit_code == 0
    pages = {path: path.read_text() for path in (tmp_path / "site").rglob("*.html")}
    (page,) = [text for path, text in pages.items() if path.stem == "flights"]
    assert "<dt>Records</dt><dd>19 <small>6 erased</small></dd>" in page
    assert not any('"ERASED"' in text or "&#34;ERASED" in text for text in pages.values())
    (tap,) = [text for path, text in pages.items() if path.stem == "t"]
    assert '<td class="number">19</td>' in tap


def test_the_site_says_nothing_of_erasures_where_there_are_none(run: Run, lake: Lake, tmp_path: Path) -> None:
    run("docs", "build", lake.storage.url, "-o", tmp_path / "site")
    assert not any(" erased</small>" in path.read_text() for path in (tmp_path / "site").rglob("*.html"))
