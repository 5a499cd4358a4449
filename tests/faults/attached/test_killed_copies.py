"""A tap that dies while it copies attached files, at each of its steps, and its rerun from the last STATE."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from singerlake.clock import random_id
from singerlake.lake import Lake
from singerlake.storage.port import Storage
from singerlake.storage.settings import StorageSettings
from tap_singerlake.files import IN_MEMORY
from tests.attached.lakes import attach, sha256
from tests.processes.killed import Killed
from tests.servers.s3 import S3Server
from tests.tap.runs import Output, configured, environment, run_process

BODIES = [b"a photo", b"b" * (IN_MEMORY + 1), b"c", b"d" * (IN_MEMORY + 1)]
"""One file a record, one record a data file: those of one are held in memory, the others pass through the spool."""
STORAGES = {
    "folder": "singerlake.storage.local.storage:LocalStorage",
    "s3": "singerlake.storage.cloud.storage:CloudStorage",
}
WRITE_STATE = "tap_singerlake.output:StateLines.write_state"
MOMENTS = {
    "while a file is read": ("singerlake.attached.read:_Checked._next", "before", "", 2),
    "before a small copy": ("{}.put", "before", sha256(BODIES[2]), 1),
    "after a small copy": ("{}.put", "after", sha256(BODIES[2]), 1),
    "before a large copy": ("{}.upload", "before", sha256(BODIES[1]), 1),
    "after a large copy": ("{}.upload", "after", sha256(BODIES[1]), 1),
    "before the first index": ("{}.put", "before", ".jsonl", 1),
    "after the first index": ("{}.put", "after", ".jsonl", 1),
    "before the last index": ("{}.put", "before", ".jsonl", len(BODIES)),
    "before a STATE": (WRITE_STATE, "before", "", 2),
    "after a STATE": (WRITE_STATE, "after", "", 2),
}
"""Which call, on which side of it, a tap is killed at, what an argument of the call has in it, and which one of these
calls it is."""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Those of a run with a spool of its own, without the place of its copies."""
    (tmp_path / "spool").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "spool"))
    root = str(tmp_path / "lake")
    attach(Lake.open(root), "tap-a", "photos", [[body] for body in BODIES], file_size=1)
    return {"lake_root": root, "tap_id": "tap-a"}


def listed(copies: Storage) -> dict[int, bytes]:
    """The bytes of the copy that an index names for the record at each offset."""
    found: dict[int, bytes] = {}
    for entry in copies.list("photos/"):
        if entry.key.endswith(".jsonl"):
            for line in map(json.loads, _body(copies, entry.key).splitlines()):
                assert line["path"].startswith(copies.url)
                found[line["offset"]] = _body(copies, line["path"].removeprefix(copies.url))
    return found


def _body(storage: Storage, key: str) -> bytes:
    stored = storage.get(key.lstrip("/"))
    assert stored is not None, key
    return stored.body


def offset(output: Output) -> int:
    return output.state["bookmarks"]["photos"]["offset"] if output.state else 0


@pytest.mark.crossed("to", "moment")
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("to", STORAGES)
def test_a_tap_that_was_killed_is_run_again_and_all_copies_are_there(
    settings: dict[str, Any], tmp_path: Path, s3: S3Server, to: str, moment: str
) -> None:
    place = str(tmp_path / "copies") if to == "folder" else f"s3://{s3.create_bucket(f'killed-{random_id()}')}/copies"
    settings |= {"include_files": place, **s3.config()}
    copies = Lake.open(place, StorageSettings(s3=s3.settings())).storage
    call, side, about, calls = MOMENTS[moment]
    arguments = configured(tmp_path, settings)
    asked = Killed(
        place=call.format(STORAGES[to]), side=side, about=about, calls=calls, command="tap", arguments=arguments
    )
    killed = asked.run(env=environment())
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    ended = Output(killed.stdout)
    there = listed(copies)
    assert all(there[at] == BODIES[at] for at in range(offset(ended)))
    (tmp_path / "state.json").write_text(json.dumps(ended.state))
    rest = run_process(tmp_path, settings, "--state", str(tmp_path / "state.json"))
    assert rest.returncode == 0, rest.stderr.decode()
    assert [record["id"] for record in Output(rest.stdout).records()] == list(range(offset(ended), len(BODIES)))
    assert listed(copies) == dict(enumerate(BODIES))
    names = {entry.key.rpartition("/")[2] for entry in copies.list("") if not entry.key.endswith(".jsonl")}
    assert names == {sha256(body) for body in BODIES}
    assert list((tmp_path / "spool").iterdir()) == []
