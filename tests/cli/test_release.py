"""``singerlake release``: the records of a quarantine as messages of their stream."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import build_stream

SCHEMA = {"properties": {"id": {"type": "integer"}}}
KEPT = (
    '{"type":"RECORD","stream":"s__quarantine",'
    '"record":{"id":1.000000000000000000001,"_quarantine_rule":"type"},"version":3}'
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    lake = Lake.open(str(tmp_path / "a lake"))
    build_stream(lake, "t", "s", SCHEMA, [{"id": 1}], key_properties=["id"])
    build_stream(lake, "t", "s__quarantine", SCHEMA, [KEPT.encode(), {"id": None}], file_size=1)
    return lake.storage.url


def test_it_prints_the_schema_and_the_records_and_says_how_to_empty_it(run: Run, url: str) -> None:
    result = run("release", url, "--stream", "s")
    schema, *records = result.stdout.splitlines()
    assert json.loads(schema) == {"type": "SCHEMA", "stream": "s", "schema": SCHEMA, "key_properties": ["id"]}
    assert records[0] == '{"type":"RECORD","stream":"s","record":{"id":1.000000000000000000001},"version":3}'
    assert [json.loads(line)["record"] for line in records[1:]] == [{"id": None}]
    assert result.stderr.splitlines() == [
        "2 records released; once the target has ended with success, empty the quarantine by",
        f"  singerlake expire '{url}' --tap t --stream s__quarantine --before-offset 2 --delete",
    ]
    assert run("release", url, "--stream", "s", "-q").stderr == ""


@pytest.mark.parametrize("options", [["--json"], []])
def test_a_stream_without_a_quarantine_is_an_error(run: Run, tmp_path: Path, options: list[str]) -> None:
    build_stream(Lake.open(str(tmp_path)), "t", "s", SCHEMA, [{"id": 1}])
    result = run("release", tmp_path, "--stream", "s", *options)
    assert (result.exit_code, "no stream 's__quarantine'" in result.stderr) == (2, True)
    assert bool(result.stdout) is bool(options)
