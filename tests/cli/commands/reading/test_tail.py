"""``singerlake tail``."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys

import pytest

from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import build_stream, record_line
from tests.processes.plugins import Plugin
from tests.target.support import environment
from tests.upkeep.shelf import SCHEMA

FLIGHTS = ("--tap", "t", "--stream", "flights")


def line(number: int) -> str:
    return record_line("flights", {"n": number}).decode()


def test_the_last_messages_are_the_lines_of_the_tap(run: Run, lake: Lake) -> None:
    result = run("tail", lake.storage.url, *FLIGHTS, "-n", 7)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [line(n) for n in (18, 19, 0, 1, 2, 3, 4)]
    assert len(run("tail", lake.storage.url, *FLIGHTS).stdout.splitlines()) == 10


@pytest.mark.parametrize(("count", "lines"), [(0, 0), (1, 1), (25, 25), (1000, 25)])
def test_as_many_as_are_asked_for_and_there(run: Run, lake: Lake, count: int, lines: int) -> None:
    result = run("tail", lake.storage.url, *FLIGHTS, "--lines", count)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, lines)


def test_json_has_the_offset_of_each(run: Run, lake: Lake) -> None:
    result = run("tail", lake.storage.url, *FLIGHTS, "--from-offset", 18, "--json")
    found = [json.loads(text) for text in result.stdout.splitlines()]
    assert [each["offset"] for each in found] == list(range(18, 25))
    assert [each["message"]["record"]["n"] for each in found] == [18, 19, 0, 1, 2, 3, 4]


def test_behind_the_end_there_is_nothing(run: Run, lake: Lake) -> None:
    result = run("tail", lake.storage.url, *FLIGHTS, "--from-offset", 99)
    assert (result.exit_code, result.stdout) == (0, "")


def test_erased_records_are_left_out(run: Run, lake: Lake) -> None:
    assert run("erase", lake.storage.url, *FLIGHTS, "--where", "n = 3", "--delete").exit_code == 0
    result = run("tail", lake.storage.url, *FLIGHTS, "-n", 5, "--json")
    assert [json.loads(text)["offset"] for text in result.stdout.splitlines()] == [20, 21, 22, 24]


def test_what_expired_is_an_error_that_says_what_is_left(run: Run, lake: Lake) -> None:
    assert run("expire", lake.storage.url, *FLIGHTS, "--before-offset", 20, "--delete").exit_code == 0
    assert len(run("tail", lake.storage.url, *FLIGHTS, "-n", 100).stdout.splitlines()) == 5
    result = run("tail", lake.storage.url, *FLIGHTS, "--from-offset", 3)
    assert result.exit_code == 1
    assert "offset 3 to 19 expired" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--tap", "t"], "one stream is needed, and 2 match; name one: t/a/b, t/flights"),
        (["--stream", "[af]*"], "name one: t/a/b, t/flights"),
        ([*FLIGHTS, "-n", "1", "--from-offset", "1"], "--lines or --from-offset"),
        ([*FLIGHTS, "-n", "-1"], "-n"),
        ([*FLIGHTS, "--from-offset", "-1"], "--from-offset"),
        ([*FLIGHTS, "--every", "5s"], "--follow"),
        ([*FLIGHTS, "-f", "--every", "0s"], "1s at least"),
        ([*FLIGHTS, "-f", "--every", "soon"], "not a valid duration; write 90s, 30m, 12h or 7d"),
    ],
)
def test_wrong_usage_is_said(run: Run, lake: Lake, arguments: list[str], says: str) -> None:
    result = run("tail", lake.storage.url, *arguments)
    assert result.exit_code == 2
    assert says in result.stderr


def test_an_unknown_stream_is_named_with_those_there_are(run: Run, lake: Lake) -> None:
    result = run("tail", lake.storage.url, "--tap", "t", "--stream", "nope", "-f")
    assert result.exit_code == 2
    assert "flights" in result.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_follows_until_a_signal_ends_it(lake: Lake, number: int, code: int) -> None:
    tail = Plugin("singerlake", ["tail", lake.storage.url, *FLIGHTS, "-n", "1", "-f"], env=environment())
    assert tail.stdout is not None
    assert tail.stdout.readline().decode().rstrip() == line(4)
    build_stream(lake, "t", "flights", SCHEMA, [record_line("flights", {"n": n}) for n in (100, 101)])
    assert [tail.stdout.readline().decode().rstrip() for _ in range(2)] == [line(100), line(101)]
    tail.send_signal(number)
    assert tail.wait(30) == code


def test_on_a_terminal_nothing_moves_the_cursor(lake: Lake) -> None:
    # An escape sequence of one byte, and what turns the line around, as a tap may write them inside a string.
    hostile = record_line("flights", {"n": 1, "s": "?"}).replace(b"?", b"\xc2\x9b2J\xe2\x80\xae")
    build_stream(lake, "t", "flights", SCHEMA, [hostile])
    command = [
        sys.executable,
        "-c",
        "from singerlake.cli.main import main; main()",
        "tail",
        lake.storage.url,
        *FLIGHTS,
        "-n",
        "1",
    ]
    piped = subprocess.run(command, capture_output=True, env=environment(), check=True, timeout=60)
    assert b"\xc2\x9b2J\xe2\x80\xae" in piped.stdout
    master, slave = pty.openpty()
    subprocess.run(command, stdout=slave, env=environment(), check=True, timeout=60)
    shown = os.read(master, 10_000)
    os.close(slave)
    os.close(master)
    assert b"\\x9b2J\\u202e" in shown
    assert b"\xc2\x9b" not in shown
