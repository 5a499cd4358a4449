"""``singerlake ls --commits``: the atomic runs of a tap."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from singerlake.format import layout
from singerlake.lake import Lake
from tests.atomic.lakes import SCHEMA, commit_together, decide_against, numbers
from tests.cli.conftest import Run
from tests.lakes import build_stream


@pytest.fixture
def lake(root: Path) -> Lake:
    """Tap ``t`` without an atomic run."""
    lake = Lake.open(str(root))
    build_stream(lake, "t", "flights", SCHEMA, numbers(0, 5), store="log")
    return lake


@pytest.fixture
def names(lake: Lake) -> list[str]:
    """Two commits of tap ``shop``, and a run that was decided against between them."""
    return [
        commit_together(lake, "shop", {"orders": numbers(0, 2), "items": numbers(0, 1000)}, run="r1"),
        decide_against(lake, "shop", run="r2"),
        commit_together(lake, "shop", {"items": numbers(1000, 1003)}, run="r3"),
    ]


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_newest_is_last(run: Run, lake: Lake, names: list[str]) -> None:
    result = run("ls", lake.storage.url, "--tap", "shop", "--commits")
    assert result.exit_code == 0
    head, first, second, caption = rows(result.stdout)
    assert head == ["TAP", "COMMIT", "DECIDED", "(UTC)", "RUN", "STREAMS", "MESSAGES"]
    assert (first[:2], first[4:]) == (["shop", names[0]], ["r1", "2", "1,002"])
    assert (second[:2], second[4:]) == (["shop", names[2]], ["r3", "1", "3"])
    assert " ".join(caption).endswith(": 2 commits, 1,005 messages")


def test_all_shows_what_was_decided_against_too(run: Run, lake: Lake, names: list[str]) -> None:
    result = run("ls", lake.storage.url, "--tap", "shop", "--commits", "--all")
    *listed, caption = rows(result.stdout)
    assert [row[1] for row in listed[1:]] == names
    assert listed[2][4:] == ["r2", "decided", "against"]
    assert " ".join(caption).endswith(": 2 commits, 1,005 messages, 1 run decided against")


def test_json_has_each_stream(run: Run, lake: Lake, names: list[str]) -> None:
    listed = json.loads(run("ls", lake.storage.url, "--tap", "shop", "--commits", "--all", "--json").stdout)
    assert listed["lake"] == lake.storage.url
    (tap,) = listed["taps"]
    assert tap["tap"] == "shop"
    assert [(each["name"], each["run"], each["committed"], each["messages"]) for each in tap["commits"]] == [
        (names[0], "r1", True, 1002),
        (names[1], "r2", False, 0),
        (names[2], "r3", True, 3),
    ]
    lineage = lake.stream("shop", "items").snapshot().lineage
    assert tap["commits"][2]["streams"] == {
        "items": {"lineage": lineage, "offset": 1000, "end": 1003, "messages": 3},
    }
    assert tap["commits"][2]["writer"] == "a-test"
    assert tap["commits"][2]["at"].startswith("20")


def test_without_a_tap_each_has_its_commits(run: Run, lake: Lake, names: list[str]) -> None:
    other = commit_together(lake, "t", {"new": numbers(0, 1)})
    listed = json.loads(run("ls", lake.storage.url, "--commits", "--json").stdout)
    assert [(tap["tap"], [each["name"] for each in tap["commits"]]) for tap in listed["taps"]] == [
        ("shop", [names[0], names[2]]),
        ("t", [other]),
    ]


def test_a_tap_without_atomic_runs_has_none(run: Run, lake: Lake) -> None:
    result = run("ls", lake.storage.url, "--tap", "t", "--commits")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].endswith(": 0 commits, 0 messages")


def test_an_unknown_tap_is_an_error_that_names_those_there_are(run: Run, lake: Lake) -> None:
    result = run("ls", lake.storage.url, "--tap", "nobody", "--commits")
    assert result.exit_code != 0
    assert "no tap 'nobody' in this lake; it has: t" in result.stderr


def test_all_alone_is_wrong_usage(run: Run, lake: Lake) -> None:
    result = run("ls", lake.storage.url, "--all")
    assert result.exit_code == 2
    assert "--all needs --commits" in result.stderr


def test_a_decision_that_cannot_be_read_is_an_error_that_names_it(run: Run, lake: Lake, names: list[str]) -> None:
    key = layout.commit_key("shop", names[2])
    lake.storage.put(key, b"{")
    result = run("ls", lake.storage.url, "--tap", "shop", "--commits")
    assert result.exit_code == 1
    assert key in result.stderr
