"""Writes that break off: whatever failed, and wherever, nothing of them is listed, and what was there still is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from pyspark.sql.functions import udf

from singerlake.clock import SystemClock, random_id
from singerlake.errors import AccessDeniedError, CommitRefusedError, LockTimeoutError, StorageUnavailableError
from singerlake.format import layout
from singerlake.format.state.transactions import RetireFiles, Transaction
from singerlake.lake import Lake
from singerlake.lock_file import Lock, LockSettings
from singerlake.spark import write as writing
from singerlake.spark.write import SingerlakeWriter, WrittenFiles, prepare, write_options
from singerlake.stores.port import Loaded
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, s3_server
from tests.spark.write.writes import STREAM, TAP, Place, failure

IDS = t.StructType([t.StructField("id", t.LongType(), False)])


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture
def stream(root: str) -> Place:
    """A place that no Spark session is needed for."""
    return Place(None, root)  # type: ignore[arg-type]


def writer(root: str, **options: str) -> SingerlakeWriter:
    """What Spark gets of the source on the driver."""
    return prepare(write_options({"path": root, "tap": TAP, "stream": STREAM, **options}), IDS, False)


def rows(*ids: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(ids, pa.int64())], names=["id"])


def ids(stream: Place) -> list[int]:
    return [record["id"] for record in stream.records()]


def test_a_task_that_fails_leaves_nothing_listed_and_the_next_write_is_whole(spark: SparkSession, root: str) -> None:
    place = Place(spark, root)
    place.write(spark.range(2))
    before = place.manifest

    @udf("bigint")
    def breaks(id: int) -> int:
        if id == 7999:
            raise RuntimeError("this row is bad")
        return id

    frame = spark.range(0, 8000, 1, 4).select(breaks("id").alias("id"))
    assert "this row is bad" in failure(lambda: place.write(frame, max_file_records=100))
    after = place.manifest
    assert (after.files, after.next_offset) == (before.files, before.next_offset)
    assert len(place.files()) > len(after.files)
    assert [run.status for run in after.runs] == ["finished", "failed"]
    place.write(spark.range(2, 4))
    assert sorted(row.id for row in place.read().collect()) == [0, 1, 2, 3]
    place.check(orphans=len(place.files()) - len(place.manifest.files))


def test_a_commit_that_cannot_be_is_an_error_of_the_write_and_lists_nothing(spark: SparkSession, root: str) -> None:
    place = Place(spark, root)
    place.write(spark.range(2))
    with held(place, place.manifest.files[0].version):
        said = failure(lambda: place.write(spark.range(2, 4), lock_max_wait_seconds=0))
    assert "LockTimeoutError" in said
    assert "another-writer" in said
    assert place.records() == [{"id": 0}, {"id": 1}]
    assert [run.status for run in place.manifest.runs] == ["finished", "failed"]


def held(place: Place, version: str):  # type: ignore[no-untyped-def]
    key = layout.version_lock_key(TAP, place.stream, version)
    lock = Lock(place.lake.storage, key, "another-writer", LockSettings(), SystemClock(), random_id)
    return lock.held()


def test_only_attempts_whose_messages_are_committed_are_listed(root: str, stream: Place) -> None:
    job = writer(root)
    lost, won = job.write(iter([rows(1, 2)])), job.write(iter([rows(1, 2)]))
    other = job.write(iter([rows(3)]))
    job.commit([won, other])
    assert ids(stream) == [1, 2, 3]
    assert not {file.id for file in lost.files} & set(stream.manifest.by_id)
    stream.check(orphans=len(lost.files))


def test_a_task_that_breaks_off_in_mid_partition_keeps_no_spool(root: str, stream: Place, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    job = writer(root, spool_dir=str(spool), max_file_records="1")

    def batches():  # type: ignore[no-untyped-def]
        yield rows(1, 2)
        raise RuntimeError("gone")

    with pytest.raises(RuntimeError, match="gone"):
        job.write(batches())
    assert list(spool.iterdir()) == []
    job.abort([None])
    assert stream.manifest.files == ()
    assert len(stream.files()) == 2


def test_a_commit_done_again_changes_nothing(root: str, stream: Place) -> None:
    job = writer(root)
    messages = [job.write(iter([rows(1)])), job.write(iter([rows(2)]))]
    job.commit(messages)
    job.commit(messages)
    assert ids(stream) == [1, 2]


def test_a_task_that_did_not_say_what_it_wrote_keeps_all_from_being_committed(root: str, stream: Place) -> None:
    job = writer(root)
    with pytest.raises(CommitRefusedError, match="a task did not report what it wrote"):
        job.commit([job.write(iter([rows(1)])), None])
    assert stream.manifest.files == ()


def test_an_abort_after_a_commit_does_not_say_that_it_failed(root: str, stream: Place) -> None:
    job = writer(root)
    job.commit([job.write(iter([rows(1)]))])
    job.abort([None])
    assert [run.status for run in stream.manifest.runs] == ["finished"]
    assert ids(stream) == [1]


def test_an_abort_where_the_lake_does_not_answer_is_a_warning(
    root: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = writer(root)

    def refuse(*_: object) -> None:
        raise StorageUnavailableError("storage is away")

    monkeypatch.setattr(writing, "_stream_writer", refuse)
    job.abort([None])
    assert "could not record that the write failed: storage is away" in caplog.text


def test_what_fails_after_the_commit_does_not_fail_the_write(
    root: str, stream: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StorageUnavailableError("storage is away")

    monkeypatch.setattr(Lake, "announce", refuse)
    job = writer(root)
    job.commit([job.write(iter([rows(1)]))])
    assert "the rows are committed" in caplog.text
    assert ids(stream) == [1]


def test_a_file_that_was_retired_meanwhile_is_refused_and_never_half_listed(root: str, stream: Place) -> None:
    job = writer(root)
    messages = [job.write(iter([rows(1)])), job.write(iter([rows(2)]))]
    retire(stream, messages[1])
    with pytest.raises(CommitRefusedError, match="retired as an orphan"):
        job.commit(messages)
    assert stream.manifest.files == ()


def retire(stream: Place, message: WrittenFiles) -> None:
    store = stream.lake.stream(TAP, STREAM).store()
    base = store.load()
    assert base is not None
    change = RetireFiles(files=tuple((file.id, file.path) for file in message.files))
    outcome = store.commit(base, Transaction(id=random_id(), at="2026", change=change))
    assert isinstance(outcome, Loaded)


def test_a_rebuild_between_upload_and_commit_has_every_row_once(root: str, stream: Place) -> None:
    job = writer(root)
    message = job.write(iter([rows(1, 2)]))
    (Path(root) / layout.manifest_key(TAP, STREAM)).unlink()
    writer(root)
    assert ids(stream) == [1, 2]
    job.commit([message])
    assert ids(stream) == [1, 2]


def test_another_writer_in_between_gets_the_offsets_before(root: str, stream: Place) -> None:
    slow, fast = writer(root), writer(root)
    message = slow.write(iter([rows(1)]))
    fast.commit([fast.write(iter([rows(2)]))])
    slow.commit([message])
    assert ids(stream) == [2, 1]
    stream.check()


def test_a_lock_that_is_held_is_waited_for_no_longer_than_told(root: str, stream: Place) -> None:
    job = writer(root, lock_max_wait_seconds="0")
    message = job.write(iter([rows(1)]))
    with held(stream, message.files[0].version), pytest.raises(LockTimeoutError, match="another-writer"):
        job.commit([message])
    job.commit([message])
    assert ids(stream) == [1]


def nowhere(folder: Path) -> Path:
    return folder / "missing"


def a_file(folder: Path) -> Path:
    path = folder / "file"
    path.write_text("")
    return path


@pytest.mark.parametrize("place", [nowhere, a_file])
def test_a_spool_that_cannot_be_written_is_said_with_its_setting(
    root: str, tmp_path: Path, place: Callable[[Path], Path]
) -> None:
    job = writer(root, spool_dir=str(place(tmp_path)))
    with pytest.raises((StorageUnavailableError, AccessDeniedError), match="set spool_dir"):
        job.write(iter([rows(1)]))


@pytest.mark.thorough
def test_on_s3_with_secrets_in_the_options(spark: SparkSession) -> None:
    with s3_server() as server:
        server.create_bucket("lakes")
        keys = {
            "aws_access_key_id": ACCESS_KEY_ID,
            "aws_secret_access_key": SECRET_ACCESS_KEY,
            "aws_region": REGION,
            "s3_endpoint_url": server.endpoint_url,
            "s3_path_style": "true",
        }
        place = Place(spark, "s3://lakes/a prefix")
        place.write(spark.range(0, 100, 1, 2), **keys)
        assert place.read(**keys).selectExpr("count(*)", "sum(id)").collect() == [(100, 4950)]
        server.fail("PUT", status=403, code="AccessDenied", times=-1, key_contains=".singer.gz")
        try:
            said = failure(lambda: place.write(spark.range(5), **keys))
        finally:
            server.calm()
        assert "AccessDenied" in said
        assert SECRET_ACCESS_KEY not in said
        assert place.read(**keys).count() == 100
