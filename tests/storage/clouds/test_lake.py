"""A lake in each cloud from end to end: captured, joined, verified, cleared and replayed by the commands that a user
calls, in every manifest store that lives beside the data."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from singerlake.adapters import open_storage
from singerlake.storage.port import Storage
from singerlake.storage.settings import AnySettings
from tests.servers.azurite import ACCOUNT, ACCOUNT_KEY, azurite
from tests.servers.gcs.server import gcs_server

pytestmark = pytest.mark.thorough

SCHEMA = {"type": "SCHEMA", "stream": "users.", "schema": {"properties": {"id": {"type": "integer"}}}}
SCHEMA["key_properties"] = ["id"]
SEGMENT = {"az": "users~2E", "gs": "users."}
"""How the name of the stream is written in names of objects."""


@dataclass(frozen=True)
class Cloud:
    """``names`` lists the names of all objects as the server has them."""

    scheme: str
    config: dict[str, str]
    settings: AnySettings
    names: Callable[[], list[str]]


@pytest.fixture(scope="module")
def clouds() -> Iterator[dict[str, Cloud]]:
    with ExitStack() as running:
        azure, google = running.enter_context(azurite()), running.enter_context(gcs_server())
        azure.create_container("lake")
        google.create_bucket("lake")
        of_azure, of_google = azure.settings(), google.settings()
        yield {
            "az": Cloud(
                "az",
                {"azure_endpoint_url": f"{azure.url}/{ACCOUNT}", "azure_account_key": ACCOUNT_KEY},
                of_azure,
                lambda: list(azure.client("lake").list_blob_names()),
            ),
            "gs": Cloud(
                "gs",
                {"gcs_endpoint_url": google.endpoint_url},
                of_google,
                lambda: [entry.key for entry in open_storage("gs://lake", of_google).list("")],
            ),
        }


class Commands:
    """The commands on a lake of their own in a cloud, with a store for new streams."""

    def __init__(self, cloud: Cloud, store: str, folder: Path) -> None:
        self.root = f"{cloud.scheme}://lake/{folder.name}"
        self.config = folder / "config.json"
        plugin = {"lake_root": self.root, "tap_id": "t", **cloud.config}
        self.config.write_text(json.dumps(plugin))
        self.environment = {**os.environ, "TARGET_SINGERLAKE_MANIFEST_STORE": store, "SINGERLAKE_LAKE_ROOT": self.root}
        self.environment |= {f"SINGERLAKE_{name.upper()}": value for name, value in cloud.config.items()}
        self.storage: Storage = open_storage(self.root, cloud.settings)

    def run(self, command: str, *words: str, lines: str = "") -> str:
        ran = subprocess.run(
            self._argv(command, words), input=lines, capture_output=True, text=True, env=self.environment
        )
        assert ran.returncode == 0, ran.stderr
        assert ACCOUNT_KEY not in ran.stdout + ran.stderr
        return ran.stdout

    def capture(self, records: list[dict[str, object]], *, options: tuple[str, ...] = ()) -> str:
        lines = "".join(json.dumps(each) + "\n" for each in (SCHEMA, *records, STATE))
        return self.run("target-singerlake", "--config", str(self.config), "--config=ENV", *options, lines=lines)

    def replayed(self) -> list[dict[str, object]]:
        lines = self.run("tap-singerlake", "--config", str(self.config)).splitlines()
        return [json.loads(line) for line in lines if "RECORD" in line]

    def start(self, command: str, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._argv(command, words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self.environment,
        )

    @staticmethod
    def _argv(command: str, words: tuple[str, ...]) -> list[str]:
        return [str(Path(sys.executable).parent / command), *words]


STATE = {"type": "STATE", "value": {"bookmarks": {"users.": {"id": 1}}}}


def record(number: int) -> dict[str, object]:
    return {"type": "RECORD", "stream": "users.", "record": {"id": number}}


@pytest.mark.parametrize("store", ["lockfile", "log", "merge"])
@pytest.mark.parametrize("scheme", ["az", "gs"])
def test_what_was_captured_is_replayed(clouds: dict[str, Cloud], tmp_path: Path, scheme: str, store: str) -> None:
    cloud = clouds[scheme]
    commands = Commands(cloud, store, tmp_path)
    assert json.loads(commands.capture([record(0)])) == STATE["value"]
    commands.capture([record(1)])
    commands.run("singerlake", "vacuum")
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
    assert "3 messages" in commands.run("singerlake", "rebuild")
    commands.run("singerlake", "vacuum")
    for _ in range(2):
        commands.run("singerlake", "gc", "--delete", "--grace", "0s")
    left = [entry.key for entry in commands.storage.list("raw/t/users./") if entry.key.endswith(".singer.gz")]
    assert len(left) == 1
    assert commands.replayed() == [record(number) for number in range(3)]


@pytest.mark.parametrize("scheme", ["az", "gs"])
def test_what_a_killed_run_acknowledged_is_there(clouds: dict[str, Cloud], tmp_path: Path, scheme: str) -> None:
    commands = Commands(clouds[scheme], "lockfile", tmp_path)
    config = json.loads(commands.config.read_text())
    commands.config.write_text(
        json.dumps({**config, "max_file_records": 1, "lock_stale_after_seconds": 2, "lock_refresh_seconds": 1})
    )
    target = commands.start("target-singerlake", "--config", str(commands.config))
    assert target.stdin is not None
    assert target.stdout is not None
    for each in (SCHEMA, record(0), STATE, record(1)):
        target.stdin.write(json.dumps(each) + "\n")
        target.stdin.flush()
    assert json.loads(target.stdout.readline()) == STATE["value"]
    target.send_signal(signal.SIGKILL)
    target.communicate()
    commands.capture([record(1)])
    found = [each["record"]["id"] for each in commands.replayed()]  # type: ignore[index]
    assert found[0] == 0
    assert set(found) == {0, 1}
    assert commands.run("singerlake", "verify", "--ignore", "unlisted").startswith("sound")
