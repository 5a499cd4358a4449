"""The tap, Spark's planning, the commands and the collector's report, on a lake whose file entries are items."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from singerlake.cli.main import main
from singerlake.lake import Lake
from singerlake.settings import storage_settings, store_settings
from singerlake.spark.lake import open_stream, snapshot
from singerlake.spark.options import read_options
from tests.lakes import build_stream
from tests.stores.dynamodb.items.places import few_files_make_items  # noqa: F401
from tests.tap.runs import replay

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
RECORDS = 9
SHOWN = 5

Config = dict[str, str]


@pytest.fixture
def config(store_config: Callable[[str], Config]) -> Config:
    """What reaches the table, and asks for it."""
    return {
        **{name: value for name, value in store_config("dynamodb").items() if name != "manifest_store"},
        "dynamodb_query_items": "true",
    }


@pytest.fixture
def root(config: Config, tmp_path: Path) -> str:
    """A lake with a stream of as many files as records, of which ``manifest.json`` shows fewer."""
    root = str(tmp_path / "lake")
    lake = Lake.open(root, storage_settings(config), store_settings(config))
    records = [{"id": number} for number in range(RECORDS)]
    build_stream(lake, "t", "s", SCHEMA, records[:SHOWN], file_size=1, store="dynamodb")
    loaded = lake.stream("t", "s").store().load()
    assert loaded is not None
    lake.stream("t", "s").store().publish(loaded, run_ended=True)
    build_stream(lake, "t", "s", SCHEMA, records[SHOWN:], file_size=1)
    return root


def test_the_tap_replays_what_the_table_has(root: str, config: Config) -> None:
    options = {name: value for name, value in config.items() if name != "dynamodb_query_items"}
    assert len(replay(root, tap_id="t", **options).records()) == SHOWN
    newest = replay(root, tap_id="t", **options, dynamodb_query_items=True)
    assert newest.records() == [{"id": number} for number in range(RECORDS)]
    again = replay(root, tap_id="t", **options, dynamodb_query_items=True, state=newest.state)
    assert again.records() == []


def test_spark_plans_what_the_table_has(root: str, config: Config) -> None:
    given = {"path": root, "tap": "t", "stream": "s", **config}
    for _ in range(2):
        assert len(snapshot(open_stream(read_options(given))).files) == RECORDS
    plain = {name: value for name, value in given.items() if name != "dynamodb_query_items"}
    assert len(snapshot(open_stream(read_options(plain))).files) == SHOWN


def test_arrow_reads_a_range_of_it(root: str, config: Config) -> None:
    lake = Lake.open(root, storage_settings(config), store_settings(config))
    table = lake.stream("t", "s").to_arrow(from_offset=4, to_offset=8).read_all()
    assert table["id"].to_pylist() == [4, 5, 6, 7]


def test_the_collector_tells_what_goes(root: str, config: Config) -> None:
    environment = {f"SINGERLAKE_{name.upper()}": value for name, value in config.items()}

    def gc(*arguments: str) -> str:
        given = ["gc", root, "--delete", "--grace", "0s", *arguments]
        result = CliRunner().invoke(main, given, catch_exceptions=False, env=environment)
        assert result.exit_code == 0
        return result.stdout

    assert json.loads(gc("--json"))["streams"][0]["segments"]["copies"] == []
    told = gc() + gc()
    assert "the file entries of" in told
    assert "deleted from the table" in told
