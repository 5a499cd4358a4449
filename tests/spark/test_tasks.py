"""``--engine spark``: a task of Spark for each group of files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from singerlake.cli.main import main
from singerlake.errors import BrokenFileError, NotALakeError
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.spark import tasks
from singerlake.spark.tasks import SparkTasks, spark_tasks
from singerlake.upkeep.checks import VerifyTask
from tests.lakes import build_stream
from tests.upkeep.shelf import SCHEMA
from tests.upkeep.verify.test_verify import body_of, first_file


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path / "lake"))
    build_stream(lake, "t", "s", SCHEMA, [{"n": n} for n in range(25)], file_size=10, member_size=3)
    return lake


def test_it_finds_what_threads_find_and_leaves_the_session_alone(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    key = first_file(lake)
    lake.storage.put(key, body_of(lake, key)[:-5])
    lake.storage.put("raw/t/s/x/stray.singer.gz", b"?")
    journal = str(tmp_path / "journal")
    threads, spread = (
        CliRunner().invoke(main, ["verify", lake.storage.url, *more, "--json"], catch_exceptions=False)
        for more in ([], ["--engine", "spark", "--journal", journal])
    )
    assert spread.exit_code == threads.exit_code == 1
    assert json.loads(spread.stdout) == json.loads(threads.stdout)
    assert [finding["kind"] for finding in json.loads(spread.stdout)["findings"]] == ["broken", "unlisted"]
    again = CliRunner().invoke(main, ["verify", lake.storage.url, "--journal", journal, "--json"])
    assert json.loads(again.stdout)["noted"]["files"] == 2
    assert spark.range(3).count() == 3


def test_a_rebuild_comes_to_what_threads_come_to(spark: SparkSession, lake: Lake) -> None:
    lake.storage.put("raw/t/s/x/bad.singer.gz", b"?")
    lake.storage.delete(layout.manifest_key("t", "s"))
    threads, spread = (
        CliRunner().invoke(main, ["rebuild", lake.storage.url, *more, "--json", "--dry-run"], catch_exceptions=False)
        for more in ([], ["--engine", "spark"])
    )
    assert spread.exit_code == threads.exit_code == 1
    assert without_lineage(spread.stdout) == without_lineage(threads.stdout)
    CliRunner().invoke(main, ["rebuild", "--yes", lake.storage.url, "--engine", "spark"], catch_exceptions=False)
    assert lake.stream("t", "s").snapshot().next_offset == 25
    assert CliRunner().invoke(main, ["verify", lake.storage.url, "--ignore", "unlisted"]).exit_code == 0


def without_lineage(text: str) -> Any:
    told = json.loads(text)
    for stream in told["streams"]:
        del stream["lineage"]
    return told


def test_each_group_is_a_task(spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files in order over several jobs, each of several groups."""
    monkeypatch.setattr(tasks, "_GROUPS_PER_CORE", 1)
    monkeypatch.setattr("singerlake.work.batches.GROUP_BYTES", 1)
    files = lake.stream("t", "s").snapshot().files
    with spark_tasks(lake.storage.url, None) as engine:
        before = spark.sparkContext.statusTracker().getJobIdsForGroup()
        assert list(engine(VerifyTask("s", "raw/t/s/"), files)) == [(file, ()) for file in files]
        jobs = set(spark.sparkContext.statusTracker().getJobIdsForGroup()) - set(before)
    assert len(jobs) == -(-len(files) // spark.sparkContext.defaultParallelism)


def test_workers_that_do_not_have_the_folder_say_so(spark: SparkSession, lake: Lake) -> None:
    files = lake.stream("t", "s").snapshot().files
    shutil.rmtree(lake.storage.url)
    with pytest.raises(NotALakeError, match="on the machine that runs this task"):
        list(SparkTasks(spark, lake.storage.url, None)(VerifyTask("s", "raw/t/s/"), files))


def test_a_session_that_cannot_be_stopped_hides_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a Java that was killed."""

    class Gone:
        def __getattr__(self, name: str) -> Any:
            return lambda *_: self

        def stop(self) -> None:
            raise ConnectionRefusedError(111, "refused")

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession, "builder", Gone())
    with pytest.raises(BrokenFileError, match="damaged"), spark_tasks("lake", None, remote="sc://gone"):
        raise BrokenFileError("damaged", hint="restore it", key="a")
