"""What the README, the tutorial and the how-tos show is what happens."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
import yaml

from singerlake.spark.java import Java
from tests.docs import readme
from tests.meltano import project
from tests.processes.shims import shims

ROOT = readme.README.parent
BIN = Path(sys.executable).parent


DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shims(tmp_path_factory.mktemp("programs"))


def follow(page: Path, folder: Path, programs: Path = BIN) -> int:
    """Write the page's files, run its commands, and compare what they print; how many commands ran. ``programs`` has
    those of the lake."""
    environment = {
        **{name: value for name, value in os.environ.items() if "SINGERLAKE" not in name and "MELTANO" not in name},
        "PATH": os.pathsep.join([str(programs), str(BIN), os.environ["PATH"]]),
        "COLUMNS": "200",
        "NO_COLOR": "1",
    }
    ran = 0
    for block in readme.blocks(page):
        if block.name and (block.language in {"json", "python"} or block.name == "projections.yml"):
            (folder / block.name).write_text(block.text)
        for command in readme.commands(block.text) if block.language == "console" else ():
            done = subprocess.run(
                command.line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
            )
            assert done.returncode == 0, done.stderr
            readme.assert_same(done.stdout, command.prints, command.line)
            ran += 1
    return ran


@pytest.mark.thorough
def test_the_commands_print_what_the_readme_shows(tmp_path: Path, java: Java) -> None:
    assert follow(readme.README, tmp_path) == 9


def test_the_tutorial_and_the_how_tos_that_go_on_from_it_print_what_is_shown(tmp_path: Path, programs: Path) -> None:
    assert follow(DOCS / "tutorial.md", tmp_path, programs) == 10
    ran = {
        name: follow(DOCS / f"how-to/{name}.md", tmp_path, programs)
        for name in ("production", "tables", "mappers", "bad-records", "verify", "copy", "stores", "catalog", "sql")
    }
    assert ran == {
        "production": 5,
        "tables": 12,
        "mappers": 1,
        "bad-records": 8,
        "verify": 3,
        "copy": 4,
        "stores": 2,
        "catalog": 4,
        "sql": 3,
    }


def test_the_how_to_on_files_needs_nothing_but_its_own(tmp_path: Path, programs: Path) -> None:
    assert follow(DOCS / "how-to/files.md", tmp_path, programs) == 16


def test_the_how_to_on_following_needs_nothing_but_its_own(tmp_path: Path, programs: Path) -> None:
    assert follow(DOCS / "how-to/follow.md", tmp_path, programs) == 6


@pytest.mark.parametrize(("page", "commands"), [("past", 11), ("upgrade", 5)])
def test_the_how_tos_on_the_past_and_on_upgrades_need_nothing_but_their_own(
    page: str, commands: int, tmp_path: Path, programs: Path
) -> None:
    assert follow(DOCS / f"how-to/{page}.md", tmp_path, programs) == commands


def test_the_how_to_on_erasing_needs_nothing_but_its_own(tmp_path: Path, programs: Path) -> None:
    assert follow(DOCS / "how-to/erase.md", tmp_path, programs) == 12


@pytest.mark.thorough
def test_the_how_to_on_tracing_needs_nothing_but_its_own(tmp_path: Path, programs: Path, java: Java) -> None:
    assert follow(DOCS / "how-to/why.md", tmp_path, programs) == 9


def test_the_how_to_on_atomic_runs_needs_nothing_but_its_own(tmp_path: Path, programs: Path) -> None:
    assert follow(DOCS / "how-to/atomic-runs.md", tmp_path, programs) == 7


def test_the_home_page_prints_what_is_shown(tmp_path: Path, programs: Path) -> None:
    assert follow(DOCS / "index.md", tmp_path, programs) == 3


def test_the_how_to_on_trouble_shows_errors_as_they_are(tmp_path: Path, programs: Path) -> None:
    assert follow(DOCS / "how-to/trouble.md", tmp_path, programs) == 3


def test_the_how_to_on_moving_from_others_brings_in_jsonl_and_parquet(tmp_path: Path, programs: Path) -> None:
    assert follow(DOCS / "how-to/from-others.md", tmp_path, programs) == 5
    duckdb.sql(f"COPY (FROM '{tmp_path}/users-*.jsonl') TO '{tmp_path}/users.parquet'")
    brought = [
        subprocess.run(
            [sys.executable, "bring.py", "users", files, "id"], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
        for files in ("'users.parquet'", "read_json('users-*.jsonl')")
    ]
    assert brought == [(tmp_path / "users.singer").read_text()] * 2


@pytest.mark.thorough
def test_spark_reads_the_files_of_the_how_to(tmp_path: Path, java: Java) -> None:
    follow(DOCS / "how-to/files.md", tmp_path)
    done = subprocess.run(
        [sys.executable, "spark_files.py"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300
    )
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if "|" in line]
    assert rows == [
        ["id", "property", "bytes"],
        ["1", "photo", "13"],
        ["1", "signature", "3"],
        ["2", "photo", "15"],
    ]


def test_the_readme_is_short() -> None:
    assert len(readme.README.read_text().split()) < 900


def test_the_meltano_project_to_copy_captures_and_replays(tmp_path: Path) -> None:
    """Only the third-party plugins are exchanged, for small ones, and what is installed here is not installed again."""
    (copied,) = [block.text for block in readme.blocks() if block.name == "meltano.yml"]
    wanted = yaml.safe_load(copied)
    for plugins in wanted["plugins"].values():
        for plugin in plugins:
            del plugin["pip_url"]
            if "variant" in plugin:
                del plugin["variant"]
                small = {"tap-postgres": "tap_rows.py", "target-csv": "target_keep.py"}[plugin["name"]]
                settings = {"tap_rows.py": ["source", "pause"], "target_keep.py": ["path"]}[small]
                values = {"source": str(tmp_path / "source.json"), "path": str(tmp_path / "kept.jsonl")}
                plugin["namespace"] = plugin["name"].replace("-", "_")
                plugin["executable"] = str(project.HERE / small)
                plugin["capabilities"] = ["catalog", "discover", "state"]
                plugin["settings"] = [{"name": name} for name in settings]
                plugin["config"] = {name: values[name] for name in settings if name in values}
    (tmp_path / "meltano.yml").write_text(yaml.safe_dump(wanted, sort_keys=False))
    mine = project.Project(tmp_path)
    mine.source_has(users=[{"id": 1}, {"id": 2}])
    mine.run("capture")
    mine.run("replay")
    messages = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert [message["record"] for message in messages if message["type"] == "RECORD"] == [{"id": 1}, {"id": 2}]


def test_the_plugins_of_the_how_to_on_moving_are_those_of_the_readme() -> None:
    pages = (readme.README, DOCS / "how-to/from-others.md")
    here, there = (
        {
            plugin["name"]: {key: value for key, value in plugin.items() if key != "commands"}
            for block in readme.blocks(page)
            if block.name == "meltano.yml"
            for kind in ("loaders", "utilities")
            for plugin in yaml.safe_load(block.text)["plugins"][kind]
        }
        for page in pages
    )
    for name in ("target-singerlake", "singerlake"):
        assert here[name] == there[name]


def test_every_file_it_links_to_is_there() -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", readme.README.read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_make_target_it_names_is_there() -> None:
    text = readme.README.read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"(?:^ *|`)make ([a-z]+)", text, re.MULTILINE))
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {"demo", "test"} <= named <= set(re.findall(r"make ([a-z]+)", shown))


@pytest.mark.parametrize("command", ["ls", "verify", "rebuild", "lock"])
def test_every_command_is_named(command: str) -> None:
    assert f"singerlake {command}" in readme.README.read_text()
