"""``singerlake verify``: a line for each finding, and the exit code."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from singerlake.format import layout
from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.upkeep.verify.test_verify import body_of


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
    assert (len(found["streams"]), found["files"], found["messages"]) == (3, 5, 27)
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


def test_a_sample_reads_a_share_and_looks_at_the_rest(run: Run, lake: Lake) -> None:
    result = run("verify", lake.storage.url, "--sample", "34%", "--seed", "a")
    first, second = result.stdout.splitlines()
    assert result.exit_code == 0
    assert first.startswith("sound: 3 streams, 5 files, 27 messages, ")
    # Of three files two, and of one file each time that one.
    assert second.startswith("  drawn by --seed a: 4 of 5 files, ")
    found = json.loads(run("verify", lake.storage.url, "--sample", "1", "--seed", "a", "--json").stdout)
    assert (found["files"], found["read"]["files"], found["seed"]) == (5, 3, "a")


def test_a_sample_is_another_one_each_time(run: Run, lake: Lake) -> None:
    seeds = {json.loads(run("verify", lake.storage.url, "--sample", "1", "--json").stdout)["seed"] for _ in range(3)}
    assert len(seeds) == 3


def test_a_sample_sees_what_a_listing_shows_of_all_files(run: Run, lake: Lake) -> None:
    stream = lake.stream("t", "flights")
    one, two, three = (stream.prefix + file.path for file in stream.snapshot().files)
    lake.storage.put(one, body_of(lake, one) + b"more")
    lake.storage.delete(two)
    lake.storage.delete(three)
    for seed in range(6):
        result = run("verify", lake.storage.url, "--tap", "t", "--stream", "flights", "--sample", "1", "--seed", seed)
        *lines, verdict, _ = result.stdout.splitlines()
        assert result.exit_code == 1
        assert verdict.startswith("3 findings: ")
        assert {line.partition(":")[2].split(":")[0].strip() for line in lines} == {one, two, three}
        assert sum(line.startswith("missing: ") for line in lines) == 2


def test_a_sample_does_not_see_what_only_reading_shows_in_a_file_that_was_not_drawn(run: Run, lake: Lake) -> None:
    stream = lake.stream("t", "flights")
    key = stream.prefix + stream.snapshot().files[0].path
    body = bytearray(body_of(lake, key))
    body[4] ^= 1
    lake.storage.put(key, bytes(body))
    codes = {
        run("verify", lake.storage.url, "--tap", "t", "--stream", "flights", "--sample", "1", "--seed", seed).exit_code
        for seed in range(20)
    }
    assert codes == {0, 1}
    assert run("verify", lake.storage.url, "--sample", "100%").exit_code == 1


def test_bad_samples_are_usage_errors(run: Run, lake: Lake) -> None:
    for arguments in (("--sample", "0%"), ("--sample", "half"), ("--sample", "101%"), ("--seed", "a")):
        result = run("verify", lake.storage.url, *arguments)
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1


def test_a_journal_leaves_out_what_is_unchanged(run: Run, lake: Lake, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    first = run("verify", lake.storage.url, "--tap", "t", "--journal", journal)
    assert first.stdout.splitlines()[1].startswith(
        f"  in {journal} as sound, and unchanged since: 0 of 4 files, 0 B of "
    )
    second = run("verify", lake.storage.url, "--journal", journal)
    assert second.exit_code == 0
    assert second.stdout.splitlines()[1].startswith(f"  in {journal} as sound, and unchanged since: 4 of 5 files, ")
    found = json.loads(run("verify", lake.storage.url, "--journal", journal, "--json").stdout)
    assert (found["read"]["files"], found["noted"]["files"]) == (0, 5)


def test_the_journal_of_another_lake_is_refused(run: Run, lake: Lake, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    run("verify", lake.storage.url, "--journal", journal)
    shutil.copytree(lake.storage.url, tmp_path / "other")
    result = run("verify", tmp_path / "other", "--journal", journal)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: the journal is another lake's; give the journal of this lake")


def test_processes_find_what_threads_find(run: Run, lake: Lake) -> None:
    damage(lake)
    lake.storage.put("raw/u/x/y/stray.singer.gz", b"?")
    threads = run("verify", lake.storage.url)
    processes = run("verify", lake.storage.url, "--engine", "processes")
    assert processes.exit_code == 1
    assert processes.stdout == threads.stdout


def test_an_engine_that_nobody_knows_is_refused(run: Run, lake: Lake) -> None:
    result = run("verify", lake.storage.url, "--engine", "flink")
    assert result.exit_code == 2
    assert "'threads', 'processes', 'spark'" in result.stderr


def test_spark_that_is_not_installed_is_named_with_its_extra(lake: Lake) -> None:
    code = "import sys; sys.modules['pyspark'] = None; from singerlake.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "verify", lake.storage.url, "--engine", "spark"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert "pip install 'singerlake[spark]'" in result.stderr
