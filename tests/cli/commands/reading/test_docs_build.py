"""``singerlake docs build`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

from singerlake.format import layout
from singerlake.lake import Lake
from tests.cli.conftest import Run


def test_it_writes_a_site_and_says_where(run: Run, built: Path, tmp_path: Path) -> None:
    done = run("docs", "build", built, "-o", tmp_path / "site")
    assert done.exit_code == 0
    assert done.output == f"13 pages; open {tmp_path / 'site' / 'index.html'}\n"
    assert "flights" in (tmp_path / "site/taps/t.html").read_text()


def test_pages_of_what_is_gone_are_removed(run: Run, lake: Lake, root: Path, tmp_path: Path) -> None:
    run("docs", "build", root, "-o", tmp_path / "site")
    lake.storage.delete(layout.manifest_key("u", "x"))
    for entry in list(lake.storage.list("raw/u/")):
        lake.storage.delete(entry.key)
    for folder in sorted((root / "raw" / "u").rglob("*"), reverse=True):
        folder.rmdir()
    (root / "raw" / "u").rmdir()
    done = run("docs", "build", root, "-o", tmp_path / "site", "--json")
    gone = ["schemas/u/x/v1.html", "streams/u/x.html", "taps/u.html"]
    assert json.loads(done.stdout)["removed"] == gone
    assert not (tmp_path / "site/taps/u.html").exists()


def test_a_folder_with_other_files_is_refused_unless_told(run: Run, built: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    refused = run("docs", "build", built, "-o", tmp_path)
    assert refused.exit_code == 2
    assert "--beside" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    assert run("docs", "build", built, "-o", tmp_path, "--beside").exit_code == 0
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_samples_and_title(run: Run, built: Path, tmp_path: Path) -> None:
    done = run("docs", "build", built, "-o", tmp_path / "site", "--samples", 2, "--title", "The <lake>")
    assert done.exit_code == 0
    page = (tmp_path / "site/streams/t/flights.html").read_text()
    assert "The &lt;lake&gt;" in page
    assert "values of the 2 newest records" in page
    assert run("docs", "build", built, "-o", tmp_path / "site", "--samples", 6).exit_code == 2
