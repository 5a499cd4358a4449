"""The road of the SDK: stream maps, flattening, selection and the lake's own columns."""

from __future__ import annotations

import pytest
from singer_sdk.exceptions import MapExpressionError

from singerlake.errors import SettingError
from tests.lakes import activate_version_line, build_stream, record_line
from tests.tap.runs import V1, V2, discover, replay
from tests.tap.test_catalog import BEYOND_THE_SDK

NESTED = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": ["null", "object"], "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}}},
    },
}


def deselect(catalog, *breadcrumb):
    catalog["streams"][0]["metadata"].append({"breadcrumb": list(breadcrumb), "metadata": {"selected": False}})
    return catalog


def test_a_stream_map_changes_schema_and_records_and_the_envelope_stays(lake, root):
    lines = [record_line("s", {"id": 7}, version=3, time_extracted="2026-01-01T00:00:00.123456789Z", extra={"a": 1})]
    build_stream(lake, "tap-a", "s", V1, lines, key_properties=["id"], bookmark_properties=["id"])
    out = replay(root, stream_maps={"s": {"double": "int(id) * 2"}})
    (schema,) = out.of("SCHEMA")
    assert set(schema["schema"]["properties"]) == {"id", "double"}
    assert (schema["key_properties"], schema["bookmark_properties"]) == (["id"], ["id"])
    assert out.of("RECORD") == [
        {
            "type": "RECORD",
            "stream": "s",
            "record": {"id": 7, "double": 14},
            "version": 3,
            "time_extracted": "2026-01-01T00:00:00.123456789Z",
            "extra": {"a": 1},
        }
    ]


def test_an_alias_holds_through_schema_changes_and_for_activate_version(lake, root):
    build_stream(lake, "tap-a", "s", V1, [{"id": 1}, activate_version_line("s", 5)])
    build_stream(lake, "tap-a", "s", V2, [{"id": 2, "name": "x"}, activate_version_line("s", 6)])
    out = replay(root, stream_maps={"s": {"__alias__": "renamed"}})
    assert [m["stream"] for m in out.messages if m["type"] != "STATE"] == ["renamed"] * 6
    assert [m["version"] for m in out.of("ACTIVATE_VERSION")] == [5, 6]
    assert list(out.state["bookmarks"]) == ["s"]


def test_a_filter_drops_records_and_the_bookmark_moves_on(flights, root):
    out = replay(root, stream_maps={"flights": {"__filter__": "id >= 290"}})
    assert [record["id"] for record in out.records()] == list(range(290, 300))
    assert out.state["bookmarks"]["flights"]["offset"] == 300


def test_one_stream_can_become_two(flights, root):
    maps = {"flights": {"__filter__": "id < 2"}, "late": {"__source__": "flights", "__filter__": "id > 298"}}
    out = replay(root, stream_maps=maps)
    assert [record["id"] for record in out.records("flights")] == [0, 1]
    assert [record["id"] for record in out.records("late")] == [299]


@pytest.mark.parametrize("maps", [{"flights": None}, {"__else__": None}])
def test_a_stream_that_maps_remove_is_not_read_and_keeps_its_bookmark(flights, root, maps):
    state = replay(root, max_records=10).state
    out = replay(root, stream_maps=maps, state=state)
    assert out.messages == [{"type": "STATE", "value": state}]


def test_a_map_for_another_stream_leaves_this_one_raw(flights, root):
    build_stream(flights, "tap-a", "other", V1, [b'{"type": "RECORD",   "stream": "other", "record": {"id": 1}}'])
    out = replay(root, stream_maps={"flights": {"__filter__": "id < 0"}})
    assert b'{"type": "RECORD",   "stream": "other", "record": {"id": 1}}' in out.lines


def test_flattening_flattens_schema_and_records(lake, root):
    build_stream(lake, "tap-a", "s", NESTED, [{"id": 1, "at": {"lat": 1.5, "lon": 2}}])
    out = replay(root, flattening_enabled=True, flattening_max_depth=1)
    assert set(out.of("SCHEMA")[0]["schema"]["properties"]) == {"id", "at__lat", "at__lon"}
    assert [set(record) for record in out.records()] == [{"id", "at__lat", "at__lon"}]


def test_deselected_columns_are_gone_and_unknown_ones_follow_their_stream(lake, root):
    build_stream(lake, "tap-a", "s", NESTED, [{"id": 1, "at": {"lat": 1, "lon": 2}}])
    catalog = deselect(discover(root), "properties", "at", "properties", "lat")
    build_stream(lake, "tap-a", "s", V2, [{"id": 2, "name": "new"}])
    out = replay(root, catalog=catalog)
    assert out.records() == [{"id": 1, "at": {"lon": 2}}, {"id": 2, "name": "new"}]
    assert list(out.of("SCHEMA")[0]["schema"]["properties"]["at"]["properties"]) == ["lon"]
    assert list(out.of("SCHEMA")[1]["schema"]["properties"]) == ["id", "name"]


def test_key_columns_cannot_be_deselected(flights, root):
    catalog = discover(root)
    for part in catalog["streams"][0]["metadata"]:
        if part["breadcrumb"]:
            part["metadata"]["selected"] = False
    out = replay(root, catalog=catalog)
    assert all(set(record) == {"id"} for record in out.records())


def test_lake_metadata_says_where_each_record_lies(flights, root):
    manifest = flights.stream("tap-a", "flights").snapshot()
    out = replay(root, include_lake_metadata=True, from_version="v2")
    assert [record["_singerlake_offset"] for record in out.records()] == list(range(250, 300))
    assert {record["_singerlake_file"] for record in out.records()} == {manifest.files[-1].path}
    assert {record["_singerlake_version"] for record in out.records()} == {manifest.files[-1].version}
    assert {"_singerlake_offset", "_singerlake_version", "_singerlake_file"} < set(
        out.of("SCHEMA")[0]["schema"]["properties"]
    )


def test_the_mapped_road_resumes_at_any_bookmark_too(flights, root):
    first = replay(root, include_lake_metadata=True, max_records=77)
    rest = replay(root, include_lake_metadata=True, state=first.state)
    assert [record["_singerlake_offset"] for record in first.records() + rest.records()] == list(range(300))


def test_numbers_keep_every_digit(lake, root):
    line = (
        b'{"type":"RECORD","stream":"s","record":{"id":12345678901234567890123456789,"name":0.10000000000000000000001}}'
    )
    build_stream(lake, "tap-a", "s", V2, [line])
    out = replay(root, include_lake_metadata=True)
    assert b'"id":12345678901234567890123456789,"name":0.10000000000000000000001,' in out.lines[1]


def test_lines_that_are_not_strict_json_pass_as_what_they_mean(lake, root):
    build_stream(lake, "tap-a", "s", V2, [b'{"type":"RECORD","stream":"s","record":{"id":NaN,"name":"\\ud800"}}'])
    (record,) = replay(root, include_lake_metadata=True).records()
    assert (record["id"], record["name"]) == (None, "\ud800")


def test_a_schema_beyond_the_sdk_can_be_mapped_and_loses_no_keyword(lake, root):
    build_stream(lake, "tap-a", "s", BEYOND_THE_SDK, [{"id": 1, "any": [1], "tuple": [1, "x"]}])
    out = replay(root, stream_maps={"s": {"more": "id"}})
    (schema,) = out.of("SCHEMA")
    assert set(BEYOND_THE_SDK) <= set(schema["schema"])
    assert out.records() == [{"id": 1, "any": [1], "tuple": [1, "x"], "more": 1}]


def test_catalog_overrides_hold_on_this_road_too(flights, root):
    catalog = discover(root)
    catalog["streams"][0]["metadata"][0]["metadata"]["table-key-properties"] = []
    out = replay(root, catalog=catalog, include_lake_metadata=True)
    assert [m["key_properties"] for m in out.of("SCHEMA")] == [[], []]


def test_a_wrong_map_is_an_error_before_anything_is_written(flights, root):
    with pytest.raises(MapExpressionError) as raised:
        replay(root, stream_maps={"flights": {"x": "1 +"}})
    assert raised.value.output.text == b""


def test_a_schema_that_flattening_cannot_follow_is_an_error_that_names_the_stream(lake, root):
    schema = {"type": "object", "properties": {"x": {"enum": ["a", "b"]}}}
    build_stream(lake, "tap-a", "s", schema, [{"x": "a"}])
    with pytest.raises(SettingError, match="stream 's'"):
        replay(root, flattening_enabled=True, flattening_max_depth=1)
