"""Names of taps and streams that other software takes for something else: captured, listed, replayed, verified and made
anew, in each cloud. All that is written stays below the lake's root."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.format.layout import SEGMENT_LIMIT, STREAM_LIMIT
from tests.storage.cloud.commands import Cloud, Commands

pytestmark = pytest.mark.thorough

STREAMS = [
    "a",
    "a.",
    "a..",
    ".",
    "..",
    "../../../escape",
    "/absolute",
    "a/b",
    "a//b/",
    "a\\b",
    "..\\b",
    "%2F",
    "a%2Fb",
    "%",
    "?restype=container&comp=list",
    "#fragment",
    "a+b",
    "a b",
    " ",
    "  a  ",
    "\0",
    "\t\n\r\x0b",
    "\x01\x1f\x7f\x85\x9f",
    "caf\u00e9",
    "cafe\u0301",
    "😀",
    "\u202ea",
    "\ufeffa",
    "\ue000\ufdd0\ufffe\U0010ffff",
    "Users",
    "users",
    "USERS",
    "~2E",
    "a~2E",
    "_log",
    "manifest.json",
    "catalogue.json",
    "singerlake.json",
    "_singerlake_parts",
    "a.singer.gz",
    "'\"$(a);`b`|<>*:",
    "x" * STREAM_LIMIT,
    "é" * (STREAM_LIMIT // 6),
]
TAPS = ["t", "T", "..", "a/../b", "a.\\", "%2F?#+ \x01\t", "cafe\u0301 😀", "catalogue.json", "x" * SEGMENT_LIMIT]


def capture(commands: Commands, tap: str, streams: list[str]) -> list[dict[str, Any]]:
    """Have a tap of this name send a record of each stream; gives the records."""
    commands.set(tap_id=tap)
    schema = {"properties": {"name": {"type": "string"}}}
    messages = [{"type": "SCHEMA", "stream": each, "schema": schema, "key_properties": []} for each in streams]
    records = [{"type": "RECORD", "stream": each, "record": {"name": f"{tap} {each}"}} for each in streams]
    lines = "".join(json.dumps(each) + "\n" for each in [*messages, *records])
    commands.run("target-singerlake", "--config", str(commands.config), lines=lines)
    return records


def replayed(commands: Commands, tap: str) -> list[dict[str, Any]]:
    commands.set(tap_id=tap)
    return by_stream(commands.replayed())


def by_stream(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=lambda each: str(each["stream"]))


def verified(commands: Commands) -> str:
    """The last line that ``verify`` writes."""
    return commands.run("singerlake", "verify").splitlines()[-1]


def listed(commands: Commands) -> set[tuple[str, str]]:
    taps = json.loads(commands.run("singerlake", "ls", "--json"))["taps"]
    return {(tap["tap"], each["stream"]) for tap in taps for each in tap["streams"]}


@pytest.mark.crossed("scheme", "store")
@pytest.mark.parametrize("store", ["log", "lockfile"])
@pytest.mark.parametrize("scheme", ["az", "gs"])
def test_every_stream_comes_back(clouds: dict[str, Cloud], tmp_path: Path, scheme: str, store: str) -> None:
    cloud = clouds[scheme]
    before = set(cloud.names())
    commands = Commands(cloud, store, tmp_path)
    tap = "../t.\\%2F?#+ \x01é😀"
    records = by_stream(capture(commands, tap, STREAMS))
    assert listed(commands) == {(tap, each) for each in STREAMS}
    assert replayed(commands, tap) == records
    # The note is about names that differ in case alone, which a disk may take for one.
    sound = f"sound, 1 note: {len(STREAMS)} streams, {len(STREAMS)} files, {len(STREAMS)} messages"
    assert verified(commands).startswith(sound)
    for each in list(commands.storage.list("")):
        if each.key.endswith(("/manifest.json", "/catalogue.json")):
            commands.storage.delete(each.key)
    commands.run("singerlake", "rebuild", "--yes")
    assert verified(commands).startswith(sound)
    assert listed(commands) == {(tap, each) for each in STREAMS}
    assert replayed(commands, tap) == records
    written = set(cloud.names()) - before
    assert {name.split("/")[:2] == [tmp_path.name, "raw"] for name in written} == {True}
    assert not [name for name in written if {"", ".", ".."} & set(name.split("/"))]


@pytest.mark.parametrize("scheme", ["az", "gs"])
def test_every_tap_comes_back(clouds: dict[str, Cloud], tmp_path: Path, scheme: str) -> None:
    cloud = clouds[scheme]
    before = set(cloud.names())
    commands = Commands(cloud, "lockfile", tmp_path)
    streams = ["a.", "../b"]
    records = {tap: by_stream(capture(commands, tap, streams)) for tap in TAPS}
    assert listed(commands) == {(tap, each) for tap in TAPS for each in streams}
    for tap in TAPS:
        assert replayed(commands, tap) == records[tap]
    assert verified(commands).startswith(f"sound, 1 note: {2 * len(TAPS)} streams")
    written = set(cloud.names()) - before
    assert {name.split("/")[:2] == [tmp_path.name, "raw"] for name in written} == {True}


@pytest.mark.parametrize(
    ("tap", "stream", "said"),
    [
        ("t", "x" * (STREAM_LIMIT + 1), "stream name takes"),
        ("t", "é" * (STREAM_LIMIT // 6 + 1), "stream name takes"),
        ("x" * (SEGMENT_LIMIT + 1), "s", "tap id takes"),
        ("t", "", "names no stream"),
    ],
    ids=["stream", "encoded stream", "tap", "empty stream"],
)
@pytest.mark.parametrize("scheme", ["az", "gs"])
def test_a_name_that_no_object_can_have_is_refused_before_anything_is_written(
    clouds: dict[str, Cloud], tmp_path: Path, scheme: str, tap: str, stream: str, said: str
) -> None:
    commands = Commands(clouds[scheme], "lockfile", tmp_path)
    commands.set(tap_id=tap)
    schema = {"type": "SCHEMA", "stream": stream, "schema": {"properties": {}}, "key_properties": []}
    code, _, log = commands.outcome("target-singerlake", "--config", str(commands.config), lines=json.dumps(schema))
    assert code == 1
    assert said in log.splitlines()[-1]
    assert "Traceback" not in log
    assert [each.key for each in commands.storage.list("") if each.key.endswith(".singer.gz")] == []
