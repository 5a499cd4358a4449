"""What ``batch_config`` may say, and what is said of anything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import SettingError
from singerlake.lake import Lake
from tap_singerlake.batch.settings import BatchConfig, batch_config
from tests.lakes import build_stream
from tests.processes import plugins
from tests.tap.runs import V1, environment, replay, run_process

ROOT = {"storage": {"root": "s3://bucket/batches"}}


@pytest.mark.parametrize("value", [None, "", "  ", {}, "{}", "null"])
def test_without_it_there_are_no_batches(value: Any) -> None:
    assert batch_config(value) is None


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (ROOT, BatchConfig("s3://bucket/batches")),
        (json.dumps(ROOT), BatchConfig("s3://bucket/batches")),
        ({**ROOT, "encoding": {}, "batch_size": None}, BatchConfig("s3://bucket/batches")),
        (
            {
                "encoding": {"format": "parquet", "compression": "none"},
                "storage": {"root": "/x", "prefix": "a/b-"},
                "batch_size": 7,
            },
            BatchConfig("/x", "a/b-", "parquet", "none", 7),
        ),
    ],
)
def test_it_is_read_in_the_shape_of_singer_sdk(value: Any, wanted: BatchConfig) -> None:
    assert batch_config(value) == wanted


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("{", "not valid JSON"),
        ([1], "not an object"),
        ("[1]", "not an object"),
        (7, "not an object"),
        ({"encoding": {"format": "jsonl"}}, "names no storage root"),
        ({"storage": {"root": " "}}, "names no storage root"),
        ({"storage": {"root": 1}}, "names no storage root"),
        ({"storage": "s3://x"}, "storage of batch_config is not an object"),
        ({**ROOT, "encoding": "jsonl"}, "encoding of batch_config is not an object"),
        ({**ROOT, "encoding": {"format": "csv"}}, "format that is not known.*jsonl, parquet"),
        ({**ROOT, "encoding": {"compression": "zstd"}}, "compression that is not known.*gzip, none"),
        ({**ROOT, "batch_size": 0}, "batch_size of batch_config"),
        ({**ROOT, "batch_size": True}, "batch_size of batch_config"),
        ({**ROOT, "batch_size": "5"}, "batch_size of batch_config"),
        ({**ROOT, "size": 5}, "member that is not known: 'size'"),
        ({"storage": {"root": "/x", "params": {"key": "secret"}}}, "not known: 'storage.params'"),
        *(
            ({"storage": {"root": "/x", "prefix": each}}, "storage prefix")
            for each in ("../x", "/x", "a//b", ".x", "a b", 1)
        ),
    ],
)
def test_what_is_wrong_with_it_is_said(value: Any, said: str) -> None:
    with pytest.raises(SettingError, match=said) as met:
        batch_config(value)
    assert "secret" not in str(met.value)


def test_it_is_wrong_before_anything_is_written(lake: Lake, root: Path) -> None:
    build_stream(lake, "tap-a", "s", V1, [{"id": 1}])
    for value, said in (
        ({"storage": {"root": "r2://x"}}, "unknown scheme"),
        ({"encoding": {}}, "names no storage root"),
    ):
        with pytest.raises(SettingError, match=said) as met:
            replay(root, batch_config=value)
        assert met.value.output.lines == []  # type: ignore[attr-defined]


def test_files_and_the_environment_give_it(lake: Lake, root: Path, tmp_path: Path) -> None:
    build_stream(lake, "tap-a", "s", V1, [{"id": 1}])
    settings = {"lake_root": str(root), "tap_id": "tap-a"}
    value = {"storage": {"root": str(tmp_path / "out")}, "batch_size": 10}
    done = run_process(tmp_path, {**settings, "batch_config": value})
    assert done.returncode == 0, done.stderr
    assert b'"type":"BATCH"' in done.stdout
    variables = {
        "TAP_SINGERLAKE_LAKE_ROOT": str(root),
        "TAP_SINGERLAKE_TAP_ID": "tap-a",
        "TAP_SINGERLAKE_BATCH_CONFIG": json.dumps(value),
    }
    done = plugins.run("tap", ["--config=ENV"], env=environment(**variables), timeout=60)
    assert done.returncode == 0, done.stderr
    assert b'"type":"BATCH"' in done.stdout
