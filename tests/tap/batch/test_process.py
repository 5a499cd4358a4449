"""The tap as a process that is killed or told to end while it writes batches."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from singerlake.adapters import open_storage
from singerlake.clock import random_id
from singerlake.lake import Lake
from singerlake.storage.settings import StorageSettings
from tests.lakes import build_stream
from tests.processes.killed import Killed
from tests.servers.s3 import S3Server
from tests.tap.batch.support import batch_config, raw_records
from tests.tap.runs import V1, Output, configured, environment, run_process

MET = """
import os, signal, sys, time
from pathlib import Path
from singerlake.storage.local.storage import LocalStorage
from tap_singerlake.tap import main

number, side, what = int(sys.argv.pop(1)), sys.argv.pop(1), sys.argv.pop(1)
upload = LocalStorage.upload

def met(key):
    if f"-{number:06d}-" in key:
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        Path(what).touch()
        time.sleep(120)

def watched(self, key, path):
    if side == "before":
        met(key)
    size = upload(self, key, path)
    if side == "after":
        met(key)
    return size

LocalStorage.upload = watched
main()
"""
FILES, SIZE = 5, 20


@pytest.fixture
def settings(lake: Lake, root: Path, tmp_path: Path) -> dict[str, object]:
    build_stream(lake, "tap-a", "s", V1, [{"id": number} for number in range(FILES * SIZE)], file_size=SIZE)
    return {"lake_root": str(root), "tap_id": "tap-a", "batch_config": batch_config(tmp_path / "out")}


def started(folder: Path, settings: dict[str, object], number: int, side: str, what: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-c", MET, str(number), side, what, *configured(folder, settings)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())


def ids_of(output: Output) -> list[int]:
    """Those that a target has that loads a batch when it comes."""
    return [json.loads(line)["id"] for message in output.of("BATCH") for line in raw_records(message)]


def goes_on(folder: Path, settings: dict[str, object], ended: Output) -> None:
    """From the last STATE on come the rest, and before it came all."""
    offset = ended.state["bookmarks"]["s"]["offset"] if ended.state else 0
    assert ids_of(ended)[:offset] == list(range(offset))
    state = folder / "state.json"
    state.write_text(json.dumps(ended.state))
    rest = run_process(folder, settings, "--state", str(state))
    assert rest.returncode == 0, rest.stderr
    assert ids_of(Output(rest.stdout)) == list(range(offset, FILES * SIZE))


@pytest.mark.sampled(number=1)
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("number", [1, 3, FILES])
def test_a_run_that_is_killed_at_an_upload_has_said_only_what_is_whole(
    settings: dict[str, object], tmp_path: Path, number: int, side: str
) -> None:
    killed = started(tmp_path, settings, number, side, "kill")
    out, _ = killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    ended = Output(out)
    assert len(ended.of("BATCH")) <= number - 1
    goes_on(tmp_path, settings, ended)


@pytest.mark.sampled(side=1)
@pytest.mark.parametrize("side", ["before", "after"])
def test_so_has_one_whose_files_go_to_s3(settings: dict[str, object], tmp_path: Path, s3: S3Server, side: str) -> None:
    root = f"s3://{s3.create_bucket(f'killed-{random_id()}')}/out"
    settings |= {"batch_config": batch_config(root, compression="none"), **s3.config()}
    asked = Killed(
        place="singerlake.storage.cloud.storage:CloudStorage.upload",
        side=side,
        about="-000003-",
        calls=1,
        command="tap",
        arguments=configured(tmp_path, settings),
    )
    killed = asked.run(env=environment())
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    ended = Output(killed.stdout)
    state = tmp_path / "state.json"
    state.write_text(json.dumps(ended.state))
    rest = run_process(tmp_path, settings, "--state", str(state))
    assert rest.returncode == 0, rest.stderr
    storage = open_storage(root, StorageSettings(s3=s3.settings()))
    ids = list[int]()
    for message in [*before_state(ended), *Output(rest.stdout).of("BATCH")]:
        for url in message["manifest"]:
            stored = storage.get(url.removeprefix(f"{root}/"))
            assert stored is not None
            ids += (json.loads(line)["id"] for line in stored.body.splitlines())
    assert ids == list(range(FILES * SIZE))


def before_state(output: Output) -> list[dict[str, Any]]:
    """The BATCH messages that the last STATE stands for."""
    messages = output.messages
    last = max((at for at, message in enumerate(messages) if message["type"] == "STATE"), default=0)
    return [message for message in messages[:last] if message["type"] == "BATCH"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_told_to_end_while_a_file_is_under_way_ends_soon(
    settings: dict[str, object], tmp_path: Path, number: signal.Signals
) -> None:
    there = tmp_path / "there"
    told = started(tmp_path, settings, 3, "before", str(there))
    while not there.exists():
        time.sleep(0.01)
    told.send_signal(number)
    out, log = told.communicate(timeout=30)
    assert told.returncode == 128 + number, log
    assert b"Traceback" not in log
    ended = Output(out)
    # Files are sent several at a time, so that the first ones may still be under way, too.
    assert len(ended.of("STATE")) <= len(ended.of("BATCH")) <= 2
    goes_on(tmp_path, settings, ended)
