"""What happens to a lake while a streaming query reads it, and a driver that asks a reader as Spark does."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import FloatType, LongType, StringType, StructField, StructType

from singerlake.clock import timestamp
from singerlake.format.state.files.data_file import DataFile, NewFile
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Change, ReplaceFiles, Transaction
from singerlake.lake import Lake
from singerlake.spark.source import SingerlakeDataSource
from singerlake.spark.stream.reader import RefusedStream, SingerlakeStreamReader, SupportsTriggerAvailableNow
from singerlake.stores.commit import commit_transaction
from singerlake.stores.port import Loaded
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.drop import drop_stream
from singerlake.upkeep.gc.apply import collect_stream
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from singerlake.upkeep.vacuum.join import checked, join, read_head
from tests.lakes import build_stream

TAP, STREAM = "tap-a", "orders!"
V1 = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
V2 = {
    "type": "object",
    "properties": {
        "id": {"type": ["null", "string"]},
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}


needs_limits = pytest.mark.skipif(SupportsTriggerAvailableNow is object, reason="pyspark before 4.2 has no limits")


def limits_if_any(**given: int) -> dict[str, int]:
    """These limits, or none where pyspark has none: for tests that hold without them as well."""
    return {} if SupportsTriggerAvailableNow is object else given


def add(lake: Lake, *numbers: int, schema: Any = V1, **sizes: int) -> Manifest:
    """Append records with these ids, ten a file and three a gzip member unless ``sizes`` say otherwise."""
    records = [{"id": number, "name": f"n{number}"} for number in numbers]
    return build_stream(lake, TAP, STREAM, schema, records, **{"file_size": 10, "member_size": 3, **sizes})


def snapshot(lake: Lake) -> Manifest:
    return lake.stream(TAP, STREAM).snapshot()


def vacuum(lake: Lake, begin: int = 0, end: int | None = None) -> DataFile:
    """Join the listed files [begin, end) into one, commit that, and have them collected."""
    stream, before = lake.stream(TAP, STREAM), snapshot(lake)
    old = before.files[begin:end]
    assert before.lineage is not None
    heads = [read_head(file, lake.storage.read_range(stream.prefix + file.path, 0, file.members[0][0])) for file in old]
    made = join(heads, id=lake.ids(), lineage=before.lineage, stream=STREAM, now=lake.clock.now())
    key = stream.prefix + made.file.path
    lake.storage.compose(key, made.pieces(stream.prefix))
    with lake.storage.open(key) as body:
        new = checked(body, made)
    assert isinstance(new, NewFile)
    commit(lake, ReplaceFiles(old=tuple(file.id for file in old), new=(new,)))
    for _ in range(2):
        store = lake.stream(TAP, STREAM).store()
        collect_stream(
            StreamContext(lake.storage, TAP, STREAM, lake.clock, lake.ids, store), grace=timedelta(0), delete=True
        )
    assert not any(lake.storage.head(stream.prefix + file.path) for file in old)
    return snapshot(lake).by_id[new.id]


def commit(lake: Lake, change: Change) -> None:
    """One transaction through the stream's own store."""
    store = lake.stream(TAP, STREAM).store()
    base = store.load()
    assert base is not None
    transaction = Transaction(id=lake.ids(), at=timestamp(lake.clock.now()), change=change)
    outcome = commit_transaction(store, base, transaction, clock=lake.clock)
    assert isinstance(outcome, Loaded)


def drop(lake: Lake) -> None:
    """Drop the stream."""
    context = StreamContext(lake.storage, TAP, STREAM, lake.clock, lake.ids, lake.stream(TAP, STREAM).store())
    assert drop_stream(context, dry_run=False).after is not None


def rebuild(lake: Lake) -> Manifest:
    """Make the state anew from the files alone: another lineage."""
    store = lake.stream(TAP, STREAM).store()
    repair_stream(StreamContext(lake.storage, TAP, STREAM, lake.clock, lake.ids, store), RepairOptions(discard=True))
    return snapshot(lake)


def options(lake: Lake, **more: Any) -> dict[str, str]:
    given = {"path": lake.storage.url, "tap": TAP, "stream": STREAM, **more}
    return {name: str(value) for name, value in given.items()}


def reader(lake: Lake, schema: str | None = None, **more: Any) -> SingerlakeStreamReader:
    """The reader of a query that starts now, from a source that travelled as it does in Spark. Of wrong options,
    the one that says so when it is asked."""
    source = SingerlakeDataSource(options(lake, **more))
    found = struct(schema) if schema else source.schema()
    made = pickle.loads(pickle.dumps(source)).streamReader(found)
    assert isinstance(made, SingerlakeStreamReader | RefusedStream)
    return made  # type: ignore[return-value]  # alike to whoever asks


def struct(ddl: str) -> StructType:
    """``name TYPE, name TYPE`` without a session, which alone reads Spark's own DDL."""
    simple = {"BIGINT": LongType, "STRING": StringType, "FLOAT": FloatType}
    return StructType([StructField(name, simple[kind]()) for name, kind in map(str.split, ddl.split(","))])


def through_json(offset: Any) -> Any:
    return json.loads(json.dumps(offset))


def rows(made: SingerlakeStreamReader, start: Any, end: Any) -> list[dict[str, Any]]:
    """The rows of a batch, read by copies of the reader that know no more than a task's do."""
    return [
        row
        for partition in made.partitions(through_json(start), through_json(end))
        for batch in pickle.loads(pickle.dumps(made)).read(pickle.loads(pickle.dumps(partition)))
        for row in batch.to_pylist()
    ]


def ids(found: Sequence[dict[str, Any]]) -> list[Any]:
    return [row["id"] for row in found]


def batches(made: SingerlakeStreamReader, start: Any = None, limit: Any = None) -> list[list[Any]]:
    """The ids of each batch up to where nothing is new."""
    start = through_json(start or made.initialOffset())
    found = []
    while (end := through_json(made.latestOffset(start, limit or made.getDefaultReadLimit()))) != start:
        found.append(ids(rows(made, start, end)))
        start = end
    return found


def three_files(folder: Path) -> Lake:
    """A lake below ``folder``: ids 0 to 24 in three files of v1, ten, ten and five, three a gzip member."""
    lake = Lake.open(str(folder / "lake"))
    add(lake, *range(25))
    return lake
