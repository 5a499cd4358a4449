"""Tables of a lake whose storage honours no conditions and whose manifest store is a database."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from singerlake.cli.main import main
from singerlake.clock import random_id
from singerlake.lake import Lake
from singerlake.settings import storage_settings, store_settings
from tests.servers.s3 import S3Server
from tests.target.support import ingest, records, schema

Config = Callable[[str], dict[str, str]]


@pytest.fixture(params=["dynamodb", "postgres"])
def given(
    request: pytest.FixtureRequest, s3: S3Server, store_config: Config, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """The settings of the target and a lake's root. The commands find the settings in the environment."""
    settings = {**s3.config(), **store_config(request.param)}
    for name, value in settings.items():
        monkeypatch.setenv(f"SINGERLAKE_{name.upper()}", value)
    s3.ignore_conditions()
    return {**settings, "lake_root": f"s3://{s3.create_bucket(f'b-{random_id()}')}/lake"}


def command(*words: str) -> str:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done.output


def test_they_are_made_kept_up_collected_and_dropped(given: dict[str, Any]) -> None:
    root = given.pop("lake_root")
    ingest(root, [schema(), *records(1, 2)], **given)
    assert "2 rows" in command("project", "run", root, "--all")
    ingest(root, [schema(), *records(2, 3)], **given)
    lake = Lake.open(root, storage_settings(given), store_settings(given))
    (table,) = lake.project(all=True)
    assert (table.status, table.rows) == ("made", 3)
    assert "nothing new" in command("project", "run", root, "--all")

    # Readers need no database: not in the environment, and not in the settings.
    reader = Lake.open(root, storage_settings(given))
    assert reader.table("users").to_arrow(columns=["id"]).read_all().to_pydict() == {"id": [1, 2, 3]}
    command("project", "gc", root, "--delete", "--grace", "0s")
    command("project", "gc", root, "--delete", "--grace", "0s")
    assert reader.table("users").to_arrow(columns=["id"]).read_all().num_rows == 3
    said = json.loads(command("project", "gc", root, "--grace", "0s", "--json"))
    assert said["tables"][0]["keys"] == []

    command("project", "drop", root, "users", "--delete")
    assert list(reader.storage.list("published/")) == []
    assert "3 rows" in command("project", "run", root, "--all")


def test_without_a_database_they_are_refused_with_what_to_do(given: dict[str, Any]) -> None:
    root = given.pop("lake_root")
    ingest(root, [schema(), *records(1)], **{**given, "manifest_store": "lockfile"})
    done = CliRunner().invoke(main, ["project", "run", root, "--all"])
    assert done.exit_code != 0
    assert "singerlake store migrate" in done.output
    command("store", "migrate", "--yes", root, "--to", given["manifest_store"])
    assert "1 row" in command("project", "run", root, "--all")
