"""Singerlake under Meltano, as its users run it: capture, replay, check, and what happens when something dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import click
import psutil
import pytest
import yaml
from click.testing import CliRunner

from singerlake.cli.main import main
from singerlake.lake import Lake
from tests.meltano.project import BIN, Project, Row, named, utility_commands
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY
from tests.servers.sqs.server import SqsServer


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path).create()


def rows(first: int, last: int, **more: object) -> list[Row]:
    return [{"id": number, "name": f"row {number}", **more} for number in range(first, last + 1)]


def of(stream: str, records: list[Row]) -> list[tuple[str, Row]]:
    return [(stream, record) for record in records]


@pytest.mark.thorough
def test_only_what_is_new_is_captured_and_replayed_with_a_stream_and_a_column_that_appear(project: Project) -> None:
    project.source_has(users=rows(1, 5))
    project.captured()
    assert project.replayed() == of("users", rows(1, 5))

    wider = rows(6, 7, email="a@example.com")
    project.source_has(users=[*rows(1, 5), *wider], orders=rows(1, 3))
    project.captured()
    again = rows(5, 5)  # The tap repeats the row of its bookmark.
    assert sorted(project.replayed(), key=str) == sorted(
        [*of("users", [*again, *wider]), *of("orders", rows(1, 3))], key=str
    )


@pytest.mark.thorough
@pytest.mark.sampled(way=1)
@pytest.mark.parametrize("way", ["file", "environment", "command"])
def test_records_are_replayed_in_batches(project: Project, tmp_path: Path, way: str) -> None:
    project.lake_has("users", rows(1, 3))
    value = {"encoding": {"format": "jsonl", "compression": "none"}, "storage": {"root": str(tmp_path / "batches")}}
    told = {"TAP_SINGERLAKE_BATCH_CONFIG": json.dumps(value)} if way == "environment" else {}
    if way == "file":
        written = yaml.safe_load((tmp_path / "meltano.yml").read_text())
        named("tap-singerlake", written["plugins"]["extractors"])["config"]["batch_config"] = value
        (tmp_path / "meltano.yml").write_text(yaml.safe_dump(written))
    if way == "command":
        done = project.meltano("config", "set", "tap-singerlake", "batch_config", json.dumps(value))
        assert done.returncode == 0, done.stdout
    assert project.replayed(**told) == []
    kept = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    (batch,) = [message for message in kept if message["type"] == "BATCH"]
    file = Path(batch["manifest"][0].removeprefix("file://"))
    assert [json.loads(line) for line in file.read_text().splitlines()] == rows(1, 3)
    assert project.replayed(**told) == []


@pytest.mark.thorough
def test_a_replay_starts_at_a_version_and_again_from_there_on_full_refresh(project: Project) -> None:
    wider = rows(3, 4, email="a@example.com")
    project.lake_has("users", rows(1, 2))
    project.lake_has("users", [*rows(2, 2), *wider])

    since = of("users", [*rows(2, 2), *wider])
    assert project.replayed(TAP_SINGERLAKE_FROM_VERSION="v2") == since
    assert project.replayed(TAP_SINGERLAKE_FROM_VERSION="v2") == []
    assert project.replayed("--full-refresh", TAP_SINGERLAKE_FROM_VERSION="v2") == since


@pytest.mark.thorough
def test_only_selected_streams_are_replayed(project: Project) -> None:
    project.lake_has("users", rows(1, 2))
    project.lake_has("orders", rows(1, 3))
    assert project.meltano("select", "tap-singerlake", "orders", "*").returncode == 0
    assert project.replayed() == of("orders", rows(1, 3))


@pytest.mark.thorough
def test_a_target_killed_after_a_commit_fails_the_run_and_the_next_run_loses_nothing(project: Project) -> None:
    project.source_has(users=rows(1, 5))
    project.captured()
    project.source_has(users=rows(1, 9))
    run = subprocess.Popen(
        [BIN / "meltano", "run", "tap-rows", "target-singerlake"],
        cwd=project.folder,
        env=project.environment({"TAP_ROWS_PAUSE": str(project.folder), "TARGET_SINGERLAKE_MAX_FILE_RECORDS": "1"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # A file is on the disk before it is committed: one whose target is killed between the two stays as unlisted.
    while committed_files(project) < 2:
        assert run.poll() is None, run.communicate()[0]
        time.sleep(0.02)
    os.kill(child(run.pid, "target-singerlake"), signal.SIGKILL)
    (project.folder / "go").touch()
    output, _ = run.communicate(timeout=120)
    assert run.returncode != 0, output

    project.captured()
    assert CliRunner().invoke(main, ["verify", str(project.lake)]).exit_code == 0
    captured = Lake.open(str(project.lake)).stream("tap-rows", "users").to_arrow(columns=["id"]).read_all()
    assert set(captured.column("id").to_pylist()) == set(range(1, 10))


def committed_files(project: Project) -> int:
    state = Lake.open(str(project.lake)).stream("tap-rows", "users").state()
    return len(state.files) if state else 0


def child(parent: int, name: str) -> int:
    """The process id of the one process below ``parent`` that runs the command ``name``."""
    found = [
        process.pid
        for process in psutil.Process(parent).children(recursive=True)
        if any(Path(part).name == name for part in process.cmdline())
    ]
    assert len(found) == 1
    return found[0]


def test_tables_are_made_in_the_same_run(project: Project) -> None:
    (project.folder / "projections.yml").write_text("tables: {people: {from: tap-rows.users}}\n")
    project.source_has(users=rows(1, 5))
    said = project.run("tap-rows", "target-singerlake", "singerlake:project")
    assert "people: 5 records read: 5 new" in said
    table = Lake.open(str(project.lake)).table("people")
    assert table.to_arrow(columns=["id"]).read_all().column("id").to_pylist() == [1, 2, 3, 4, 5]


INVOKED = {
    "annotate": ["--tap", "tap-rows", "--owner", "Data team"],
    "catalog-register": ["--help"],
    "compare": ["tap-rows", "tap-rows"],
    "diff": ["v1", "v2"],
    "project-as-of": ["people", "--offset", "1"],
    "project-diff": ["people", "--from", "1"],
    "release": ["--help"],
    "why": ["people", "--key", "id=1"],
    "docs-build": ["-o", "site"],
    "drop": ["--tap", "tap-rows", "--stream", "users"],
    "project-drop": ["people", "--delete"],
    "erase": ["--tap", "tap-rows", "--stream", "users", "--where", "id = 1"],
    "expire": ["--tap", "tap-rows", "--stream", "users", "--before-offset", "1"],
    "policy-set": ["--tap", "tap-rows", "--older-than", "400d"],
    "policy-unset": ["--tap", "tap-rows"],
    "sql": ["SHOW TABLES"],
    "put": ["--tap", "office", "--stream", "files", "meltano.yml"],
    "lock-break": ["--tap", "tap-rows", "--stream", "users"],
    "store-create": ["--help"],
    "store-migrate": ["--to", "log", "--yes"],
    "store-trim": ["--yes"],
    "tail": ["--tap", "tap-rows", "--stream", "users"],
}
"""Commands that need an argument each; a store in a database needs the database."""
OF_A_QUEUE = {"commit-worker": ["--once"]}
"""Commands that need a queue."""


def test_no_command_that_needs_arguments_is_run_without_them() -> None:
    for name in utility_commands().keys() - INVOKED.keys() - OF_A_QUEUE.keys():
        words = utility_commands()[name]["args"].split()
        command: click.Command | None = main
        for word in words:
            assert isinstance(command, click.Group)
            command = command.get_command(click.Context(command), word)
        assert command is not None, words
        needed = [param.human_readable_name for param in command.params if param.required]
        assert needed in ([], ["LAKE"]), f"name arguments for {name}"


def test_every_command_runs_as_meltano_starts_it(
    project: Project, sqs: SqsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the words of its definition, in the project's folder, its settings in the environment."""
    project.lake_has("users", rows(1, 5))
    project.lake_has("users", rows(6, 9, email="x"))
    (project.folder / "projections.yml").write_text("tables: {people: {from: tap-rows.users}}\n")
    monkeypatch.chdir(project.folder)
    settings = {
        "SINGERLAKE_LAKE_ROOT": str(project.lake),
        "SINGERLAKE_COMMIT_QUEUE_URL": sqs.queue(),
        "SINGERLAKE_AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "SINGERLAKE_AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        "SINGERLAKE_AWS_REGION": REGION,
    }

    def said(name: str) -> str:
        words = utility_commands()[name]["args"].split()
        ran = CliRunner().invoke(main, [*words, *arguments.get(name, [])], env=settings)
        assert ran.exit_code == 0, (name, ran.output)
        return ran.output

    arguments = {**INVOKED, **OF_A_QUEUE}
    assert utility_commands().keys() > arguments.keys()
    served = {"catalog-serve", "serve"}  # until a signal comes
    without = {name: said(name) for name in sorted(utility_commands().keys() - arguments.keys() - served)}
    assert "tap-rows/users: nothing to delete" in without["gc"]
    assert "tap-rows/users: nothing to join" in without["vacuum"]
    for name in arguments:
        said(name)
    assert (project.folder / "site" / "index.html").exists()
    assert "log" in said("store-ls")


@pytest.mark.thorough
def test_a_dropped_stream_is_captured_again_once_the_state_of_the_tap_is_cleared(project: Project) -> None:
    project.source_has(users=rows(1, 5))
    project.captured()
    assert project.replayed() == of("users", rows(1, 5))
    dropped = CliRunner().invoke(main, ["drop", str(project.lake), "--tap", "tap-rows", "--delete"])
    assert dropped.exit_code == 0, dropped.output
    cleared = project.meltano("state", "clear", "--force", "test:tap-rows-to-target-singerlake")
    assert cleared.returncode == 0, cleared.stdout
    project.captured()
    behind = project.meltano("run", "tap-singerlake", "target-keep")
    assert behind.returncode != 0
    assert "run with --full-refresh" in behind.stdout
    assert project.replayed("--full-refresh") == of("users", rows(1, 5))


@pytest.mark.thorough
def test_a_command_in_json_is_for_programs(project: Project) -> None:
    project.lake_has("users", rows(1, 5))
    ran = subprocess.run(
        [BIN / "meltano", "--log-level", "error", "invoke", "singerlake:status", "--json"],
        cwd=project.folder,
        env=project.environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    (stream,) = json.loads(ran.stdout)["streams"]
    assert stream["stream"] == "users"


def test_a_damaged_lake_fails_the_run(project: Project) -> None:
    project.lake_has("users", rows(1, 5))
    (file,) = project.lake.rglob("*.singer.gz")
    file.write_bytes(file.read_bytes()[:-1])
    ran = project.meltano("run", "singerlake:verify")
    assert ran.returncode != 0
    assert file.name in ran.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("plugin", ["target-singerlake", "tap-singerlake"])
def test_meltano_finds_the_configuration_valid(project: Project, plugin: str) -> None:
    project.lake_has("users", rows(1, 5))
    tested = project.config_test(plugin, TARGET_SINGERLAKE_TAP_ID="config-test")
    assert tested.returncode == 0, tested.stdout
    assert "Plugin configuration is valid" in tested.stdout


@pytest.mark.thorough
def test_meltano_finds_a_lake_root_that_cannot_be_written_invalid(project: Project) -> None:
    (project.folder / "lake").write_text("not a folder")
    tested = project.config_test("target-singerlake", TARGET_SINGERLAKE_TAP_ID="config-test")
    assert tested.returncode != 0
    assert "Plugin configuration is invalid" in tested.stdout
