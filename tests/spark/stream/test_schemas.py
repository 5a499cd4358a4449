"""The reader of streams, without a Spark: schemas that change under way."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from singerlake.arrow.schema.columns import (
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
from singerlake.errors import ValueDoesNotFitError
from singerlake.lake import Lake
from singerlake.spark.source import SingerlakeDataSource
from singerlake.spark.stream.reader import not_read
from tests.lakes import build_stream
from tests.spark.stream.streaming import (
    STREAM,
    TAP,
    V1,
    V2,
    add,
    ids,
    options,
    reader,
    rows,
    snapshot,
    three_files,
    through_json,
)

limits = pytest.importorskip("pyspark.sql.streaming.datasource", reason="pyspark before 4.2 has no limits")
ALL = limits.ReadAllAvailable()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Ids 0 to 24 in three files of v1: ten, ten and five, three a gzip member."""
    return three_files(tmp_path)


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
        "the columns it started with; start it again to get the new ones"
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


MORE = {"properties": {**V1["properties"], "b": {"type": "integer"}}}  # type: ignore[dict-item]


def test_what_new_columns_hold_has_no_place_but_beside_the_row_until_the_query_starts_again(lake: Lake) -> None:
    made = {mode: reader(lake, from_offset=24, mode=mode) for mode in ("PERMISSIVE", "FAILFAST", "DROPMALFORMED")}
    starts = {mode: through_json(each.initialOffset()) for mode, each in made.items()}
    build_stream(lake, TAP, STREAM, MORE, [{"id": 25}, {"id": 26, "b": 1}, {"id": 27, "b": 2, "c": 3}])
    ends = {mode: through_json(each.latestOffset(starts[mode], ALL)) for mode, each in made.items()}
    kept = rows(made["PERMISSIVE"], starts["PERMISSIVE"], ends["PERMISSIVE"])
    assert [row["_rescued_data"] for row in kept] == [None, None, '{"b":1}', '{"b":2,"c":3}']
    assert ids(rows(made["DROPMALFORMED"], starts["DROPMALFORMED"], ends["DROPMALFORMED"])) == [24, 25, 26, 27]
    with pytest.raises(ValueDoesNotFitError, match=r"property 'b' has no column.*when it is started again"):
        rows(made["FAILFAST"], starts["FAILFAST"], ends["FAILFAST"])
    found = rows(reader(lake), starts["PERMISSIVE"], ends["PERMISSIVE"])
    assert [(row["b"], row["_rescued_data"]) for row in found[2:]] == [(1, None), (2, '{"c":3}')]


def test_of_chosen_columns_new_ones_are_left_out_and_undeclared_ones_kept(lake: Lake) -> None:
    made = reader(lake, "id BIGINT,_rescued_data STRING", from_offset=25)
    start = through_json(made.initialOffset())
    build_stream(lake, TAP, STREAM, MORE, [{"id": 25, "b": 2, "c": 3}])
    (row,) = rows(made, start, made.latestOffset(start, ALL))
    assert row == {"id": 25, "_rescued_data": '{"c":3}'}


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
    start, end = made.initialOffset(), made.latestOffset(made.initialOffset(), limits.ReadMaxRows(12))
    state = snapshot(lake)
    for row in rows(made, start, end):
        file = next(each for each in state.files if each.offset <= row["_singerlake_offset"] < each.end)
        assert row["id"] == row["_singerlake_offset"]
        assert (row["_singerlake_file"], row["_singerlake_version"]) == (file.path, file.version)
