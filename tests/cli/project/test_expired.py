"""``singerlake project`` on a stream whose oldest messages expired."""

from __future__ import annotations

import json
from pathlib import Path

from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import build_stream
from tests.upkeep.shelf import SCHEMA

EXPIRE = "--tap", "t", "--stream", "s", "--delete", "--now"


def stream(root: Path, *numbers: int) -> None:
    build_stream(
        Lake.open(str(root)), "t", "s", SCHEMA, [{"n": n} for n in numbers], file_size=5, key_properties=("n",)
    )


def behind(run: Run, root: Path) -> int:
    (table,) = json.loads(run("project", "ls", root, "--all", "--json").stdout)["tables"]
    return int(table["behind"])


def test_from_the_first_run_to_one_that_is_refused_and_made_anew(run: Run, root: Path) -> None:
    stream(root, *range(20))
    run("expire", root, *EXPIRE, "--before-offset", 10)
    assert behind(run, root) == 10
    assert "10 messages of t.s" in run("project", "plan", root, "--all").stdout
    assert run("project", "run", root, "--all").exit_code == 0
    assert behind(run, root) == 0
    assert run("project", "verify", root, "--deep").stdout.startswith("sound: 1 table")
    stream(root, *range(20, 40))
    run("expire", root, *EXPIRE, "--before-offset", 30)
    assert behind(run, root) == 10
    for command in ("plan", "run"):
        refused = run("project", command, root, "--all")
        assert refused.exit_code == 1
        assert "expired before the table had them; make the table anew of what is left" in refused.output
    made = json.loads(run("project", "run", root, "--all", "--json").stdout)
    assert "expired_messages" in json.dumps(made)
    assert run("project", "run", root, "--all", "--full-refresh").exit_code == 0
    assert sorted(Lake.open(str(root)).table("s").to_arrow().read_all()["n"].to_pylist()) == list(range(30, 40))


def test_rows_of_expired_messages_are_not_compared_and_that_is_said(run: Run, root: Path) -> None:
    stream(root, *range(20))
    run("project", "run", root, "--all")
    run("expire", root, *EXPIRE, "--before-offset", 10)
    result = run("project", "verify", root, "--deep")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == (
        "s: rows not compared, since messages that they were made of have expired: files checked"
    )
    told = json.loads(run("project", "verify", root, "--deep", "--json").stdout)
    assert (told["not_compared"], told["findings"], told["failed"]) == (["s"], [], [])
    assert run("project", "verify", root).stdout.startswith("sound: 1 table")
