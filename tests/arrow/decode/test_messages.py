"""What stands beside a record: the version of its table, ACTIVATE_VERSION messages, the text itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.arrow.decode.slow_path import captured
from singerlake.errors import SettingError, UnknownNameError, ValueDoesNotFitError
from singerlake.lake import Lake
from singerlake.stream import LakeStream
from tests.lakes import activate_version_line, build_stream, record_line

pytestmark = pytest.mark.usefixtures("either_reader")

SCHEMA = {"properties": {"id": {"type": "integer"}, "o": {"type": "object", "properties": {"n": {"type": "number"}}}}}
TIME = "2026-01-01T00:00:00Z"


def stream_of(folder: Path, *lines: bytes, schema: Any = SCHEMA, **sizes: int) -> LakeStream:
    lake = Lake.open(str(folder / "lake"))
    build_stream(lake, "t", "s", schema, lines, **sizes)
    return lake.stream("t", "s")


def replaced(folder: Path) -> LakeStream:
    """Two versions of a table, each activated, with one late record of the first and one without version."""
    return stream_of(
        folder,
        activate_version_line("s", 5),
        record_line("s", {"id": 1}, version=5),
        record_line("s", {"id": 2}, version=5),
        record_line("s", {"id": 2}, version=6),
        activate_version_line("s", 6),
        record_line("s", {"id": 3}),
        record_line("s", {"id": 1}, version=5),
        file_size=3,
    )


def rows(stream: LakeStream, *columns: str, **options: Any) -> list[tuple[Any, ...]]:
    found = stream.to_arrow(columns=columns, metadata=True, **options).read_all()
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def test_the_version_of_a_record_is_a_column_of_metadata(tmp_path: Path) -> None:
    stream = replaced(tmp_path)
    assert rows(stream, "id", "_singer_version") == [(1, 5), (2, 5), (2, 6), (3, None), (1, 5)]
    assert stream.to_arrow(metadata=True).schema.names[-2:] == ["_singer_version", "_rescued_data"]
    assert str(stream.to_arrow(metadata=True).schema.field("_singer_version").type) == "int64"


def test_all_messages_are_rows_where_they_are_asked_for(tmp_path: Path) -> None:
    stream = replaced(tmp_path)
    names = ("_singerlake_offset", "_singer_type", "_singer_version", "id", "_singerlake_record")
    everything = [
        (0, "ACTIVATE_VERSION", 5, None, None),
        (1, "RECORD", 5, 1, '{"id": 1}'),
        (2, "RECORD", 5, 2, '{"id": 2}'),
        (3, "RECORD", 6, 2, '{"id": 2}'),
        (4, "ACTIVATE_VERSION", 6, None, None),
        (5, "RECORD", None, 3, '{"id": 3}'),
        (6, "RECORD", 5, 1, '{"id": 1}'),
    ]
    assert rows(stream, *names, messages="all", record=True) == everything
    assert rows(stream, *names, messages="ALL", record=True, from_offset=2, to_offset=5) == everything[2:5]
    whole = stream.to_arrow(messages="all", metadata=True, mode="FAILFAST").read_all()
    assert whole.num_rows == 7
    assert whole.column("o").null_count == 7
    assert "_singer_type" not in stream.to_arrow(metadata=True).schema.names


def test_rows_of_replaced_versions_can_be_told(tmp_path: Path) -> None:
    found = rows(replaced(tmp_path), "_singerlake_offset", "_singer_type", "_singer_version", "id", messages="all")
    activated = [(offset, version) for offset, type, version, _ in found if type == "ACTIVATE_VERSION"]
    kept = [
        (offset, key)
        for offset, type, version, key in found
        if type == "RECORD" and not any(offset < at and version not in (None, active) for at, active in activated)
    ]
    assert kept == [(3, 2), (5, 3), (6, 1)]


@pytest.mark.parametrize("wrong", ["true", '"5"', "1.5", "[1]", "9223372036854775808", "1e400"])
def test_a_version_that_is_no_integer_is_rescued(tmp_path: Path, wrong: str) -> None:
    lines = [
        record_line("s", {"id": 1}, version="@").replace(b'"@"', wrong.encode()),
        activate_version_line("s", 1).replace(b'"version": 1', b'"version": ' + wrong.encode()),
        record_line("s", {"id": 2}, version=2.0),
    ]
    stream = stream_of(tmp_path, *lines)
    kept = f'{{"_singer_version":{wrong}}}'
    assert rows(stream, "id", "_singer_version", "_rescued_data") == [(1, None, kept), (2, 2, None)]
    names = ("id", "_singer_version", "_rescued_data", "_singer_type")
    assert rows(stream, *names, messages="all")[1] == (None, None, kept, "ACTIVATE_VERSION")
    with pytest.raises(ValueDoesNotFitError, match="column '_singer_version' is an integer of 64 bits"):
        stream.to_arrow(metadata=True, mode="FAILFAST").read_all()
    assert stream.to_arrow(mode="FAILFAST").read_all().num_rows == 2


def test_the_time_of_an_activation_is_read_where_a_tap_gives_one(tmp_path: Path) -> None:
    line = json.dumps({**json.loads(activate_version_line("s", 1)), "time_extracted": TIME}).encode()
    stream = stream_of(tmp_path, line, record_line("s", {"id": 1}))
    (activation, _) = rows(stream, "_time_extracted", messages="all")
    assert activation[0].isoformat() == "2026-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"id":1}',
        ' {"id" : 1.0 ,\t"more":"\\u00e9\\/é" } ',
        '{"id":1,"id":2,"\\"":[{}]}',
        '{"id":"x","o":{"n":"y"}}',
        '{"id":NaN,"more":[Infinity , 1e400]}',
        '{"id":1,"more":"\\ud800"}',
    ],
)
def test_the_record_s_text_is_as_it_was_captured(tmp_path: Path, text: str) -> None:
    line = f' {{ "type" : "RECORD","stream":"s","more":{{"record":1}}, "record" :{text},"version":1 }} '.encode()
    stream = stream_of(tmp_path, record_line("s", {"id": 7}), line)
    found = stream.to_arrow(record=True).read_all()
    assert found.column_names[-2:] == ["_singerlake_record", "_rescued_data"]
    assert found.column("_singerlake_record").to_pylist() == ['{"id": 7}', text.strip()]
    assert stream.to_arrow(record=True, columns=["_singerlake_record"], mode="FAILFAST").read_all().num_rows == 2


def test_a_text_that_is_no_utf8_is_written_anew() -> None:
    line = b'{"type":"RECORD","record":{"a":"\xed\xa0\x80", "n":1.50,"b":NaN}}'
    assert captured(line) == '{"a":"\\ud800","n":1.50,"b":NaN}'


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('ab{}[]:,"\\ é', max_size=3), inner, max_size=3)
    ),
)


@given(st.dictionaries(st.text(max_size=3), json_values, max_size=3), json_values, st.sampled_from([None, 1]))
def test_any_record_s_text_is_found(record: dict[str, Any], other: Any, indent: int | None) -> None:
    text = json.dumps(record, separators=(" , ", ": "), ensure_ascii=bool(indent))
    line = f'{{"a":{json.dumps(other)},"type":"RECORD","record":0, "record" : {text} , "b":{json.dumps(other)}}}'
    try:
        line.encode()
    except UnicodeEncodeError:
        return
    assert captured(line.encode()) == text


def test_a_stream_whose_schema_names_nothing_has_its_text(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, record_line("s", {"id": 7}), schema={"type": "object"})
    with pytest.raises(UnknownNameError, match="name no properties; set option 'record' to read their text"):
        stream.to_arrow()
    (row,) = stream.to_arrow(record=True).read_all().to_pylist()
    assert row == {"_singerlake_record": '{"id": 7}', "_rescued_data": '{"id":7}'}


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"messages": "all"}, SettingError, "'messages' is 'all' without 'metadata'; set 'metadata' to true"),
        ({"messages": "some"}, SettingError, "option 'messages' is not records or all"),
        ({"record": "true"}, SettingError, "record is neither True nor False"),
        ({"columns": ["_singerlake_record"]}, UnknownNameError, "set option 'record' to true to have it"),
        ({"columns": ["_singer_type"], "metadata": True}, UnknownNameError, "set option 'messages' to all to have it"),
        ({"columns": ["_singer_version"]}, UnknownNameError, "set option 'metadata' to true to have it"),
    ],
)
def test_wrong_options_are_told_at_once(tmp_path: Path, options: dict[str, Any], error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        replaced(tmp_path).to_arrow(**options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("_singer_version", {"metadata": True}),
        ("_singer_type", {"metadata": True, "messages": "all"}),
        ("_singerlake_record", {"record": True}),
    ],
)
def test_a_property_of_such_a_name_leaves_no_place(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    stream = stream_of(tmp_path, record_line("s", {name: 1}), schema={"properties": {name: {"type": "integer"}}})
    with pytest.raises(SettingError, match=f"'{name}' of their own; leave option '{list(options)[-1]}' out"):
        stream.to_arrow(**options)
    assert stream.to_arrow().read_all().column(name).to_pylist() == [1]
