"""``singerlake tail``."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys

import pytest

from singerlake.lake import Lake
from tests.lakes import build_stream, record_line
from tests.processes.plugins import Plugin
from tests.target.support import environment
from tests.upkeep.shelf import SCHEMA

FLIGHTS = ("--tap", "t", "--stream", "flights")


def line(number: int) -> str:
    return record_line("flights", {"n": number}).decode()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_follows_until_a_signal_ends_it(lake: Lake, number: int, code: int) -> None:
    tail = Plugin("singerlake", ["tail", lake.storage.url, *FLIGHTS, "-n", "1", "-f"], env=environment())
    assert tail.stdout is not None
    assert tail.stdout.readline().decode().rstrip() == line(4)
    build_stream(lake, "t", "flights", SCHEMA, [record_line("flights", {"n": n}) for n in (100, 101)])
    assert [tail.stdout.readline().decode().rstrip() for _ in range(2)] == [line(100), line(101)]
    tail.send_signal(number)
    assert (tail.communicate(timeout=30), tail.wait()) == ((b"", b""), code)


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


def test_it_ends_when_its_reader_does_though_no_message_comes(lake: Lake) -> None:
    tail = Plugin("singerlake", ["tail", lake.storage.url, *FLIGHTS, "-n", "1", "-f"], env=environment())
    assert tail.stdout is not None
    assert tail.stdout.readline().decode().rstrip() == line(4)
    tail.stdout.close()
    assert tail.wait(timeout=30) == 0
