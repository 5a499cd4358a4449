"""``singerlake policy``, and ``singerlake gc`` that goes by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import StorageUnavailableError
from singerlake.format import layout
from singerlake.lake import Lake
from tests.cli.commands.removing.test_expire import aged
from tests.cli.conftest import Run
from tests.lakes import build_stream
from tests.upkeep.shelf import SCHEMA

ROOT = layout.root_metadata_key()


def test_a_lake_of_before_that_lost_its_policies_is_found(
    run: Run, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing but the streams says that there was one."""
    lake = aged(root, 500)
    key = layout.manifest_key("t", "s")
    stored = lake.storage.get(key)
    assert stored is not None
    lake.storage.put(key, json.dumps(json.loads(stored.body) | {"lake_id": "own"}).encode())
    (root / ROOT).unlink()
    told = run("verify", root)
    assert (told.exit_code, "what it said of tap 't' is gone" in told.stdout) == (1, True)
    told = run("rebuild", "--yes", root)
    assert (told.exit_code, "the policies and notes that it had are gone" in caplog.text) == (0, True)
    assert run("verify", root).exit_code == 0


def test_notes_and_policies_keep_each_other_and_what_is_not_known(run: Run, lake: Lake, root: Path) -> None:
    stored = json.loads((root / ROOT).read_bytes())
    stored["later"] = [1.5]
    stored["taps"]["t"] |= {"cost": "low", "retention": {"a/b": {"older_than": "9d", "later": 1}}}
    (root / ROOT).write_text(json.dumps(stored))
    run("annotate", root, "--tap", "t", "--owner", "Ann", "--link", "w=https://x.org")
    run("policy", "set", root, "--tap", "t", "--older-than", "400d")
    run("policy", "set", root, "--tap", "t", "--stream", "a/b", "--keep-versions", 1)
    build_stream(lake, "t", "flights", SCHEMA, [{"n": 1}])
    build_stream(lake, "new", "s", SCHEMA, [{"n": 1}])
    assert run("rebuild", "--yes", root, "--discard-manifest").exit_code == 0
    after = json.loads((root / ROOT).read_bytes())
    assert after["later"] == [1.5]
    assert after["taps"]["t"] == {
        "owner": "Ann",
        "description": "",
        "links": {"w": "https://x.org"},
        "cost": "low",
        "retention": {"a/b": {"keep_versions": 1, "later": 1}, "": {"older_than": "400d"}},
    }
    run("policy", "unset", root, "--tap", "t")
    run("policy", "unset", root, "--tap", "t", "--stream", "a/b")
    assert "retention" not in json.loads((root / ROOT).read_bytes())["taps"]["t"]
    assert run("annotate", root, "--tap", "t").stdout.splitlines()[1] == "owner: Ann"


def test_an_expiry_is_noted_though_the_collection_behind_it_fails(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise StorageUnavailableError("storage is away", hint="wait")

    lake = aged(root, 500, 10)
    run("policy", "set", root, "--tap", "t", "--older-than", "400d")
    monkeypatch.setattr("singerlake.upkeep.gc.gc.collect_stream", away)
    result = run("gc", root, "--delete")
    assert (result.exit_code, "t/s: not collected: storage is away" in result.stdout) == (1, True)
    assert lake.stream("t", "s").snapshot().floor == 2
    noted = [each for each in lake.stream("t", "s").snapshot().runs if each.kind == "expire"]
    assert [(each.files, each.records) for each in noted] == [(1, 2)]
