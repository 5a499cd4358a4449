"""A stream that was dropped does not count, in no command: one rule for all."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import build_stream

COMMANDS = (("ls",), ("status",), ("check",), ("check", "--max-age", "1d"), ("verify",), ("versions",), ("store", "ls"))


def counts(run: Run, lake: Lake) -> set[str]:
    """How many streams each command says there are."""
    found = set()
    for each in COMMANDS:
        words = [*each, lake.storage.url] if each[0] == "store" else [each[0], lake.storage.url, *each[1:]]
        result = run(*words)
        assert result.exit_code == 0
        found |= set(re.findall(r"(\d+) streams?", result.stdout))
    return found


def test_a_dropped_stream_counts_nowhere_until_it_is_captured_again(run: Run, lake: Lake) -> None:
    assert counts(run, lake) == {"3"}
    lake.drop("t", "a/b", dry_run=False)
    assert counts(run, lake) == {"2"}
    build_stream(lake, "t", "a/b", {"type": "object", "properties": {"n": {"type": "integer"}}}, [{"n": 1}])
    assert counts(run, lake) == {"3"}


@pytest.mark.parametrize("words", [("status",), ("store", "ls")])
def test_what_lists_a_dropped_stream_says_so(run: Run, lake: Lake, words: tuple[str, ...]) -> None:
    lake.drop("t", "a/b", dry_run=False)
    assert "2 streams, 1 dropped" in run(*words, lake.storage.url).stdout
    streams = json.loads(run(*words, lake.storage.url, "--json").stdout)["streams"]
    assert [each["stream"] for each in streams if each["dropped"]] == ["a/b"]


def test_a_dropped_stream_is_not_late(run: Run, lake: Lake) -> None:
    """Nobody writes to it any more, and a monitor would tell of it for ever."""
    lake.drop("t", "a/b", dry_run=False)
    late = run("check", lake.storage.url, "--max-age", "1s").stdout
    assert "t/a/b" not in late
    assert 'stream="a/b"' not in run("check", lake.storage.url, "--prometheus").stdout


def test_the_site_counts_as_commands_do(run: Run, lake: Lake, tmp_path: Path) -> None:
    lake.drop("t", "a/b", dry_run=False)
    run("docs", "build", lake.storage.url, "-o", tmp_path / "site")
    text = re.sub("<[^>]*>", "", (tmp_path / "site" / "index.html").read_text())
    assert "A lake of 2 streams from 2 taps" in text
    assert "a/b" not in text
