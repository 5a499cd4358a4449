"""``singerlake init``: what it writes can be used as it is, and nothing that is there is overwritten."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from singerlake.cli.main import main
from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.cli.test_docs import leaves
from tests.lakes import build_stream

FILES = ("config.json", "meltano.yml", "projections.yml")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MELTANO_PROJECT_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_taps_of_a_lake_are_named_where_it_has_several(run: Run) -> None:
    for tap in ("a", "b"):
        build_stream(Lake.open("lake"), tap, "users", {"properties": {"id": {"type": "integer"}}}, [{"id": 1}])
    said = run("init").stdout.splitlines()[-2:]
    assert said == ["lake lake, tap my-tap", "the lake has a, b; --tap TAP writes one of them into the files"]
    assert run("init", "--tap", "b").stdout.splitlines()[-1].endswith("lake, tap b")


def test_what_it_writes_takes_a_capture_and_makes_its_tables(run: Run, folder: Path) -> None:
    done = run("init")
    assert (done.exit_code, done.stdout.splitlines()) == (
        0,
        [*(f"{name}: written" for name in FILES), "lake lake, tap my-tap"],
    )
    assert not Path("lake").exists()
    schema = {"type": "SCHEMA", "stream": "users", "schema": {"properties": {"id": {"type": "integer"}}}}
    lines = [{**schema, "key_properties": ["id"]}, {"type": "RECORD", "stream": "users", "record": {"id": 1}}]
    code = "from target_singerlake.target import TargetSingerlake as it; it.cli()"
    subprocess.run(
        [sys.executable, "-c", code, "--config", "config.json"],
        input="".join(json.dumps(line) + "\n" for line in lines),
        encoding="utf-8",
        check=True,
        timeout=60,
    )
    made = run("project", "run")
    assert (made.exit_code, made.stdout.startswith("users: 1 record read: 1 new")) == (0, True), made.output
    assert run("tail").stdout.count("RECORD") == 1


def test_meltano_gets_every_command(run: Run) -> None:
    run("init", "s3://bucket/lake", "--tap", "tap-x")
    [utility] = yaml.safe_load(Path("meltano.yml").read_text())["plugins"]["utilities"]
    every = {path for path, command in leaves(main) if isinstance(command, click.Command)} - {"init"}
    assert utility["commands"] == {path.replace(" ", "-"): path for path in every} | {"project": "project run"}
    assert json.loads(Path("config.json").read_text()) == {"lake_root": "s3://bucket/lake", "tap_id": "tap-x"}


def test_what_is_there_stays_and_is_found_out(run: Run) -> None:
    build_stream(Lake.open("other"), "crm", "people", {"properties": {"n": {"type": "integer"}}}, [{"n": 1}])
    Path("meltano.yml").write_text("mine")
    Path("projections.yml").write_text("lake_root: other\ntables: {}\n")
    done = json.loads(run("init", "--json").stdout)
    assert (done["tap"], done["written"], done["kept"]) == ("crm", ["config.json"], ["meltano.yml", "projections.yml"])
    assert Path("meltano.yml").read_text() == "mine"
    assert json.loads(run("init", "--json").stdout)["written"] == []


@pytest.mark.parametrize("name", ['a"b: {c}', "x\ny", "\x1b[31m", "$HOME", "ü #"])
def test_no_name_breaks_out_of_a_file(run: Run, name: str) -> None:
    done = run("init", "lake", "--tap", name)
    assert (done.exit_code, "\x1b" in done.output) == (0, False)
    assert json.loads(Path("config.json").read_text())["tap_id"] == name
    assert yaml.safe_load(Path("projections.yml").read_text())["tables"]["*"]["from"]["tap"] == name
    assert yaml.safe_load(Path("meltano.yml").read_text())["plugins"]["extractors"][0]["name"] == name
