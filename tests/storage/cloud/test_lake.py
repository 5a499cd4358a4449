"""A lake in each cloud from end to end: captured, joined, verified, cleared and replayed by the commands that a user
calls, in every manifest store that lives beside the data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.storage.cloud.commands import SCHEMA, STATE, Cloud, Commands, record

pytestmark = pytest.mark.thorough

SEGMENT = {"az": "users~2E", "gs": "users."}
"""How the name of the stream is written in names of objects."""


@pytest.mark.crossed("store", "scheme")
@pytest.mark.parametrize("store", ["lockfile", "log", pytest.param("merge", marks=pytest.mark.soak)])
@pytest.mark.parametrize("scheme", ["az", "gs"])
def test_what_was_captured_is_replayed(clouds: dict[str, Cloud], tmp_path: Path, scheme: str, store: str) -> None:
    cloud = clouds[scheme]
    commands = Commands(cloud, store, tmp_path)
    assert json.loads(commands.capture([record(0)])) == STATE["value"]
    commands.capture([record(1)])
    commands.run("singerlake", "vacuum", "--yes")
    assert commands.run("singerlake", "verify").startswith("sound: 1 stream, 1 file, 2 messages")
    assert commands.replayed() == [record(0), record(1)]
    names = [name for name in cloud.names() if name.startswith(f"{tmp_path.name}/raw/t/")]
    assert any(name.startswith(f"{tmp_path.name}/raw/t/{SEGMENT[scheme]}/") for name in names)
    assert any("/_log/" in name for name in names) == (store != "lockfile")
    assert not any("_singerlake_parts" in name for name in cloud.names())


@pytest.mark.parametrize("scheme", ["az", "gs"])
def test_the_manifest_is_made_again_and_what_was_replaced_goes(
    clouds: dict[str, Cloud], tmp_path: Path, scheme: str
) -> None:
    commands = Commands(clouds[scheme], "lockfile", tmp_path)
    for number in range(3):
        commands.capture([record(number)])
    commands.storage.delete("raw/t/users./manifest.json")
    assert "3 messages" in commands.run("singerlake", "rebuild", "--yes")
    commands.run("singerlake", "vacuum", "--yes")
    for _ in range(2):
        commands.run("singerlake", "gc", "--delete", "--grace", "0s")
    left = [entry.key for entry in commands.storage.list("raw/t/users./") if entry.key.endswith(".singer.gz")]
    assert len(left) == 1
    assert commands.replayed() == [record(number) for number in range(3)]


@pytest.mark.parametrize("scheme", ["az", "gs"])
def test_what_a_killed_run_acknowledged_is_there(clouds: dict[str, Cloud], tmp_path: Path, scheme: str) -> None:
    commands = Commands(clouds[scheme], "lockfile", tmp_path)
    commands.set(max_file_records=1, lock_stale_after_seconds=2, lock_refresh_seconds=1)
    capture = commands.capturing()
    capture.send(SCHEMA, record(0), STATE, record(1))
    assert capture.acknowledged() == STATE["value"]
    capture.kill()
    commands.capture([record(1)])
    found = [each["record"]["id"] for each in commands.replayed()]  # type: ignore[index]
    assert found[0] == 0
    assert set(found) == {0, 1}
    assert commands.run("singerlake", "verify", "--ignore", "unlisted").startswith("sound")
