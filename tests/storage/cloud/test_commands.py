"""Every command on a lake in each cloud; plugins, batches and attached files by each way to name its root, too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from singerlake.adapters import open_storage
from singerlake.lake import Lake
from tests.servers.azurite import ACCOUNT
from tests.storage.cloud.commands import STREAM, Cloud, Commands, record

pytestmark = pytest.mark.thorough

ROOTS = {"az": "az://lake", "abfss": f"abfss://lake@{ACCOUNT}.dfs.core.windows.net", "gs": "gs://lake"}
ONE = ("--tap", "t", "--stream", STREAM)


@pytest.fixture(params=ROOTS)
def cloud(request: pytest.FixtureRequest, clouds: dict[str, Cloud]) -> Cloud:
    scheme = str(request.param)
    return replace(clouds[scheme if scheme in clouds else "az"], root=ROOTS[scheme])


# A root is read in one place for all commands, and what comes after it is the same for both names of Azure.
@pytest.mark.parametrize("cloud", ["az", "gs"], indirect=True)
def test_every_command_works(cloud: Cloud, tmp_path: Path) -> None:
    commands = Commands(cloud, "lockfile", tmp_path)
    for number in range(4):
        commands.capture([record(2 * number), record(2 * number + 1)])

    def says(text: str, command: str, *words: str) -> None:
        said = commands.run("singerlake", *command.split(), *words)
        assert text in said, (command, said)

    says("8 records", "ls")
    says("ok        delete", "doctor")
    says("v1", "versions")
    says("capture", "status")
    says("owner: me", "annotate", "--tap", "t", "--owner", "me")
    says('"manifest_store": "lockfile"', "export")
    says("sound: 1 stream, 4 files, 8 messages", "verify")
    says("no locks", "lock ls")
    says("lockfile", "store ls")
    says("joined 4 files", "vacuum", "--yes")
    says("1 record would be erased in 1 of 1 file", "erase", *ONE, "--where", "id = 3")
    says("1 record erased in 1 of 1 file", "erase", *ONE, "--where", "id = 3", "--delete", "--now")
    says("sound", "verify", "--erased", "id = 3")
    says("older than 400d", "policy set", "--tap", "t", "--older-than", "400d")
    says("nothing to delete", "gc", "--grace", "1000d")
    says("everything is kept for ever", "policy unset", "--tap", "t")
    commands.capture([record(8)])
    says("7 records; the stream would begin at offset 8", "expire", *ONE, "--before-offset", "8")
    says("the stream begins at offset 8", "expire", *ONE, "--before-offset", "8", "--delete", "--now")
    says("sound: 1 stream, 1 file, 1 message", "verify")
    says("t/users.: moved", "store migrate", "--yes", "--to", "log")
    del commands.environment["TARGET_SINGERLAKE_MANIFEST_STORE"]
    commands.capture([record(9)])
    run = _last_run(commands)
    says("1 message would be dropped in 1 of 2 files", "drop", "--tap", "t", "--run", run)
    says("1 message dropped in 1 of 2 files", "drop", "--tap", "t", "--run", run, "--delete", "--now")
    says("t/users.", "store trim", "--yes")
    says("1 record read", "project run", "--all")
    says("unchanged", "rebuild", "--yes")
    site = tmp_path / "site"
    commands.run("singerlake", "docs", "build", "-o", str(site))
    assert any("users." in page.read_text() for page in site.rglob("*.html"))
    assert commands.replayed() == [record(8)]
    lake = Lake.open(commands.root, cloud.settings)
    rows = lake.stream("t", STREAM).to_arrow(metadata=True).read_all()
    assert rows.select(["id", "_singerlake_offset"]).to_pylist() == [{"id": 8, "_singerlake_offset": 8}]
    says("dropped: 1 stream, 2 files", "drop", "--tap", "t", "--delete", "--now")
    assert commands.replayed() == []


def _last_run(commands: Commands) -> str:
    (stream,) = json.loads(commands.run("singerlake", "status", "--json"))["streams"]
    return str(next(run["id"] for run in stream["runs"] if run["kind"] == "capture"))


def test_batches_go_through_it(cloud: Cloud, tmp_path: Path) -> None:
    commands = Commands(cloud, "lockfile", tmp_path)
    commands.capture([record(number) for number in range(5)])
    root = f"{commands.root}-batches"
    encoding = {"format": "jsonl", "compression": "gzip"}
    commands.set(batch_config={"encoding": encoding, "storage": {"root": root}}, batch_size=2)
    batches = commands.run("tap-singerlake", "--config", str(commands.config))
    urls = [url for line in batches.splitlines() if "BATCH" in line for url in json.loads(line)["manifest"]]
    assert urls
    assert all(url.startswith(f"{root}/") for url in urls)
    folder = tmp_path / f"{tmp_path.name}-again"
    folder.mkdir()
    again = Commands(cloud, "lockfile", folder)
    again.run("target-singerlake", "--config", str(again.config), lines=batches)
    assert [each["record"] for each in again.replayed()] == [record(number)["record"] for number in range(5)]
    old = commands.run("singerlake", "gc", "--batches", root, "--grace", "0s", "--delete")
    assert f"{len(urls):,} file" in old


def test_attached_files_go_through_it(cloud: Cloud, tmp_path: Path) -> None:
    commands = Commands(cloud, "lockfile", tmp_path)
    bodies = {"empty": b"", "photo.jpg": b"\xff\xd8" * 500, "video.mp4": b"0123456789abcdef" * (9 << 16)}
    (tmp_path / "files").mkdir()
    for name, body in bodies.items():
        (tmp_path / "files" / name).write_bytes(body)
    put = ("put", *ONE, "--recursive", str(tmp_path / "files"))
    assert "t/users.: 3 files put, 9.4 MB\n" in commands.run("singerlake", *put)
    assert "3 files put, 9.4 MB; 3 there already\n" in commands.run("singerlake", *put)
    assert "3 attached files, 9.4 MB" in commands.run("singerlake", "ls")
    assert "sound: 1 stream, 2 files, 6 messages" in commands.run("singerlake", "verify")
    stream = Lake.open(commands.root, cloud.settings).stream("t", STREAM)
    for _, row in stream.attached(3):
        with stream.open_file(row) as opened:
            assert opened.read() == bodies[str(row.source)]
    for to in (f"{commands.root}-copies", str(tmp_path / "copies")):
        commands.set(include_files=to)
        assert len(commands.replayed()) == 6
        copies = open_storage(to, cloud.settings)
        index = copies.get(f"{STREAM}/3-5.jsonl")
        assert index is not None
        for line in map(json.loads, index.body.splitlines()):
            assert line["path"].startswith(f"{copies.url}/{STREAM}/")
            stored = copies.get(line["path"].removeprefix(f"{copies.url}/"))
            assert stored is not None
            assert stored.body == bodies[line["source"]]
