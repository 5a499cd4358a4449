"""``singerlake verify``: a line for each finding, and the exit code."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.upkeep.verify.test_verify import body_of


def damage(lake: Lake) -> str:
    stream = lake.stream("t", "flights")
    key = stream.prefix + stream.snapshot().files[0].path
    lake.storage.put(key, body_of(lake, key)[:-5])
    return key


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


def test_spark_that_is_not_installed_is_named_with_its_extra(lake: Lake) -> None:
    code = "import sys; sys.modules['pyspark'] = None; from singerlake.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "verify", lake.storage.url, "--engine", "spark"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert "pip install 'singerlake[spark]'" in result.stderr
