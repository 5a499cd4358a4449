"""The tap as a process: its exit codes, what it says when something is wrong, and how it ends when it is told to."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lakes import build_stream
from tests.processes.plugins import Plugin
from tests.tap.runs import COMMAND, V1, V2, command, configured, environment, replay, run_process


def config(root: Path, **settings) -> dict:
    return {"lake_root": str(root), "tap_id": "tap-a", **settings}


def complaint(result: subprocess.CompletedProcess[bytes]) -> str:
    """The one line a failed run says; a traceback or a second complaint fails the test."""
    assert result.returncode == 1
    assert b"Traceback" not in result.stderr
    lines = [line for line in result.stderr.decode().splitlines() if re.search(r"\| (CRITICAL|ERROR) ", line)]
    assert len(lines) == 1, result.stderr.decode()
    return lines[0]


def test_a_run_is_bytes_on_stdout_and_exit_code_zero(flights, root, tmp_path):
    result = run_process(tmp_path, config(root))
    assert result.returncode == 0
    assert result.stdout.count(b"RECORD") == 300
    assert b"replayed 300 records of 'flights'" in result.stderr


def test_discovery_state_and_catalog_go_round(flights, root, tmp_path):
    catalog, state = tmp_path / "catalog.json", tmp_path / "state.json"
    catalog.write_bytes(run_process(tmp_path, config(root), "--discover").stdout)
    first = run_process(tmp_path, config(root), "--catalog", str(catalog))
    state.write_text(json.dumps(json.loads(first.stdout.splitlines()[-1])["value"]))
    second = run_process(tmp_path, config(root), "--catalog", str(catalog), "--state", str(state))
    assert (first.stdout.count(b"RECORD"), second.stdout.count(b"RECORD")) == (300, 0)
    assert second.returncode == 0


def test_from_version_may_be_an_object_in_the_configuration_file(lake, root, tmp_path):
    build_stream(lake, "tap-a", "s", V1, [{"id": 1}])
    build_stream(lake, "tap-a", "s", V2, [{"id": 2, "name": "Ada"}])
    result = run_process(tmp_path, config(root, from_version={"s": "v2"}))
    records = [json.loads(line)["record"] for line in result.stdout.splitlines() if b'"RECORD"' in line]
    assert records == [{"id": 2, "name": "Ada"}]


def test_structured_logging_is_as_singer_sdk_has_it(flights, root, tmp_path):
    settings, log = tmp_path / "logging.yml", tmp_path / "structured.log"
    settings.write_text(
        "version: 1\ndisable_existing_loggers: false\n"
        "formatters: {json: {(): singer_sdk.logging.StructuredFormatter}}\n"
        f"handlers: {{file: {{class: logging.FileHandler, formatter: json, filename: {log}}}}}\n"
        "root: {level: INFO, handlers: [file]}\n"
    )
    told = environment(SINGER_SDK_LOG_CONFIG=str(settings))
    subprocess.run(command(tmp_path, config(root)), capture_output=True, env=told, check=True, timeout=60)
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert "replayed 300 records of 'flights'" in [entry["message"] for entry in entries]
    metrics = [entry["metric_info"] for entry in entries if "metric_info" in entry]
    assert ("record_count", 300) in [(metric["metric"], metric["value"]) for metric in metrics]


def test_the_sdks_test_mode_writes_one_record_of_each_stream(flights, root, tmp_path):
    assert run_process(tmp_path, config(root), "--test").stdout.count(b'"RECORD"') == 1
    schemas = run_process(tmp_path, config(root), "--test=schema").stdout.splitlines()
    assert [json.loads(line)["type"] for line in schemas] == ["SCHEMA"]


@pytest.mark.sampled(settings=3)
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"lake_root": "/nowhere/at/all"}, r"nothing here is a lake; check lake_root"),
        ({"lake_root": "gopher://lake"}, r"lake_root has an unknown scheme"),
        ({"tap_id": "tap-b"}, r"no tap 'tap-b' in this lake; set tap_id to one of: tap-a"),
        ({"streams": ["fligths"]}, r"no stream 'fligths' of this tap; it has: flights"),
        ({"from_version": "v9"}, r"has no version 'v9'; it has: v1 \(.*\), v2"),
        ({"from_version": {"fligths": "v1"}}, r"from_version names stream 'fligths'.*it has: flights"),
        ({"from_version": '{"flights": v1}'}, r"from_version begins like JSON but is not valid JSON"),
        ({"from_version": {"flights": 2}}, r"from_version does not name a version"),
        ({"versions": ["v1", "v8"]}, r"has no version 'v8'"),
        ({"versions": [1]}, r"1 is not of type 'string'"),
        ({"stream_maps": {"flights": {"x": "1 +"}}}, r"Failed to parse expression"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_wrong_setting_is_one_line_that_says_what_to_do(flights, root, tmp_path, settings, says):
    result = run_process(tmp_path, {**config(root), **settings})
    if b"Config validation failed" in result.stderr:
        assert result.returncode == 1
        assert re.search(says, result.stderr.decode())
    else:
        assert re.search(says, complaint(result))
    assert b"RECORD" not in result.stdout


@pytest.mark.parametrize("value", [["hunter2"], {"a": "hunter2"}])
def test_a_secret_of_the_wrong_kind_is_named_and_not_shown(root, tmp_path, value):
    result = run_process(tmp_path, config(root, aws_secret_access_key=value))
    assert result.returncode == 1
    assert b"aws_secret_access_key is not valid (its value is not shown)" in result.stderr
    assert b"hunter2" not in result.stderr


def test_a_version_that_one_of_several_streams_has_not_says_how_to_ask_it_of_the_others(flights, lake, root, tmp_path):
    build_stream(lake, "tap-a", "airports", V1, [{"id": 1}])
    line = complaint(run_process(tmp_path, config(root, from_version="v2")))
    assert "from_version asks for versions that 1 of 2 streams do not have: stream 'airports' has no version" in line
    assert "'airports': it has: v1 (" in line
    assert """to ask of the others only, set it to {"flights": "v2"}""" in line
    one = complaint(run_process(tmp_path, config(root, from_version="v2", streams=["airports"])))
    assert "others" not in one
    assert run_process(tmp_path, config(root, from_version={"flights": "v2"})).stdout.count(b'"RECORD"') == 51


def test_settings_that_nobody_knows_are_told_and_do_no_harm(flights, root, tmp_path):
    result = run_process(tmp_path, {**config(root), "from_verzion": "v2", "x\x1b[2J": "hunter2"})
    log = result.stderr.decode()
    assert result.returncode == 0
    assert "setting 'from_verzion' is not known and does nothing; did you mean 'from_version'?" in log
    assert "setting 'x\\x1b[2J' is not known and does nothing" in log
    assert "hunter2" not in log
    assert "not known" not in run_process(tmp_path, config(root)).stderr.decode()


def test_missing_settings_are_named_also_by_discovery_and_test(tmp_path):
    for arguments in ((), ("--discover",), ("--test",)):
        result = run_process(tmp_path, {}, *arguments)
        assert result.returncode == 1
        assert b"'lake_root' is a required property" in result.stderr
        assert b"'tap_id' is a required property" in result.stderr
        assert b"Traceback" not in result.stderr


@pytest.mark.sampled(body=2)
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", r"not a JSON object.*key='raw/tap-a/flights/manifest.json'"),
        (b"[]", r"not a JSON object.*manifest.json"),
        (b'{"format": 99}', r"written in format 99.*upgrade singerlake.*manifest.json"),
        (b'{"format": 1, "tap": "tap-a"}', r"not a manifest.*manifest.json"),
        ("foreign", r"manifest belongs to stream 'elsewhere'.*manifest.json"),
    ],
    ids=["cut", "not an object", "future", "incomplete", "foreign"],
)
def test_a_manifest_that_cannot_be_read_is_named_by_its_key(flights, root, tmp_path, body, says):
    path = root / "raw" / "tap-a" / "flights" / "manifest.json"
    if body == "foreign":
        body = path.read_bytes().replace(b'"stream":"flights"', b'"stream":"elsewhere"')
    path.write_bytes(body)
    result = run_process(tmp_path, config(root))
    assert re.search(says, complaint(result))
    assert result.stdout == b""
    assert path.read_bytes() == body


def test_a_broken_catalogue_is_named_by_its_key_and_keeps_no_message_back(flights, root, tmp_path):
    build_stream(flights, "tap-a", "another", V1, [{"id": 1}], key_properties=["id"])
    (root / "raw" / "tap-a" / "catalogue.json").write_bytes(b'{"streams": 5}')
    result = run_process(tmp_path, config(root))
    assert b"key='raw/tap-a/catalogue.json'" in result.stderr
    assert (result.returncode, result.stdout.count(b'"RECORD"')) == (0, 301)


def test_a_broken_file_ends_the_run_and_no_state_lies_past_it(flights, root, tmp_path):
    second = flights.stream("tap-a", "flights").snapshot().files[1]
    path = root / "raw" / "tap-a" / "flights" / second.path
    body = bytearray(path.read_bytes())
    body[second.members[2][0] + 30] ^= 0xFF
    path.write_bytes(bytes(body))
    result = run_process(tmp_path, config(root, state_every_records=1))
    assert second.path in complaint(result)
    messages = [json.loads(line) for line in result.stdout.splitlines()]
    records = [m["record"]["id"] for m in messages if m["type"] == "RECORD"]
    assert records == list(range(len(records)))
    assert 100 <= len(records) <= 160
    last = [m["value"]["bookmarks"]["flights"]["offset"] for m in messages if m["type"] == "STATE"][-1]
    assert last == len(records)


def test_a_lost_bookmark_is_an_error_that_says_so(flights, root, tmp_path):
    state = tmp_path / "state.json"
    bookmark = {"lineage": "another", "offset": 5, "file": "0000000000000000", "line": 5}
    state.write_text(json.dumps({"bookmarks": {"flights": bookmark}}))
    result = run_process(tmp_path, config(root), "--state", str(state))
    assert "no longer holds the file that this bookmark names; run with --full-refresh" in complaint(result)


@pytest.mark.parametrize("argument", ["--state", "--catalog"])
def test_a_file_that_is_not_json_is_an_error(flights, root, tmp_path, argument):
    path = tmp_path / "broken.json"
    path.write_text("{")
    assert "config, catalog or state is not JSON" in complaint(run_process(tmp_path, config(root), argument, str(path)))


def test_a_config_file_that_is_not_there_is_an_error(tmp_path):
    result = subprocess.run(
        [*COMMAND, "--config", str(tmp_path / "none.json")], capture_output=True, env=environment(), check=False
    )
    assert "was not found" in complaint(result)


@pytest.fixture
def long_stream(lake, root) -> Path:
    """Far more than a pipe holds: 40,000 records of about 200 bytes."""
    build_stream(
        lake,
        "tap-a",
        "long",
        {"type": "object", "properties": {"id": {"type": "integer"}, "text": {"type": "string"}}},
        [{"id": number, "text": "x" * 140} for number in range(40_000)],
        file_size=20_000,
        member_size=20_000,
    )
    return root


@pytest.mark.crossed("number", "settings")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("settings", [{}, {"include_lake_metadata": True}], ids=["raw", "mapped"])
def test_a_signal_ends_the_output_on_a_whole_line_and_nothing_follows(long_stream, tmp_path, number, code, settings):
    """The signal comes while the tap is blocked in a write, and its reader then goes on reading."""
    process = start(tmp_path, config(long_stream, state_every_records=100, **settings))
    head = process.stdout.read(100_000)
    time.sleep(0.2)
    process.send_signal(number)
    rest = process.stdout.read()
    assert process.wait(30) == code
    lines = (head + rest).split(b"\n")
    assert lines[-1] == b""
    ids = [json.loads(line)["record"]["id"] for line in lines[:-1] if b'"RECORD"' in line]
    assert ids == list(range(len(ids)))
    assert len(ids) < 40_000
    assert b"Traceback" not in process.stderr.read()
    state = [json.loads(line)["value"] for line in lines[:-1] if b'"STATE"' in line][-1]
    rest = [record["id"] for record in replay(long_stream, state=state).records()]
    assert rest == list(range(state["bookmarks"]["long"]["offset"], 40_000))


def test_a_signal_ends_a_tap_that_nobody_reads_any_more(long_stream, tmp_path):
    process = start(tmp_path, config(long_stream))
    process.stdout.read(1000)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    process.stdout.close()


def test_a_reader_that_goes_away_ends_the_tap_quietly_and_not_as_success(long_stream, tmp_path):
    process = start(tmp_path, config(long_stream))
    process.stdout.read(1000)
    process.stdout.close()
    stderr = process.stderr.read()
    assert process.wait(30) == 1
    assert b"Traceback" not in stderr
    assert b"Broken" not in stderr


def test_output_to_a_pipe_that_does_not_block_is_complete(long_stream, tmp_path):
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    process = subprocess.Popen(
        command(tmp_path, config(long_stream)), stdout=write_end, stderr=subprocess.DEVNULL, env=environment()
    )
    os.close(write_end)
    with os.fdopen(read_end, "rb") as output:
        assert output.read().count(b'"RECORD"') == 40_000
    assert process.wait(30) == 0


def test_a_full_disk_behind_standard_output_is_one_line(flights, root, tmp_path):
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            command(tmp_path, config(root)), stdout=full, stderr=subprocess.PIPE, env=environment(), check=False
        )
    assert "No space left on device" in complaint(result)


def test_a_standard_output_that_was_closed_from_the_start_is_one_line(flights, root, tmp_path):
    closed = ["sh", "-c", '"$@" >&-', "sh", *command(tmp_path, config(root))]
    result = subprocess.run(closed, stderr=subprocess.PIPE, env=environment(), check=False)
    assert "standard output is closed" in complaint(result)


def start(folder: Path, settings: dict) -> Plugin:
    return Plugin("tap", configured(folder, settings), env=environment())


@pytest.mark.parametrize("arguments", [["--version"], ["--about", "--format=json"]])
def test_starting_loads_no_driver(arguments):
    code = (
        "import sys, atexit; atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))\n"
        "from tap_singerlake.tap import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, env=environment(), check=True, timeout=60
    )
    assert not {"boto3", "botocore", "smart_open", "pyspark", "pyarrow", "psycopg"} & set(
        result.stderr.decode().split()
    )


def test_about_describes_every_setting(tmp_path):
    result = run_process(tmp_path, {}, "--about", "--format=json")
    about = json.loads(result.stdout)
    for name, setting in about["settings"]["properties"].items():
        assert setting.get("description"), name
    assert about["settings"]["properties"]["aws_secret_access_key"]["secret"] is True
    assert {"catalog", "discover", "state", "stream-maps", "schema-flattening", "batch"} <= set(about["capabilities"])


def test_reading_a_local_lake_loads_no_driver(lake, root, tmp_path):
    build_stream(lake, "tap-a", "s", V1, [{"id": 1}])
    code = (
        "import sys\nfrom tap_singerlake.tap import TapSingerlake\n"
        f"TapSingerlake(config={config(root)!r}).sync_all()\n"
        "assert not {'boto3', 'botocore', 'smart_open', 'pyspark', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment(), capture_output=True, timeout=60)
