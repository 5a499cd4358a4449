"""The reader of streams as Spark asks it, without a Spark: offsets, limits, the end of a query."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import LineageChangedError, SettingError
from singerlake.lake import Lake
from singerlake.spark.source import SingerlakeDataSource
from tests.lakes import activate_version_line, build_stream, record_line
from tests.spark.stream.streaming import (
    STREAM,
    TAP,
    V1,
    V2,
    add,
    batches,
    ids,
    options,
    reader,
    rebuild,
    rows,
    snapshot,
    three_files,
    through_json,
    vacuum,
)

limits = pytest.importorskip("pyspark.sql.streaming.datasource", reason="pyspark before 4.2 has no limits")
ALL = limits.ReadAllAvailable()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Ids 0 to 24 in three files of v1: ten, ten and five, three a gzip member."""
    return three_files(tmp_path)


def test_offsets_of_another_lineage_are_no_beginning_and_a_checkpoint_has_its_own(lake: Lake) -> None:
    lineage = snapshot(lake).lineage
    made = reader(lake, from_offset=20, lineage=lineage)
    start = through_json(made.initialOffset())
    rebuild(lake)
    with pytest.raises(LineageChangedError, match=f"option 'lineage' is '{lineage}', and the stream's is"):
        reader(lake, from_offset=20, lineage=lineage).initialOffset()
    again = reader(lake, from_offset=20, lineage=lineage)
    assert ids(rows(again, start, again.latestOffset(start, ALL))) == [20, 21, 22, 23, 24]


def test_messages_of_all_kinds_and_records_as_they_were_come_in_streams_too(lake: Lake) -> None:
    lines = [record_line(STREAM, {"id": 25, "m": 1}, version=3), activate_version_line(STREAM, 3)]
    build_stream(lake, TAP, STREAM, V1, lines)
    names = "id,_singer_type,_singer_version,_singerlake_record"
    made = reader(lake, from_offset=24, metadata=True, messages="all", record=True, columns=names)
    start = made.initialOffset()
    assert [tuple(row.values()) for row in rows(made, start, made.latestOffset(start, ALL))] == [
        (24, "RECORD", None, '{"id": 24, "name": "n24"}'),
        (25, "RECORD", 3, '{"id": 25, "m": 1}'),
        (None, "ACTIVATE_VERSION", 3, None),
    ]


def test_an_offset_is_a_bookmark_with_its_keys_in_a_fixed_order(lake: Lake) -> None:
    state, made = snapshot(lake), reader(lake)
    assert json.dumps(made.initialOffset()) == json.dumps(
        {"lineage": state.lineage, "offset": 0, "file": None, "line": 0}
    )
    end = made.latestOffset(made.initialOffset(), ALL)
    assert json.dumps(end) == json.dumps({"lineage": state.lineage, "offset": 25, "file": state.files[2].id, "line": 5})
    assert made.reportLatestOffset() == end


@pytest.mark.parametrize(
    ("chosen", "offset"), [({}, 0), ({"from_offset": 7}, 7), ({"from_offset": 25}, 25), ({"from_version": "v2"}, 25)]
)
def test_a_query_begins_where_the_options_say_however_often_it_is_asked(
    lake: Lake, chosen: dict[str, Any], offset: int
) -> None:
    add(lake, 25, 26, schema=V2)
    first = reader(lake, **chosen).initialOffset()
    assert first["offset"] == offset
    add(lake, 27)
    assert json.dumps(reader(lake, **chosen).initialOffset()) == json.dumps(first)
    assert batches(reader(lake, "name STRING, id STRING", **chosen), first)[0] == [str(n) for n in range(offset, 28)]


def test_start_comes_back_as_it_is_where_nothing_is_new(lake: Lake) -> None:
    made = reader(lake)
    end = through_json(made.latestOffset(made.initialOffset(), ALL))
    assert json.dumps(made.latestOffset(end, ALL)) == json.dumps(end)
    vacuum(lake)
    assert json.dumps(made.latestOffset(end, ALL)) == json.dumps(end)
    assert made.partitions(end, end) == []
    rebuild(lake)
    assert json.dumps(made.latestOffset(end, ALL)) == json.dumps(end)
    add(lake, 25)
    assert ids(rows(made, end, made.latestOffset(end, ALL))) == [25]


def test_an_older_pyspark_gives_no_start_and_gets_the_same_text_for_the_same_place(lake: Lake) -> None:
    made = reader(lake)
    end = made.latestOffset()
    assert ids(rows(made, made.initialOffset(), end)) == list(range(25))
    vacuum(lake)
    assert json.dumps(made.latestOffset()) == json.dumps(end)
    add(lake, 25)
    assert ids(rows(made, end, made.latestOffset())) == [25]


def test_messages_that_are_no_records_count_and_are_no_rows(lake: Lake) -> None:
    build_stream(lake, TAP, STREAM, V1, [activate_version_line(STREAM, 1), record_line(STREAM, {"id": 25})])
    made = reader(lake, from_offset=25, maxRecordsPerTrigger=1)
    assert batches(made) == [[], [25]]


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        ({"maxRecordsPerTrigger": 4}, [4, 4, 4, 4, 4, 4, 1]),
        ({"MAXRECORDSPERTRIGGER": " 10 "}, [10, 10, 5]),
        ({"maxRecordsPerTrigger": 1000}, [25]),
        ({"maxFilesPerTrigger": 1}, [10, 10, 5]),
        ({"maxfilespertrigger": 2}, [20, 5]),
        ({"maxBytesPerTrigger": 1}, [1] * 25),
        ({"maxBytesPerTrigger": 1 << 30}, [25]),
        ({"maxRecordsPerTrigger": 7, "maxFilesPerTrigger": 1}, [7, 3, 7, 3, 5]),
        ({"maxRecordsPerTrigger": 15, "maxFilesPerTrigger": 3, "maxBytesPerTrigger": 1 << 30}, [15, 10]),
        ({"maxRecordsPerTrigger": 15, "maxBytesPerTrigger": 1}, [1] * 25),
    ],
)
def test_limits_hold_together_and_nothing_is_lost_at_the_cuts(
    lake: Lake, limits: dict[str, Any], sizes: list[int]
) -> None:
    found = batches(reader(lake, **limits))
    assert [len(batch) for batch in found] == sizes
    assert [number for batch in found for number in batch] == list(range(25))


def test_a_limit_of_bytes_takes_whole_members_while_they_fit(lake: Lake) -> None:
    raw = snapshot(lake).files[0].raw_bytes
    found = batches(reader(lake, maxBytesPerTrigger=int(raw * 0.8)))
    assert [number for batch in found for number in batch] == list(range(25))
    assert {batch[0] for batch in found} <= {0, 3, 6, 9, 10, 13, 16, 19, 20, 23}
    assert 1 < len(found) < 10


def test_files_of_other_versions_count_for_nothing(lake: Lake) -> None:
    add(lake, *range(25, 45), schema=V2)
    add(lake, *range(45, 55))
    made = reader(lake, versions="v1", maxFilesPerTrigger=1)
    assert batches(made) == [list(range(10)), list(range(10, 20)), list(range(20, 25)), list(range(45, 55))]
    assert [len(batch) for batch in batches(reader(lake, versions="v2", maxRecordsPerTrigger=15))] == [15, 5]


def test_what_spark_says_of_a_limit_holds_beside_the_options(lake: Lake) -> None:
    made = reader(lake, maxRecordsPerTrigger=8)
    assert made.getDefaultReadLimit() == limits.ReadMaxRows(8)
    assert reader(lake, maxFilesPerTrigger=2, maxBytesPerTrigger=9).getDefaultReadLimit() == limits.ReadMaxFiles(2)
    assert reader(lake, maxBytesPerTrigger=9).getDefaultReadLimit() == limits.ReadMaxBytes(9)
    assert reader(lake).getDefaultReadLimit() == ALL
    start = made.initialOffset()
    for limit, end in [
        (ALL, 25),
        (limits.ReadMaxRows(3), 3),
        (limits.ReadMaxRows(20), 8),
        (limits.ReadMaxFiles(1), 8),
        (limits.ReadMaxBytes(1), 1),
        (limits.ReadMinRows(1), 8),
    ]:
        assert made.latestOffset(start, limit)["offset"] == end


@pytest.mark.parametrize("name", ["maxRecordsPerTrigger", "maxFilesPerTrigger", "maxBytesPerTrigger"])
@pytest.mark.parametrize("value", ["0", "-1", "1e6", "many", "", "1.5", "²"])
def test_a_limit_that_is_no_positive_number_is_named(lake: Lake, name: str, value: str) -> None:
    with pytest.raises(SettingError, match=f"option '{name}' is not a positive number"):
        reader(lake, **{name: value})


def test_a_limit_on_a_batch_read_is_refused(lake: Lake) -> None:
    source = SingerlakeDataSource(options(lake, maxRecordsPerTrigger=5))
    with pytest.raises(SettingError, match="are for streams; use spark"):
        source.reader(source.schema())


def test_a_stream_has_no_end_to_give(lake: Lake) -> None:
    for wrong in ({"to_offset": 5}, {"pushdown": "true", "metadata": "true"}):
        source = SingerlakeDataSource(options(lake, **wrong))
        refused = pickle.loads(pickle.dumps(source.streamReader(source.schema())))
        for ask in (refused.initialOffset, refused.latestOffset, refused.getDefaultReadLimit):
            with pytest.raises(SettingError, match=f"option '{next(iter(wrong))}' is not for streams"):
                ask()
        refused.stop()


@pytest.mark.parametrize("limit", ["maxRecordsPerTrigger", "maxFilesPerTrigger", "maxBytesPerTrigger"])
def test_an_older_pyspark_reads_streams_and_refuses_limits(lake: Lake, limit: str) -> None:
    code = f"""
import sys, pyspark.sql.datasource
sys.modules["pyspark.sql.streaming.datasource"] = None
from singerlake.errors import SettingError
from singerlake.spark.source import SingerlakeDataSource
source = SingerlakeDataSource({options(lake)!r})
reader = source.streamReader(source.schema())
print(reader.latestOffset()["offset"])
try:
    SingerlakeDataSource({options(lake, **{limit: 5})!r}).streamReader(source.schema()).initialOffset()
except SettingError as error:
    print(error)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    offset, refused = found.splitlines()
    assert offset == "25"
    assert "need pyspark 4.2 or newer; leave them out" in refused
    assert limit in refused


def test_available_now_ends_where_the_stream_ended_when_it_began(lake: Lake) -> None:
    made = reader(lake, maxRecordsPerTrigger=10)
    made.prepareForTriggerAvailableNow()
    add(lake, 25, 26)
    assert [number for batch in batches(made) for number in batch] == list(range(25))
    behind = reader(lake)
    behind.prepareForTriggerAvailableNow()
    ahead = reader(lake).latestOffset(made.initialOffset(), ALL)
    add(lake, 27)
    assert behind.latestOffset(ahead, ALL) == ahead


def test_the_end_of_available_now_stays_where_it_is_through_a_rebuild(lake: Lake) -> None:
    made = reader(lake, maxRecordsPerTrigger=10)
    made.prepareForTriggerAvailableNow()
    start = through_json(made.initialOffset())
    middle = through_json(made.latestOffset(start, made.getDefaultReadLimit()))
    add(lake, 25, 26)
    rebuild(lake)
    assert batches(made, middle) == [list(range(10, 20)), list(range(20, 25))]
