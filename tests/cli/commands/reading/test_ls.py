"""``singerlake ls``: figures from the manifests, on a terminal and off it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from singerlake.format import layout
from singerlake.lake import Lake
from tests.attached.lakes import attach
from tests.cli.conftest import Run


def test_every_stream_has_its_figures(run: Run, lake: Lake) -> None:
    result = run("ls", lake.storage.url)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["TAP", "STREAM", "VERSIONS", "FILES", "RECORDS", "BYTES", "LAST", "WRITE", "(UTC)"]
    assert [line.split()[:5] for line in lines[1:4]] == [
        ["t", "a/b", "v1", "1", "1"],
        ["t", "flights", "v1..v2", "3", "25"],
        ["u", "x", "v1", "1", "1"],
    ]
    assert "2 taps, 3 streams, 5 files, 27 records" in lines[4]


def test_one_tap_alone(run: Run, lake: Lake) -> None:
    result = run("ls", lake.storage.url, "--tap", "u")
    assert "flights" not in result.stdout
    assert "1 tap, 1 stream, 1 file, 1 record," in result.stdout


def test_json_has_exact_figures(run: Run, lake: Lake) -> None:
    listed = json.loads(run("ls", lake.storage.url, "--json").stdout)
    assert listed["lake"] == lake.storage.url
    assert [(tap["tap"], [each["stream"] for each in tap["streams"]]) for tap in listed["taps"]] == [
        ("t", ["a/b", "flights"]),
        ("u", ["x"]),
    ]
    flights = listed["taps"][0]["streams"][1]
    manifest = lake.stream("t", "flights").snapshot()
    assert flights["versions"] == manifest.versions
    assert flights["bytes"] == sum(file.bytes for file in manifest.files)
    assert (flights["files"], flights["records"], flights["messages"]) == (3, 25, 25)
    assert flights["last_write"]
    assert flights["trouble"] is None


@pytest.mark.parametrize(
    ("body", "word"), [(None, "no manifest"), (b"{", "not a JSON object"), (b'{"format":99}', "99")]
)
def test_a_stream_without_figures_says_why_and_keeps_none_of_the_others_back(
    run: Run, lake: Lake, body: bytes | None, word: str
) -> None:
    key = layout.manifest_key("t", "flights")
    lake.storage.delete(key)
    if body is not None:
        lake.storage.put(key, body)
    result = run("ls", lake.storage.url)
    assert (result.exit_code, word in result.stdout, "a/b" in result.stdout) == (1, True, True)


def test_names_are_not_cut_short_off_a_terminal(run: Run, lake: Lake) -> None:
    lake.storage.put(f"raw/{'long' * 40}/x/singerlake.lock", b"{}")
    assert "long" * 40 in run("ls", lake.storage.url, env={"COLUMNS": "40"}).stdout


def on_a_terminal(*arguments: str, **env: str) -> str:
    """The output of ``singerlake`` when it writes to a terminal."""
    parent, child = pty.openpty()
    code = "from singerlake.cli.main import main; main(prog_name='singerlake')"
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=child,
        stderr=child,
        env={**plain, "TERM": "xterm-256color", "COLUMNS": "100", **env},
    )
    os.close(child)
    seen = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(parent)
    assert process.wait(60) == 0
    return seen.decode()


def test_a_terminal_gets_styles_unless_no_color_is_set_or_it_is_dumb(lake: Lake) -> None:
    assert "\x1b[1m" in on_a_terminal("ls", lake.storage.url)
    assert "\x1b[3" not in on_a_terminal("ls", lake.storage.url, NO_COLOR="1")
    assert "\x1b" not in on_a_terminal("ls", lake.storage.url, TERM="dumb")


def test_a_terminal_sees_the_progress_of_reading(lake: Lake) -> None:
    seen = on_a_terminal("verify", lake.storage.url)
    assert "t/flights" in seen
    assert "sound: 3 streams" in seen


def test_attached_files_have_columns_where_there_are_any(run: Run, lake: Lake) -> None:
    assert "ATTACHED" not in run("ls", lake.storage.url).stdout
    attach(lake, "t", "photos", [[b"a" * 1500, b"b"], [b"b"], [None]])
    lines = run("ls", lake.storage.url).stdout.splitlines()
    assert lines[0].endswith("LAST WRITE (UTC)  ATTACHED  ATTACHED BYTES")
    rows = {tuple(line.split()[:2]): line.split() for line in lines}
    assert rows["t", "photos"][-3:] == ["2", "1.5", "kB"]
    assert rows["t", "flights"][-1][2] == ":"
    assert lines[-1].endswith("2 attached files, 1.5 kB")
    counts = {
        each["stream"]: (each["attached"], each["attached_bytes"])
        for tap in json.loads(run("ls", lake.storage.url, "--json").stdout)["taps"]
        for each in tap["streams"]
    }
    assert counts == {"photos": (2, 1501), "flights": (0, 0), "a/b": (0, 0), "x": (0, 0)}
    exported = json.loads(run("export", lake.storage.url, "--tap", "t").stdout)["taps"][0]["streams"]
    assert [each["attached"] for each in exported] == [0, 0, 2]
