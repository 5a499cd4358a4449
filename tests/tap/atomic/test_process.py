"""The tap as a process over a lake on S3 whose streams an atomic run brought."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from singerlake.lake import Lake
from tests.atomic.lakes import SCHEMA, commit_together, numbers
from tests.everywhere.erasing import vacuum
from tests.lakes import FilesOf
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, S3Server
from tests.tap.runs import Output, run_process

pytestmark = pytest.mark.thorough


def test_as_of_a_commit_and_from_there_on(s3: S3Server, tmp_path: Path) -> None:
    s3.create_bucket("lake")
    root = "s3://lake/atomic"
    lake = Lake.open(root, s3.settings())
    files = FilesOf(SCHEMA, member_size=100)
    first = commit_together(lake, "tap-a", {"a": numbers(0, 1000), "b": numbers(0, 10)}, files=files)
    commit_together(lake, "tap-a", {"a": numbers(1000, 1900), "b": numbers(10, 30)}, files=files)
    vacuum(lake, "tap-a", "a")
    (file,) = lake.stream("tap-a", "a").snapshot().files
    config = {
        "lake_root": root,
        "tap_id": "tap-a",
        "aws_access_key_id": ACCESS_KEY_ID,
        "aws_secret_access_key": SECRET_ACCESS_KEY,
        "aws_region": REGION,
        "s3_endpoint_url": s3.endpoint_url,
    }
    s3.requests()
    done = run_process(tmp_path, {**config, "as_of": first})
    assert done.returncode == 0, done.stderr
    output = Output(done.stdout)
    assert [record["id"] for record in output.records("a")] == list(range(1000))
    assert [record["id"] for record in output.records("b")] == list(range(10))
    assert {name: each["offset"] for name, each in output.state["bookmarks"].items()} == {"a": 1000, "b": 10}
    ranges = [seen.headers["range"] for seen in s3.requests() if seen.path.endswith(file.path.rpartition("/")[2])]
    ends = [int(asked.rpartition("-")[2]) for asked in ranges]
    assert 0 < max(ends) < file.bytes - 1, "nothing is read behind the member in which the view ends"
    state = tmp_path / "state.json"
    state.write_text(json.dumps(output.state))
    for more, arguments in (({}, ("--state", str(state))), ({"from_commit": first}, ())):
        rest = run_process(tmp_path, {**config, **more}, *arguments)
        assert rest.returncode == 0, rest.stderr
        assert [record["id"] for record in Output(rest.stdout).records("a")] == list(range(1000, 1900))
        assert [record["id"] for record in Output(rest.stdout).records("b")] == list(range(10, 30))
    unknown = run_process(tmp_path, {**config, "as_of": "x"})
    assert (unknown.returncode, unknown.stdout) == (1, b"")
    assert b"there is no commit 'x'" in unknown.stderr
