"""The reader of streams, without a Spark: before there is data, when it is gone, and what waiting costs."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import LostStateError, MissingFileError, SettingError, UnknownNameError
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from tests.spark.stream.streaming import (
    STREAM,
    TAP,
    add,
    batches,
    ids,
    reader,
    rebuild,
    rows,
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


def test_a_stream_without_data_waits_under_a_users_schema(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"))
    lake.stream(TAP, STREAM).writer(writer_id="w").open()
    with pytest.raises(UnknownNameError, match=r"no data to take a schema from; .*\.schema\(\.\.\.\) gives one"):
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
    with pytest.raises(UnknownNameError, match="no column 'nmae'"):
        made.partitions(start, made.latestOffset(start, ALL))


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ({"schema": "id BIGINT, nmae STRING"}, UnknownNameError, "no column 'nmae'"),
        ({"schema": "id FLOAT"}, SettingError, "cannot be read as float"),
        ({"schema": "id BIGINT", "columns": "name"}, SettingError, "name different columns"),
        ({"schema": "id BIGINT", "from_version": "v9"}, UnknownNameError, "no version 'v9'"),
        ({"schema": "id BIGINT", "versions": "v9"}, UnknownNameError, "no version 'v9'"),
        ({"schema": "id BIGINT", "from_offset": "26"}, SettingError, "the stream ends at 25"),
        ({"schema": "id BIGINT", "stream": "nope"}, UnknownNameError, "has no stream 'nope'"),
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
    start = through_json(made.latestOffset(made.initialOffset(), limits.ReadMaxRows(12)))
    lake.storage.delete(layout.manifest_key(TAP, STREAM))
    for each in (made, reader(lake)):
        with pytest.raises(LostStateError, match="run 'singerlake rebuild', then start again"):
            each.latestOffset(start, ALL)
    rebuild(lake)
    assert batches(reader(lake), start) == [list(range(12, 25))]


def test_a_file_that_went_away_after_planning_says_to_start_again(lake: Lake) -> None:
    made = reader(lake)
    partitions = made.partitions(made.initialOffset(), made.latestOffset(made.initialOffset(), ALL))
    vacuum(lake)
    with pytest.raises(MissingFileError, match="start the query again, it continues from its checkpoint"):
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
    for name in ("get", "head", "list", "list_folder", "open", "beginning", "read_range"):
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
