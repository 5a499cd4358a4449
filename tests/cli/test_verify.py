"""``singerlake verify``: a line for each finding, and the exit code."""

from __future__ import annotations

import json

from singerlake.format import layout
from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.maintenance.test_verify import body_of


def damage(lake: Lake) -> str:
    stream = lake.stream("t", "flights")
    key = stream.prefix + stream.snapshot().files[0].path
    lake.storage.put(key, body_of(lake, key)[:-5])
    return key


def test_a_sound_lake_gets_a_summary(run: Run, lake: Lake) -> None:
    result = run("verify", lake.storage.url)
    assert result.exit_code == 0
    assert result.stdout.startswith("sound: 3 streams, 5 files, 27 messages, ")
    assert result.stdout.count("\n") == 1
    assert result.stderr == ""


def test_each_finding_is_one_line(run: Run, lake: Lake) -> None:
    key = damage(lake)
    lake.storage.put("raw/u/x/y/stray.singer.gz", b"?")
    result = run("verify", lake.storage.url)
    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert lines[0].startswith(f"broken: {key}: ")
    assert lines[1].startswith("unlisted: raw/u/x/y/stray.singer.gz: ")
    assert lines[2].startswith("2 findings: 3 streams, ")


def test_only_one_tap_or_stream(run: Run, lake: Lake) -> None:
    damage(lake)
    assert run("verify", lake.storage.url, "--tap", "u").exit_code == 0
    assert run("verify", lake.storage.url, "--tap", "t", "--stream", "a/b").exit_code == 0
    assert run("verify", lake.storage.url, "--tap", "t", "--stream", "flights", "--threads", 1).exit_code == 1


def test_a_kind_of_finding_can_be_ignored(run: Run, lake: Lake) -> None:
    lake.storage.put("raw/u/x/y/stray.singer.gz", b"?")
    assert run("verify", lake.storage.url, "--ignore", "unlisted").exit_code == 0
    damage(lake)
    assert run("verify", lake.storage.url, "--ignore", "unlisted").exit_code == 1


def test_notes_do_not_count(run: Run, lake: Lake) -> None:
    lake.storage.put("raw/t/_temporary/x", b"")
    result = run("verify", lake.storage.url)
    assert result.exit_code == 0
    assert result.stdout.startswith("note: foreign: raw/t/_temporary/: ")
    assert "sound, 1 note: " in result.stdout


def test_json_for_scripts(run: Run, lake: Lake) -> None:
    key = damage(lake)
    result = run("verify", lake.storage.url, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (found["streams"], found["files"], found["messages"]) == (3, 5, 27)
    assert [(finding["kind"], finding["key"], finding["problem"]) for finding in found["findings"]] == [
        ("broken", key, True)
    ]


def test_a_damaged_manifest_does_not_keep_the_other_streams_back(run: Run, lake: Lake) -> None:
    damage(lake)
    lake.storage.put(layout.manifest_key("t", "a/b"), b"{")
    result = run("verify", lake.storage.url)
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == ["manifest", "broken", "2 findings"]


def test_it_changes_nothing(run: Run, lake: Lake) -> None:
    before = [(entry.key, entry.etag) for entry in lake.storage.list("")]
    run("verify", lake.storage.url)
    assert [(entry.key, entry.etag) for entry in lake.storage.list("")] == before


def test_root_metadata_that_cannot_be_read_is_a_finding_and_keeps_no_stream_from_being_checked(
    run: Run, lake: Lake
) -> None:
    lake.storage.put(layout.root_metadata_key(), b"{")
    key = damage(lake)
    result = run("verify", lake.storage.url)
    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert lines[0].startswith("root: raw/singerlake.json: not a JSON object")
    assert lines[1].startswith(f"broken: {key}: ")
    assert lines[2].startswith("2 findings: 3 streams, ")
