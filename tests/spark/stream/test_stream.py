"""Streaming queries by a real Spark: triggers, checkpoints, crashes, and a lake that changes meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from singerlake.format import layout
from singerlake.format.state.model import StreamSchema
from singerlake.lake import Lake
from tests.lakes import build_stream
from tests.spark.stream.streaming import (
    STREAM,
    TAP,
    V1,
    V2,
    add,
    limits_if_any,
    needs_limits,
    options,
    rebuild,
    snapshot,
    vacuum,
)

Load = Callable[..., DataFrame]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Ids 0 to 24 in three files of v1: ten, ten and five, three a gzip member."""
    lake = Lake.open(str(tmp_path / "lake"))
    add(lake, *range(25))
    return lake


@pytest.fixture
def load(spark: SparkSession, lake: Lake) -> Load:
    def load(schema: str | None = None, **more: Any) -> DataFrame:
        loading = spark.readStream.format("singerlake").options(**options(lake, **more))
        return (loading.schema(schema) if schema else loading).load()

    return load


class Sink:
    """What each batch of a query brought, by batch id; a batch that is run again takes the place of its first run."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.batches: dict[int, list[Any]] = {}
        self.runs: list[int] = []
        self.die_in: int | None = None

    def start(self, found: DataFrame, **trigger: Any) -> StreamingQuery:
        def write(batch: DataFrame, number: int) -> None:
            self.runs.append(number)
            self.batches[number] = sorted(row.id for row in batch.collect())
            if number == self.die_in:
                self.die_in = None
                raise RuntimeError("the sink died")

        writing = found.writeStream.option("checkpointLocation", str(self.checkpoint)).foreachBatch(write)
        return writing.trigger(**trigger).start()

    def run(self, found: DataFrame) -> list[list[Any]]:
        """What a run to the end of the stream brought, batch by batch."""
        before = set(self.batches)
        self.start(found, availableNow=True).awaitTermination()
        return [self.batches[number] for number in sorted(self.batches) if number not in before]

    @property
    def ids(self) -> list[Any]:
        return [each for number in sorted(self.batches) for each in self.batches[number]]


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(tmp_path / "checkpoint")


@pytest.fixture
def started() -> Iterator[Callable[[StreamingQuery], StreamingQuery]]:
    """Queries that go on until they are stopped, which a test that fails must not leave behind."""
    queries: list[StreamingQuery] = []

    def keep(query: StreamingQuery) -> StreamingQuery:
        queries.append(query)
        return query

    yield keep
    for query in queries:
        query.stop()


def test_available_now_reads_what_there_is_and_a_restart_what_is_new(lake: Lake, load: Load, sink: Sink) -> None:
    assert sink.run(load()) == [list(range(25))]
    assert sink.run(load()) == []
    add(lake, 25, 26)
    assert sink.run(load()) == [[25, 26]]


@needs_limits
def test_limits_cut_batches_and_hold_together(load: Load, sink: Sink) -> None:
    assert sink.run(load(maxRecordsPerTrigger=7, maxFilesPerTrigger=1)) == [
        list(range(7)),
        [7, 8, 9],
        list(range(10, 17)),
        [17, 18, 19],
        list(range(20, 25)),
    ]


@pytest.mark.thorough
def test_trigger_once_takes_all_whatever_the_limits(load: Load, sink: Sink) -> None:
    sink.start(load(**limits_if_any(maxRecordsPerTrigger=7)), once=True).awaitTermination()
    assert sink.batches == {0: list(range(25))}


@pytest.mark.thorough
def test_a_query_on_processing_time_follows_the_stream_through_all_that_happens_to_it(
    lake: Lake, load: Load, sink: Sink, started: Callable[[StreamingQuery], StreamingQuery]
) -> None:
    query = started(sink.start(load(**limits_if_any(maxRecordsPerTrigger=10)), processingTime="100 milliseconds"))
    query.processAllAvailable()
    assert sink.ids == list(range(25))
    vacuum(lake)
    add(lake, 25, 26)
    query.processAllAvailable()
    rebuild(lake)
    add(lake, 27)
    query.processAllAvailable()
    add(lake, 28, 29, schema=V2)
    query.processAllAvailable()
    assert sink.ids == list(range(30))
    assert query.isActive
    progress = query.lastProgress
    assert progress is not None
    assert '"offset": 30' in str(progress["sources"][0]["latestOffset"]).replace("'", '"')


@pytest.mark.thorough
@pytest.mark.sampled(meanwhile=1)
@pytest.mark.parametrize("meanwhile", [vacuum, rebuild])
def test_a_batch_of_all_there_was_is_done_again_after_a_death_and_holds_no_more(
    lake: Lake, load: Load, sink: Sink, meanwhile: Callable[[Lake], object]
) -> None:
    sink.run(load())
    add(lake, 25, 26)
    sink.die_in = 1
    with pytest.raises(StreamingQueryException, match="the sink died"):
        sink.run(load())
    meanwhile(lake)
    add(lake, 27)
    # Before pyspark 4.2 one start is one batch, be it an old one.
    for _ in range(2):
        sink.run(load())
    assert sink.runs == [0, 1, 1, 2]
    assert sink.batches == {0: list(range(25)), 1: [25, 26], 2: [27]}


@pytest.mark.thorough
@pytest.mark.sampled(meanwhile=1)
@needs_limits
@pytest.mark.parametrize(
    "meanwhile",
    [[], ["more"], ["vacuum"], ["vacuum", "more"], ["rebuild"], ["vacuum", "rebuild", "more"]],
    ids=lambda names: "-".join(names) or "nothing",
)
def test_a_query_that_died_in_a_batch_does_that_batch_again_and_loses_nothing(
    lake: Lake, load: Load, sink: Sink, meanwhile: list[str]
) -> None:
    sink.die_in = 1
    with pytest.raises(StreamingQueryException, match="the sink died"):
        sink.run(load(maxRecordsPerTrigger=7))
    first_run = dict(sink.batches)
    for event in meanwhile:
        {"more": lambda: add(lake, 25), "vacuum": lambda: vacuum(lake), "rebuild": lambda: rebuild(lake)}[event]()
    sink.run(load(maxRecordsPerTrigger=7))
    assert sink.runs[:3] == [0, 1, 1]
    assert sink.batches[1] == first_run[1] == list(range(7, 14))
    assert sink.ids == list(range(26 if "more" in meanwhile else 25))


@pytest.mark.thorough
def test_a_parquet_sink_gets_each_record_once_over_many_starts(
    spark: SparkSession, lake: Lake, load: Load, tmp_path: Path
) -> None:
    end = 25
    for grown in range(4):
        found = load(**limits_if_any(maxRecordsPerTrigger=9))
        found.writeStream.format("parquet").option("path", str(tmp_path / "out")).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        ).trigger(availableNow=True).start().awaitTermination()
        add(lake, *range(end, end + grown))
        end += grown
    rows = spark.read.parquet(str(tmp_path / "out")).selectExpr("id").collect()
    assert sorted(row.id for row in rows) == list(range(end - 3))


@pytest.mark.thorough
def test_aggregates_over_a_stream_agree_with_the_batch(spark: SparkSession, lake: Lake, load: Load) -> None:
    counts = load(**limits_if_any(maxFilesPerTrigger=1)).groupBy("name").count()
    counts.writeStream.format("memory").queryName("counted").outputMode("complete").trigger(
        availableNow=True
    ).start().awaitTermination()
    batch = spark.read.format("singerlake").options(**options(lake)).load().groupBy("name").count()
    assert sorted(spark.table("counted").collect()) == sorted(batch.collect())


def test_a_new_version_does_not_stop_a_query_and_its_columns_come_with_the_next_start(
    lake: Lake, load: Load, sink: Sink, started: Callable[[StreamingQuery], StreamingQuery]
) -> None:
    query = started(sink.start(load(), processingTime="100 milliseconds"))
    query.processAllAvailable()
    add(lake, 25, schema=V2)
    query.processAllAvailable()
    assert query.isActive
    query.stop()
    assert sink.ids == list(range(26))
    add(lake, 26, schema=V2)
    again = load()
    assert again.schema.simpleString() == "struct<id:string,name:string,tags:array<string>,_rescued_data:string>"
    assert sink.run(again) == [["26"]]


@pytest.mark.thorough
def test_options_choose_as_in_a_batch(lake: Lake, load: Load, tmp_path: Path) -> None:
    add(lake, 25, 26, schema=V2)
    add(lake, 27)
    for number, (more, found) in enumerate(
        [
            ({"from_version": "v2", "columns": "id"}, ["25", "26", "27"]),
            ({"versions": "v1", "from_offset": 22}, [22, 23, 24, 27]),
            ({"schema": "id STRING", "from_offset": 25}, ["25", "26", "27"]),
            ({"schema": "id BIGINT, _singerlake_offset BIGINT", "metadata": True, "from_offset": 26}, [26, 27]),
        ]
    ):
        assert Sink(tmp_path / str(number)).run(load(**more)) == [found]


@pytest.mark.thorough
def test_a_stream_without_data_waits_for_it(
    load: Load, lake: Lake, sink: Sink, started: Callable[[StreamingQuery], StreamingQuery]
) -> None:
    writer = lake.stream(TAP, "later").writer(writer_id="w")
    writer.open()
    query = started(sink.start(load("id BIGINT", stream="later"), processingTime="100 milliseconds"))
    query.processAllAvailable()
    assert query.isActive
    writer.keep_schema(StreamSchema(schema=V1), "a run")
    assert load(stream="later").schema["id"].dataType.simpleString() == "bigint"
    query.processAllAvailable()
    assert sink.ids == []
    build_stream(lake, TAP, "later", V1, [{"id": 1}])
    query.processAllAvailable()
    assert sink.ids == [1]


def failure(action: Callable[[], object]) -> str:
    with pytest.raises((PySparkException, StreamingQueryException)) as raised:
        action()
    return str(raised.value)


@pytest.mark.sampled(more=2)
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"to_offset": 5}, "option 'to_offset' is not for streams"),
        ({"to_offset": 5, "schema": "id BIGINT"}, "option 'to_offset' is not for streams"),
        ({"pushdown": True, "metadata": True}, "option 'pushdown' is not for streams"),
        ({"from_offset": "x", "schema": "id BIGINT"}, "option 'from_offset' is no offset"),
        ({"lineage": "x", "from_offset": 5}, "option 'lineage' is 'x', and the stream's is"),
        ({"maxRecordsPerTrigger": 0}, "option 'maxRecordsPerTrigger' is not a positive number"),
        ({"maxrecordspertriger": 5}, "option 'maxrecordspertriger' is not known; use one of: path"),
        ({"from_offset": 26}, "option 'from_offset' is 26, the stream ends at 25"),
        ({"versions": "v9"}, "has no version 'v9'"),
        ({"stream": "nope"}, "has no stream 'nope'; it has: orders!"),
        ({"schema": "nmae STRING"}, "no column 'nmae'"),
        ({"mode": "FAILFAST", "schema": "name BIGINT"}, "column 'name'"),
    ],
)
def test_a_wrong_option_is_told(load: Load, sink: Sink, more: dict[str, Any], expected: str) -> None:
    told = failure(lambda: sink.run(load(**more)))
    assert expected in told
    assert "UnboundLocalError" not in told


def test_a_limit_on_a_batch_read_is_told(spark: SparkSession, lake: Lake) -> None:
    given = options(lake, maxFilesPerTrigger=1)
    message = failure(lambda: spark.read.format("singerlake").options(**given).load().collect())
    assert "are for streams" in message


def test_a_checkpoint_that_the_lake_cannot_answer_any_more_says_what_to_do(lake: Lake, load: Load, sink: Sink) -> None:
    sink.run(load())
    last = snapshot(lake).files[-1]
    lake.storage.delete(layout.stream_prefix(TAP, STREAM) + last.path)
    rebuild(lake)
    add(lake, 100)
    message = failure(lambda: sink.run(load()))
    assert "no longer holds this query's current file" in message
    assert "new checkpointLocation" in message


def test_secrets_stay_out_of_plans_checkpoints_and_progress(
    load: Load, sink: Sink, lake: Lake, started: Callable[[StreamingQuery], StreamingQuery]
) -> None:
    given = {"aws_access_key_id": "AKIASHOWN", "aws_secret_access_key": "hush-hush"}
    query = started(sink.start(load(**given), processingTime="100 milliseconds"))
    query.processAllAvailable()
    kept = [path.read_text(errors="replace") for path in sink.checkpoint.rglob("*") if path.is_file()]
    shown = "".join([*kept, str(query.lastProgress), str(query._jsq.toString())])
    assert "lineage" in shown
    assert "hush" not in shown
