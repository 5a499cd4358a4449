"""What the commands that only look say of a stream from which records were erased."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.everywhere.erasing import holes_of

GONE = (0, 3, 12, 19)


@pytest.fixture
def erased(lake: Lake, run: Run) -> Lake:
    """``flights``: of 25 records in three files, of which the last one is of v2, six are erased."""
    result = run("erase", lake.storage.url, "--tap", "t", "--stream", "flights", "--where", f"n in {GONE}", "--delete")
    assert "6 records erased in 3 of 3 files" in result.stdout
    assert holes_of(lake, "t", "flights") == [2, 2, 2]
    return lake


def test_the_site_counts_what_is_left_and_shows_no_hole(run: Run, erased: Lake, tmp_path: Path) -> None:
    done = run("docs", "build", erased.storage.url, "-o", tmp_path / "site", "--samples", "5")
    assert done.exit_code == 0
    pages = {path: path.read_text() for path in (tmp_path / "site").rglob("*.html")}
    (page,) = [text for path, text in pages.items() if path.stem == "flights"]
    assert "<dt>Records</dt><dd>19 <small>6 erased</small></dd>" in page
    assert not any('"ERASED"' in text or "&#34;ERASED" in text for text in pages.values())
    (tap,) = [text for path, text in pages.items() if path.stem == "t"]
    assert '<td class="number roomy">19</td>' in tap


def test_the_site_says_nothing_of_erasures_where_there_are_none(run: Run, lake: Lake, tmp_path: Path) -> None:
    run("docs", "build", lake.storage.url, "-o", tmp_path / "site")
    assert not any(" erased</small>" in path.read_text() for path in (tmp_path / "site").rglob("*.html"))


def test_a_report_is_written_where_something_is_erased(run: Run, lake: Lake, tmp_path: Path) -> None:
    asked = ["erase", lake.storage.url, "--where", "n = 7", "--report", tmp_path / "report.json"]
    assert run(*asked).exit_code == 0
    assert not (tmp_path / "report.json").exists()
    assert run(*asked, "--delete").exit_code == 0
    assert '"records": 1' in (tmp_path / "report.json").read_text()
    again = run(*asked, "--delete")
    assert (again.exit_code, "file exists; name a new file" in again.stderr) == (2, True)


@pytest.mark.parametrize("command", [("erase", "--where"), ("verify", "--erased")])
def test_a_misspelt_condition_is_refused_though_a_stream_was_dropped(
    run: Run, lake: Lake, command: tuple[str, str]
) -> None:
    root = lake.storage.url
    assert run("drop", root, "--tap", "u", "--delete").exit_code == 0
    refused = run(command[0], root, command[1], "no = 1")
    assert (refused.exit_code, "no version of the stream declares 'no'" in refused.stderr) == (2, True)
    # Of one stream it is declared otherwise, which says more than that the others lack it.
    refused = run(command[0], root, command[1], "m = 1")
    assert (refused.exit_code, "'m' is compared with a number, and is declared as string" in refused.stderr) == (
        2,
        True,
    )
    assert run(command[0], root, command[1], "n = 100").exit_code == 0
