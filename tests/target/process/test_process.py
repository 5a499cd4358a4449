"""The target as a process: signals, time, a slow tap, a reader of STATE that went away."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from singerlake.humanize import size
from singerlake.lake import Lake
from tests.processes.plugins import Plugin
from tests.target.support import (
    TAP,
    command,
    configured,
    environment,
    kept_ids,
    manifest,
    record,
    records,
    run,
    schema,
    state,
    text,
)

SOON = 60.0
"""Seconds within which what a test waits for has to happen; far more than it takes."""


@contextmanager
def started(root: Path, folder: Path, **settings: Any) -> Iterator[Plugin]:
    """A target whose standard input is a pipe that stays open."""
    with (folder / "log").open("wb") as log:
        process = Plugin("target", configured(root, folder, **settings), env=environment(), stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream:
                    stream.close()


def send(process: Plugin, data: bytes) -> None:
    assert process.stdin
    process.stdin.write(data)
    process.stdin.flush()


def wait_until_read(process: Plugin, folder: Path, root: Path, stream: str = "users") -> None:
    """Wait until the target has taken in a record of a stream: it then looks the stream's manifest up, and makes it."""
    deadline = time.monotonic() + SOON
    while not (root / "raw" / TAP / stream / "manifest.json").exists():
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.05)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_commits_the_whole_lines_emits_the_last_safe_state_and_is_no_success(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    root = tmp_path / "lake"
    with started(root, tmp_path) as process:
        send(process, text([schema(), *records(1, 2), state({"at": 2}), record(3)]) + record(4)[:10])
        wait_until_read(process, tmp_path, root)
        process.send_signal(number)
        out, _ = process.communicate(timeout=SOON)
    assert process.returncode == code
    assert out == b'{"at": 2}\n'
    assert kept_ids(root) == [1, 2, 3]
    assert manifest(root).runs[0].status == "stopped"


def test_a_signal_during_a_steady_stream_loses_nothing_its_state_promises(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    with started(root, tmp_path) as process:
        send(process, text([schema()]))
        sent = 0
        while sent < 20_000:
            send(process, text([*records(*range(sent, sent + 1000)), state({"at": sent + 1000})]))
            sent += 1000
        process.terminate()
        out, _ = process.communicate(timeout=SOON)
    assert process.returncode == 143
    kept = kept_ids(root)
    assert kept == list(range(len(kept)))
    promised = json.loads(out.splitlines()[-1])["at"]
    assert promised <= len(kept)


def test_a_file_is_committed_by_age_while_the_input_is_silent(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    with started(root, tmp_path, max_file_age_seconds=1) as process:
        send(process, text([schema(), *records(1, 2), state({"at": 2})]))
        assert process.stdout
        assert process.stdout.readline() == b'{"at": 2}\n'
        assert kept_ids(root) == [1, 2]
        assert manifest(root).runs[0].status == "running"
        send(process, text([record(3), state({"at": 3})]))
        assert process.stdout.readline() == b'{"at": 3}\n'
        assert process.poll() is None
        process.stdin.close()  # type: ignore[union-attr]
        assert process.wait(SOON) == 0
    assert [file.records for file in manifest(root).files] == [2, 1]


def test_an_age_of_0_means_never(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    with started(root, tmp_path, max_file_age_seconds=0) as process:
        send(process, text([schema(), *records(1), state({"at": 1})]))
        wait_until_read(process, tmp_path, root)
        time.sleep(1.5)
        assert manifest(root).files == ()
        out, _ = process.communicate(timeout=SOON)
    assert out == b'{"at": 1}\n'


def test_a_state_goes_out_as_soon_as_a_full_file_is_committed(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    with started(root, tmp_path, max_file_records=2) as process:
        send(process, text([schema(), *records(1, 2), state({"at": 2})]))
        assert process.stdout
        assert process.stdout.readline() == b'{"at": 2}\n'
        assert kept_ids(root) == [1, 2]
        assert process.poll() is None


def test_a_reader_of_state_that_went_away_costs_no_commit_and_is_no_success(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    with started(root, tmp_path, max_file_records=1) as process:
        assert process.stdout
        process.stdout.close()
        process.stdout = None
        send(process, text([schema(), *records(1), state({"at": 1}), *records(2, 3), state({"at": 3})]))
        process.stdin.close()  # type: ignore[union-attr]
        process.stdin = None
        assert process.wait(SOON) == 1
    assert kept_ids(root) == [1, 2, 3]
    log = (tmp_path / "log").read_text()
    assert "STATE could not be written to standard output (broken pipe)" in log
    assert "Traceback" not in log


def test_a_standard_output_that_is_closed_or_full_costs_no_commit(tmp_path: Path) -> None:
    data = text([schema(), *records(1), state({"at": 1})])
    for number, out in enumerate((">&-", "> /dev/full"), 1):
        line = f"exec {shlex.join(command(tmp_path / 'lake', tmp_path))} {out}"
        done = subprocess.run(["sh", "-c", line], input=data, stderr=subprocess.PIPE, env=environment(), timeout=SOON)
        assert done.returncode == 1
        assert b"STATE could not be written" in done.stderr
        assert kept_ids(tmp_path / "lake") == [1] * number


def test_a_file_given_as_input_is_read(tmp_path: Path) -> None:
    data = tmp_path / "input.singer"
    data.write_bytes(text([schema(), *records(1, 2), state({"at": 2})]))
    done = subprocess.run(
        [*command(tmp_path / "lake", tmp_path), "--input", str(data)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(),
        timeout=SOON,
        check=True,
    )
    assert done.stdout == b'{"at": 2}\n'
    assert kept_ids(tmp_path / "lake") == [1, 2]


def test_a_name_moves_no_cursor_in_the_log(tmp_path: Path) -> None:
    name = "esc\x1b[31mred\x1b]0;title\x07\nforged line"
    line = {"type": "SCHEMA", "stream": name, "schema": {"properties": {}}, "key_properties": []}
    done = run(tmp_path / "lake", tmp_path, [json.dumps(line).encode()])
    assert "Stream 'esc\\x1b[31mred" in done.log
    assert "\x1b" not in done.log
    assert "\nforged" not in done.log


def test_the_log_sums_up_every_stream_and_keeps_the_metrics_of_singer_sdk(tmp_path: Path) -> None:
    lines = [schema(), *records(1, 2, 3), schema("empty"), schema("users", keys=()), *records(4)]
    done = run(tmp_path / "lake", tmp_path, lines)
    stored = size(sum(file.bytes for file in manifest(tmp_path / "lake").files))
    assert f"Stream 'users': 4 records in 2 files, {stored}, versions v1" in done.log
    assert "Stream 'empty': 0 records in 0 files, 0 B, versions none" in done.log
    points = [json.loads(line.split("METRIC: ")[1]) for line in done.log.splitlines() if "METRIC: " in line]
    counted = {p["tags"]["stream"]: p["value"] for p in points if p["metric"] == "record_count"}
    assert counted == {"users": 4, "empty": 0}
    assert [p["metric"] for p in points].count("batch_processing_time") == 2


def test_structured_logging_is_as_singer_sdk_has_it(tmp_path: Path) -> None:
    settings = tmp_path / "logging.yaml"
    settings.write_text(
        "version: 1\ndisable_existing_loggers: false\n"
        "formatters: {json: {(): singer_sdk.logging.StructuredFormatter}}\n"
        "handlers: {file: {class: logging.FileHandler, formatter: json, filename: %s}}\n"
        "root: {level: INFO, handlers: [file]}\n" % (tmp_path / "structured.log")
    )
    run(tmp_path / "lake", tmp_path, [schema(), *records(1)], env={"SINGER_SDK_LOG_CONFIG": str(settings)})
    entries = [json.loads(line) for line in (tmp_path / "structured.log").read_text().splitlines()]
    assert any("Stream 'users'" in entry["message"] for entry in entries)


def test_nothing_is_left_in_the_spool(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    run(tmp_path / "lake", tmp_path, [schema(), *records(1)], spool_dir=str(spool))
    run(tmp_path / "lake", tmp_path, [schema(), *records(1), b"oops"], spool_dir=str(spool))
    assert list(spool.iterdir()) == []
    assert kept_ids(tmp_path / "lake") == [1, 1]


def test_a_local_lake_needs_no_boto3(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from target_singerlake.target import TargetSingerlake\n"
        f"target = TargetSingerlake(config={{'lake_root': {str(tmp_path / 'lake')!r}, 'tap_id': 'a'}})\n"
        "target.listen()\n"
        "assert not [name for name in sys.modules if name.split('.')[0] in ('boto3', 'botocore', 'smart_open')]\n"
    )
    subprocess.run(
        [sys.executable, "-c", script], input=text([schema(), *records(1)]), env=environment(), check=True, timeout=SOON
    )
    assert Lake.open(str(tmp_path / "lake")).streams("a") == ["users"]


def test_about_and_version_answer(tmp_path: Path) -> None:
    def answer(*arguments: str) -> str:
        argv = [sys.executable, "-m", "target_singerlake.target", *arguments]
        return subprocess.run(argv, capture_output=True, env=environment(), check=True, text=True, timeout=SOON).stdout

    assert answer("--version").startswith("target-singerlake v")
    about = json.loads(answer("--about", "--format=json"))
    assert set(about["capabilities"]) >= {"about", "stream-maps", "schema-flattening", "batch", "activate-version"}
    properties = about["settings"]["properties"]
    assert not {"load_method", "batch_size_rows", "batch_config"} & set(properties)
    for name, described in properties.items():
        assert described.get("description"), name
        assert described.get("title"), name
    secrets = {name for name, described in properties.items() if described.get("secret")}
    clouds = {f"azure_{name}" for name in ("account_key", "sas_token", "connection_string", "client_secret")}
    clouds.add("gcs_service_account_json")
    assert secrets == {"aws_access_key_id", "aws_secret_access_key", "aws_session_token", "postgres_url", *clouds}
    assert os.environ.get("TARGET_SINGERLAKE_LAKE_ROOT") is None


def test_a_standard_input_that_was_closed_from_the_start_is_one_line(tmp_path: Path) -> None:
    closed = ["sh", "-c", '"$@" <&-', "sh", *command(tmp_path / "lake", tmp_path)]
    done = subprocess.run(closed, capture_output=True, env=environment(), timeout=SOON)
    log = done.stderr.decode()
    assert (done.returncode, "Traceback" in log) == (1, False)
    assert "standard input is closed; pipe a tap's output into the target" in log


def test_settings_that_nobody_knows_are_told_and_the_rest_is_done(tmp_path: Path) -> None:
    lines = [schema(), *records(1, 2)]
    done = run(tmp_path / "lake", tmp_path, lines, max_file_byte=5, load_method="append-only")
    assert (done.code, kept_ids(tmp_path / "lake")) == (0, [1, 2])
    assert "setting 'max_file_byte' is not known and does nothing; did you mean 'max_file_bytes'?" in done.log
    assert "setting 'load_method' is not known and does nothing" in done.log
    assert "not known" not in run(tmp_path / "lake", tmp_path, lines).log


def test_a_misspelt_setting_is_told_beside_the_one_that_is_missing(tmp_path: Path) -> None:
    line = command(tmp_path / "lake", tmp_path)
    Path(line[-1]).write_text(json.dumps({"lake_rot": str(tmp_path), "tap_id": TAP}))
    done = subprocess.run(line, input=b"", capture_output=True, env=environment(), timeout=SOON)
    log = done.stderr.decode()
    assert (done.returncode, "Traceback" in log) == (1, False)
    assert "'lake_root' is a required property" in log
    assert "setting 'lake_rot' is not known and does nothing; did you mean 'lake_root'?" in log


@pytest.mark.sampled(content=1)
@pytest.mark.parametrize(
    ("content", "says"), [(None, "was not found"), ("{", "config is not JSON"), ("", "config is not JSON")]
)
def test_a_configuration_that_cannot_be_read_is_one_line(tmp_path: Path, content: str | None, says: str) -> None:
    line = command(tmp_path / "lake", tmp_path)
    file = Path(line[-1])
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    done = subprocess.run(line, input=b"", capture_output=True, env=environment(), timeout=SOON)
    log = done.stderr.decode()
    assert (done.returncode, "Traceback" in log) == (1, False)
    assert says in log
