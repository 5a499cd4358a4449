"""The reader as Spark's tasks call it, without a Spark."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition

from singerlake.arrow.plan.splits import pack, splits
from singerlake.arrow.schema.columns import Field, Integer, Struct
from singerlake.errors import NotALakeError
from singerlake.lake import Lake
from singerlake.spark.batch.reader import SingerlakeReader, SplitsPartition
from singerlake.spark.options import read_options
from singerlake.spark.source import SingerlakeDataSource
from singerlake.spark.spark_types import to_spark
from tests.lakes import build_stream

SCHEMA = {"properties": {"n": {"type": "integer"}}}
COLUMNS = Struct((Field("n", Integer()),))
SECRETS = {"aws_access_key_id": "AKIASHOWN", "aws_secret_access_key": "hush-hush"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path))
    build_stream(lake, "t", "s", SCHEMA, [{"n": n} for n in range(23)], file_size=10, member_size=4)
    return lake


def reader(lake: Lake, first: int, stop: int, target: int = 1 << 20) -> SingerlakeReader:
    stream = lake.stream("t", "s")
    partitions = pack(splits(stream.snapshot().files, first, stop, target), target)
    options = read_options({"path": lake.storage.url, "tap": "t", "stream": "s", **SECRETS})
    return SingerlakeReader(options, stream.prefix, to_spark(COLUMNS), COLUMNS, None, partitions)


@pytest.mark.parametrize(
    ("first", "stop"), [(0, 23), (0, 1), (3, 8), (4, 8), (5, 6), (9, 11), (11, 22), (22, 99), (7, 7)]
)
@pytest.mark.parametrize("target", [1, 1 << 20])
def test_exactly_the_offsets_meant_are_read(lake: Lake, first: int, stop: int, target: int) -> None:
    planned = reader(lake, first, stop, target)
    found = [
        number
        for partition in planned.partitions()
        for batch in planned.read(partition)
        for number in batch.column(0).to_pylist()
    ]
    assert found == list(range(first, min(stop, 23)))


def test_a_worker_without_the_lake_says_so(lake: Lake, tmp_path: Path) -> None:
    planned = reader(lake, 0, 23)
    (tmp_path / "raw").rename(tmp_path / "elsewhere")
    with pytest.raises(NotALakeError, match="a local path has to be the same folder on the driver and all workers"):
        list(planned.read(planned.partitions()[0]))


def test_the_partition_that_spark_makes_up_holds_nothing(lake: Lake) -> None:
    assert list(reader(lake, 0, 23).read(InputPartition(None))) == []


def test_a_task_gets_its_own_partition_and_not_those_of_the_others(lake: Lake) -> None:
    planned = reader(lake, 0, 23, 1)
    partition = planned.partitions()[-1]
    assert len(planned.partitions()) == 7
    sent: SingerlakeReader = pickle.loads(pickle.dumps(planned))
    assert sent.partitions() == []
    (batch,) = sent.read(pickle.loads(pickle.dumps(partition)))
    assert batch.column(0).to_pylist() == [20, 21, 22]


def test_no_secret_shows_where_things_are_printed(lake: Lake) -> None:
    planned = reader(lake, 0, 23)
    source = SingerlakeDataSource({"path": lake.storage.url, "tap": "t", "stream": "s", **SECRETS})
    shown = [planned, source, source._options, source.options, *planned.partitions()]
    assert "hush" not in repr(shown)
    assert isinstance(planned.partitions()[0], SplitsPartition)


def test_what_the_source_reads_is_settled_when_spark_pickles_it(lake: Lake) -> None:
    source = SingerlakeDataSource({"path": lake.storage.url, "tap": "t", "stream": "s"})
    sent: SingerlakeDataSource = pickle.loads(pickle.dumps(source))
    build_stream(lake, "t", "s", SCHEMA, [{"n": 100}])
    planned = sent.reader(to_spark(COLUMNS))
    rows = sum(batch.num_rows for partition in planned.partitions() for batch in planned.read(partition))
    assert rows == 23
