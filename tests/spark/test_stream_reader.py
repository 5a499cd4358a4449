"""The reader of streams as Spark asks it, without a Spark: offsets, limits, what the lake's keepers do."""

from __future__ import annotations

import json
import logging
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles, ReadMaxRows, ReadMinRows

from singerlake.arrow.columns import (
    Array,
    Column,
    Double,
    Field,
    Integer,
    JsonText,
    Struct,
    Text,
    Timestamp,
    Variant,
)
from singerlake.errors import LostBookmark, LostState, MissingFile, Rebuilt, SettingError, UnknownName
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.spark.source import SingerlakeDataSource
from singerlake.spark.stream_news import not_read
from singerlake.storage.local import LocalStorage
from tests.lakes import activate_version_line, build_stream, record_line
from tests.spark.streaming import (
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
    through_json,
    vacuum,
)

ALL = ReadAllAvailable()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Ids 0 to 24 in three files of v1: ten, ten and five, three a gzip member."""
    lake = Lake.open(str(tmp_path / "lake"))
    add(lake, *range(25))
    return lake


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
    assert made.getDefaultReadLimit() == ReadMaxRows(8)
    assert reader(lake, maxFilesPerTrigger=2, maxBytesPerTrigger=9).getDefaultReadLimit() == ReadMaxFiles(2)
    assert reader(lake, maxBytesPerTrigger=9).getDefaultReadLimit() == ReadMaxBytes(9)
    assert reader(lake).getDefaultReadLimit() == ALL
    start = made.initialOffset()
    for limit, end in [
        (ALL, 25),
        (ReadMaxRows(3), 3),
        (ReadMaxRows(20), 8),
        (ReadMaxFiles(1), 8),
        (ReadMaxBytes(1), 1),
        (ReadMinRows(1), 8),
    ]:
        assert made.latestOffset(start, limit)["offset"] == end


@pytest.mark.parametrize("name", ["maxRecordsPerTrigger", "maxFilesPerTrigger", "maxBytesPerTrigger"])
@pytest.mark.parametrize("value", ["0", "-1", "1e6", "many", "", "1.5", "²"])
def test_a_limit_that_is_no_positive_number_is_named(lake: Lake, name: str, value: str) -> None:
    with pytest.raises(SettingError, match=f"option '{name}' is no positive number"):
        reader(lake, **{name: value})


def test_a_limit_on_a_batch_read_is_refused(lake: Lake) -> None:
    source = SingerlakeDataSource(options(lake, maxRecordsPerTrigger=5))
    with pytest.raises(SettingError, match="are for streams; use spark"):
        source.reader(source.schema())


def test_a_stream_has_no_end_to_give(lake: Lake) -> None:
    with pytest.raises(SettingError, match="'to_offset' is not for streams"):
        reader(lake, to_offset=5)


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
    SingerlakeDataSource({options(lake, **{limit: 5})!r}).streamReader(source.schema())
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


# --- the same batch again ---------------------------------------------------------------------------------------------


def planned(lake: Lake, first: int, stop: int) -> tuple[Any, Any]:
    """Offsets [first, stop) as a checkpoint holds them."""
    made = reader(lake, from_offset=first)
    start = made.initialOffset()
    return through_json(start), through_json(made.latestOffset(start, ReadMaxRows(stop - first)))


@pytest.mark.parametrize(("first", "stop"), [(0, 25), (0, 10), (4, 17), (10, 20), (12, 13), (24, 25)])
@pytest.mark.parametrize("meanwhile", [["more"], ["vacuum"], ["vacuum", "more"], ["rebuild"], ["vacuum", "rebuild"]])
def test_a_batch_is_the_same_one_again_whatever_happened_meanwhile(
    lake: Lake, first: int, stop: int, meanwhile: list[str]
) -> None:
    start, end = planned(lake, first, stop)
    running = reader(lake)
    assert ids(rows(running, start, end)) == list(range(first, stop))
    for event in meanwhile:
        {"more": lambda: add(lake, 100), "vacuum": lambda: vacuum(lake), "rebuild": lambda: rebuild(lake)}[event]()
    for made in (running, reader(lake)):
        assert ids(rows(made, start, end)) == list(range(first, stop))


def test_a_vacuum_of_some_files_moves_no_offset(lake: Lake) -> None:
    start, end = planned(lake, 5, 25)
    vacuum(lake, 0, 2)
    vacuum(lake)
    assert ids(rows(reader(lake), start, end)) == list(range(5, 25))
    rebuild(lake)
    made = reader(lake)
    assert ids(rows(made, start, end)) == list(range(5, 25))
    add(lake, 25)
    assert batches(made, end) == [[25]]


def test_after_a_rebuild_a_query_goes_on_by_file_and_line_and_says_so(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    _, end = planned(lake, 0, 14)
    made = reader(lake)
    rebuild(lake)
    with caplog.at_level(logging.WARNING):
        assert batches(made, end) == [list(range(14, 25))]
        for _ in range(3):
            made.latestOffset(end, ALL)
    told = [record.getMessage() for record in caplog.records if "was rebuilt" in record.getMessage()]
    assert len(told) == 1
    assert f"after message 4 of file {end['file']}, before which there are 14 messages now, and were 14" in told[0]


def lose_first_file(lake: Lake) -> None:
    file = snapshot(lake).files[0]
    lake.storage.delete(lake.stream(TAP, STREAM).prefix + file.path)
    rebuild(lake)


def test_a_query_whose_file_is_gone_for_good_says_what_to_do(lake: Lake) -> None:
    _, end = planned(lake, 0, 4)
    lose_first_file(lake)
    for made in (reader(lake),):
        with pytest.raises(LostBookmark, match="start it with a new checkpointLocation, and option 'from_offset'"):
            made.latestOffset(end, ALL)
        with pytest.raises(LostBookmark, match="no longer holds the file in which this query stands"):
            made.partitions(end, end)


def test_a_batch_that_does_not_hold_the_same_messages_any_more_is_refused(lake: Lake) -> None:
    start, end = planned(lake, 0, 14)
    made = reader(lake)
    lose_first_file(lake)
    with pytest.raises(Rebuilt, match="new checkpointLocation and option 'from_offset' 0, where this batch began"):
        made.partitions(start, end)
    assert batches(reader(lake), end) == [list(range(14, 25))]


def test_a_batch_over_two_rebuilds_cannot_be_shown_to_be_the_same(lake: Lake) -> None:
    _, start = planned(lake, 0, 4)
    rebuild(lake)
    made = reader(lake)
    end = through_json(made.latestOffset(start, ReadMaxRows(10)))
    assert ids(rows(made, start, end)) == list(range(4, 14))
    rebuild(lake)
    with pytest.raises(Rebuilt):
        made.partitions(start, end)


def test_a_batch_beyond_the_end_of_an_older_state_is_refused_and_not_cut(lake: Lake) -> None:
    key = layout.manifest_key(TAP, STREAM)
    older = lake.storage.get(key)
    assert older is not None
    add(lake, 25, 26, 27)
    start, end = planned(lake, 20, 28)
    lake.storage.put(key, older.body)
    made = reader(lake)
    with pytest.raises(Rebuilt, match="put back to an older state"):
        made.partitions(start, end)
    assert made.latestOffset(end, ALL) == end


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"offset": 3},
        {"lineage": None, "offset": "3", "file": None, "line": 0},
        {"lineage": None, "offset": -3, "file": None, "line": 0},
        {"lineage": None, "offset": 3, "file": "f", "line": -1},
        {"lineage": 7, "offset": 3, "file": "f", "line": 1},
        [],
        None,
    ],
)
def test_a_checkpoint_of_something_else_is_refused(lake: Lake, given: Any) -> None:
    with pytest.raises(LostBookmark, match="the checkpoint holds"):
        reader(lake).partitions(given, given)


def test_the_checkpoint_of_another_stream_is_refused(lake: Lake) -> None:
    build_stream(lake, TAP, "other", V1, [{"id": n} for n in range(5)])
    made = reader(lake, stream="other")
    _, end = planned(lake, 0, 3)
    with pytest.raises(LostBookmark):
        made.latestOffset(end, ALL)


# --- schemas ----------------------------------------------------------------------------------------------------------


def test_new_columns_appear_at_the_next_start_and_a_warning_says_so_once(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    made = reader(lake)
    start = through_json(made.latestOffset(made.initialOffset(), ALL))
    add(lake, *range(25, 40), schema=V2)
    with caplog.at_level(logging.WARNING):
        found = rows(made, start, made.latestOffset(start, ALL))
        rows(made, start, made.latestOffset(start, ALL))
    assert [row["id"] for row in found] == list(range(25, 40))
    assert set(found[0]) == {"id", "name", "_rescued_data"}
    version = list(snapshot(lake).versions)[1]
    assert [record.getMessage() for record in caplog.records] == [
        f"tap-a/orders!: version v2 ({version}) brings new columns 'tags', and wider types of 'id'; this query keeps "
        "the columns it started with, and has them when it is started again"
    ]
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        again = reader(lake)
        assert set(rows(again, start, again.latestOffset(start, ALL))[0]) == {"id", "name", "tags", "_rescued_data"}
    assert caplog.records == []


def test_a_version_that_came_between_load_and_start_is_told_of(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    source = SingerlakeDataSource(options(lake))
    schema = source.schema()
    add(lake, 25, schema=V2)
    made = source.streamReader(schema)
    with caplog.at_level(logging.WARNING):
        rows(made, made.initialOffset(), made.latestOffset(made.initialOffset(), ALL))
    assert "brings new columns 'tags'" in caplog.text


@pytest.mark.parametrize("chosen", [{"schema": "id BIGINT"}, {"columns": "id"}])
def test_who_chose_columns_is_told_nothing_of_others(
    lake: Lake, chosen: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    made = reader(lake, **chosen)
    start = made.initialOffset()
    add(lake, 25, schema=V2)
    with caplog.at_level(logging.WARNING):
        assert len(rows(made, start, made.latestOffset(start, ALL))) == 26
    assert caplog.records == []


def test_nested_columns_are_named_by_their_path_and_many_are_counted(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    old = {"properties": {"who": {"type": "object", "properties": {"a": {"type": "integer"}}}}}
    many = {f"c{n:02}": {"type": "string"} for n in range(30)}
    inner = {"type": "object", "properties": {"a": {"type": "number"}, "b\n": {"type": "string"}}}
    build_stream(lake, TAP, "nested", old, [{"who": {"a": 1}}])
    made = reader(lake, stream="nested")
    start = made.latestOffset(made.initialOffset(), ALL)
    build_stream(lake, TAP, "nested", {"properties": {"who": inner, **many}}, [{"who": {"a": 2}}])
    with caplog.at_level(logging.WARNING):
        assert [row["who"] for row in rows(made, start, made.latestOffset(start, ALL))] == [{"a": 2}]
    (told,) = [record.getMessage() for record in caplog.records]
    assert "'who.b\\n', 'c00', 'c01'" in told
    assert "'c18' and 11 more, and wider types of 'who.a'" in told
    assert "\n" not in told


def odd(lake: Lake) -> None:
    build_stream(lake, TAP, STREAM, V2, [{"id": "A-1"}, {"id": None}, {"id": "A-2"}])


def test_values_of_a_new_type_are_what_the_mode_says(lake: Lake) -> None:
    made = {mode: reader(lake, from_offset=20, mode=mode) for mode in ("PERMISSIVE", "FAILFAST", "DROPMALFORMED")}
    starts = {mode: through_json(each.initialOffset()) for mode, each in made.items()}
    odd(lake)
    ends = {mode: through_json(each.latestOffset(starts[mode], ALL)) for mode, each in made.items()}
    kept = rows(made["PERMISSIVE"], starts["PERMISSIVE"], ends["PERMISSIVE"])[5:]
    assert [(row["id"], row["_rescued_data"]) for row in kept] == [
        (None, '{"id":"A-1"}'),
        (None, None),
        (None, '{"id":"A-2"}'),
    ]
    assert ids(rows(made["DROPMALFORMED"], starts["DROPMALFORMED"], ends["DROPMALFORMED"])) == [*range(20, 25), None]
    with pytest.raises(Exception, match="column 'id'"):
        rows(made["FAILFAST"], starts["FAILFAST"], ends["FAILFAST"])


def test_what_a_string_column_holds_does_not_change_in_flight(lake: Lake) -> None:
    text = {"properties": {"note": {"type": "string"}}}
    build_stream(lake, TAP, "notes", text, [{"note": "a"}])
    made = reader(lake, stream="notes")
    start = made.initialOffset()
    build_stream(lake, TAP, "notes", {"properties": {"note": {"type": ["string", "integer"]}}}, [{"note": "b"}])
    end = made.latestOffset(start, ALL)
    assert [row["note"] for row in rows(made, start, end)] == ["a", "b"]
    assert [row["note"] for row in rows(reader(lake, stream="notes"), start, end)] == ['"a"', '"b"']


@pytest.mark.parametrize(
    ("column", "declared", "found"),
    [
        (Integer(), Integer(), ([], [])),
        (Double(), Integer(), ([], [])),
        (Integer(), Double(), ([], ["c"])),
        (Timestamp(), Text(), ([], ["c"])),
        (Text(), Timestamp(), ([], [])),
        (JsonText(), Array(Integer()), ([], [])),
        (Variant(), Array(Integer()), ([], [])),
        (Array(Integer()), Array(Text()), ([], ["c[]"])),
        (Array(Struct(())), Array(Struct((Field("x", Text()),))), (["c[].x"], [])),
        (Text(), Struct((Field("x", Text()),)), ([], ["c"])),
    ],
)
def test_what_running_columns_do_not_take_of_a_version(
    column: Column, declared: Column, found: tuple[list[str], list[str]]
) -> None:
    assert not_read(Struct((Field("c", column),)), Struct((Field("c", declared),))) == found


def test_metadata_is_as_in_a_batch(lake: Lake) -> None:
    made = reader(lake, metadata=True, columns="_singerlake_offset,id,_singerlake_file,_singerlake_version")
    start, end = made.initialOffset(), made.latestOffset(made.initialOffset(), ReadMaxRows(12))
    state = snapshot(lake)
    for row in rows(made, start, end):
        file = next(each for each in state.files if each.offset <= row["_singerlake_offset"] < each.end)
        assert row["id"] == row["_singerlake_offset"]
        assert (row["_singerlake_file"], row["_singerlake_version"]) == (file.path, file.version)


# --- no data yet, and no more -----------------------------------------------------------------------------------------


def test_a_stream_without_data_waits_under_a_users_schema(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"))
    lake.stream(TAP, STREAM).writer(writer_id="w").open()
    with pytest.raises(UnknownName, match=r"has no data to take a schema from; give one with \.schema"):
        reader(lake)
    made = reader(lake, "id STRING, name STRING")
    start = through_json(made.initialOffset())
    assert start["offset"] == 0
    assert made.latestOffset(start, ALL) == start
    assert made.partitions(start, start) == []
    add(lake, 0, 1)
    end = made.latestOffset(start, ALL)
    # What the string columns mean is what the first data declares: the text itself, and an integer's JSON.
    assert [(row["id"], row["name"]) for row in rows(made, start, end)] == [("0", "n0"), ("1", "n1")]


def test_a_folder_that_is_not_a_stream_yet_waits_too(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"))
    lake.storage.put(layout.version_lock_key(TAP, STREAM, "3)vD5#h"), b"{}")
    made = reader(lake, "id BIGINT")
    start = through_json(made.initialOffset())
    assert made.latestOffset(start, ALL) == start
    add(lake, 0)
    assert ids(rows(made, start, made.latestOffset(start, ALL))) == [0]


def test_a_column_that_the_first_data_does_not_declare_is_told(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"))
    lake.stream(TAP, STREAM).writer(writer_id="w").open()
    made = reader(lake, "nmae STRING")
    start = made.initialOffset()
    add(lake, 0)
    with pytest.raises(UnknownName, match="no column 'nmae'"):
        made.partitions(start, made.latestOffset(start, ALL))


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ({"schema": "id BIGINT, nmae STRING"}, UnknownName, "no column 'nmae'"),
        ({"schema": "id FLOAT"}, SettingError, "cannot be read as float"),
        ({"schema": "id BIGINT", "columns": "name"}, SettingError, "name different columns"),
        ({"schema": "id BIGINT", "from_version": "v9"}, UnknownName, "no version 'v9'"),
        ({"schema": "id BIGINT", "versions": "v9"}, UnknownName, "no version 'v9'"),
        ({"schema": "id BIGINT", "from_offset": "26"}, SettingError, "the stream ends at 25"),
        ({"schema": "id BIGINT", "stream": "nope"}, UnknownName, "has no stream 'nope'"),
        ({"schema": "id BIGINT", "from_offset": "1", "from_version": "v1"}, SettingError, "exclude each other"),
    ],
)
def test_what_is_wrong_with_options_or_schema_is_told_before_the_first_batch(
    lake: Lake, more: dict[str, str], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        reader(lake, **more).initialOffset()


def test_a_state_that_is_lost_stops_a_query_and_a_rebuild_lets_it_go_on(lake: Lake) -> None:
    made = reader(lake)
    start = through_json(made.latestOffset(made.initialOffset(), ReadMaxRows(12)))
    lake.storage.delete(layout.manifest_key(TAP, STREAM))
    for each in (made, reader(lake)):
        with pytest.raises(LostState, match="run 'singerlake rebuild', then start the query again"):
            each.latestOffset(start, ALL)
    rebuild(lake)
    assert batches(reader(lake), start) == [list(range(12, 25))]


def test_a_file_that_went_away_after_planning_says_to_start_again(lake: Lake) -> None:
    made = reader(lake)
    partitions = made.partitions(made.initialOffset(), made.latestOffset(made.initialOffset(), ALL))
    vacuum(lake)
    with pytest.raises(MissingFile, match="start the query again, it goes on where it stands"):
        [batch for partition in partitions for batch in made.read(partition)]
    assert ids(rows(made, made.initialOffset(), made.latestOffset(made.initialOffset(), ALL))) == list(range(25))


def test_a_task_gets_a_reader_without_the_state_or_any_secret_that_shows(lake: Lake) -> None:
    made = reader(lake, aws_access_key_id="AKIASHOWN", aws_secret_access_key="hush-hush")
    partition = made.partitions(made.initialOffset(), made.latestOffset(made.initialOffset(), ALL))[0]
    assert len(pickle.dumps(made)) < 10_000
    assert "hush" not in repr([made, partition])


def test_polling_reads_nothing_while_nothing_is_new(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    made = reader(lake)
    end = through_json(made.latestOffset(made.initialOffset(), ALL))
    asked: list[str] = []
    for name in ("get", "head", "list", "list_folder", "open", "read_range"):
        own = getattr(LocalStorage, name)

        def counted(self: Any, *given: Any, name: str = name, own: Any = own, **more: Any) -> Any:
            asked.append(name)
            return own(self, *given, **more)

        monkeypatch.setattr(LocalStorage, name, counted)
    for _ in range(10):
        assert made.latestOffset(end, ALL) == end
    assert asked == ["head"] * 10


def test_stopping_lets_go_and_committing_changes_nothing(lake: Lake) -> None:
    made = reader(lake)
    start = made.initialOffset()
    end = made.latestOffset(start, ALL)
    made.commit(end)
    assert ids(rows(made, start, end)) == list(range(25))
    made.stop()
    assert made.reportLatestOffset() is None
    made.stop()
