"""A lake in Azure from end to end: captured, joined, verified and replayed by the commands that a user calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.azurite import ACCOUNT, ACCOUNT_KEY, Azurite, azurite

pytestmark = pytest.mark.thorough

SCHEMA = {"type": "SCHEMA", "stream": "users.", "schema": {"properties": {"id": {"type": "integer"}}}}


@pytest.fixture(scope="module")
def server() -> Iterator[Azurite]:
    with azurite() as running:
        running.create_container("lake")
        yield running


@pytest.mark.parametrize("store", ["lockfile", "log", "merge"])
def test_what_was_captured_is_replayed(server: Azurite, tmp_path: Path, store: str) -> None:
    root, endpoint = f"az://lake/{store}", f"{server.url}/{ACCOUNT}"
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "lake_root": root,
                "tap_id": "t",
                "azure_endpoint_url": endpoint,
                "azure_account_key": ACCOUNT_KEY,
            }
        )
    )
    environment = {
        **os.environ,
        "TARGET_SINGERLAKE_MANIFEST_STORE": store,
        "SINGERLAKE_AZURE_ENDPOINT_URL": endpoint,
        "SINGERLAKE_AZURE_ACCOUNT_KEY": ACCOUNT_KEY,
    }

    def run(command: str, *words: str, lines: str = "") -> str:
        program = Path(sys.executable).parent / command
        ran = subprocess.run([program, *words], input=lines, capture_output=True, text=True, env=environment)
        assert ran.returncode == 0, ran.stderr
        assert ACCOUNT_KEY not in ran.stdout + ran.stderr
        return ran.stdout

    records = [{"type": "RECORD", "stream": "users.", "record": {"id": number}} for number in range(2)]
    for record in records:
        lines = "".join(json.dumps(each) + "\n" for each in ({**SCHEMA, "key_properties": ["id"]}, record))
        run("target-singerlake", "--config", str(config), "--config=ENV", lines=lines)
    run("singerlake", "vacuum", root)
    assert run("singerlake", "verify", root).startswith("sound: 1 stream, 1 file, 2 messages")
    replayed = run("tap-singerlake", "--config", str(config)).splitlines()
    assert [json.loads(line) for line in replayed if "RECORD" in line] == records
    names = list(server.client("lake").list_blob_names(name_starts_with=f"{store}/raw/"))
    assert any(name.startswith(f"{store}/raw/t/users~2E/") for name in names)
    assert any("/_log/" in name for name in names) == (store != "lockfile")
