"""Catalogs: what discovery says, which streams and columns a passed one leaves, and what a person changed in it."""

from __future__ import annotations

import copy
import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from singer_sdk.helpers._catalog import get_selected_schema
from singer_sdk.singerlib import Catalog, MetadataMapping, SelectionMask

from singerlake.errors import CorruptObjectError, SettingError
from singerlake.format.state.model import SchemaVersion
from tap_singerlake.catalog.catalog import Overrides, for_sdk, for_singer_sdk, plain
from tests.lakes import build_stream
from tests.tap.runs import V1, V2, discover, make_tap, replay

BEYOND_THE_SDK = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$defs": {"point": {"type": "object", "properties": {"x": True}}, "never": False},
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "any": True,
        "none": False,
        "tuple": {"type": "array", "items": [{"type": "integer"}, True]},
        "every": {"type": "array", "items": True},
        "either": {"anyOf": [True, {"type": "string"}]},
        "point": {"$ref": "#/$defs/point"},
        "nested": {"type": ["null", "object"], "properties": {"deep": False}},
        "untyped": {"type": None},
        "const": {"const": False, "enum": [False, True], "default": True},
    },
    "additionalProperties": False,
    "dependentRequired": {"id": ["any"]},
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
KEYWORDS = st.sampled_from(
    ["type", "properties", "items", "anyOf", "$defs", "not", "enum", "additionalProperties", "x"]
)
SCHEMAS = st.recursive(
    JSON, lambda inner: st.dictionaries(KEYWORDS, inner | st.dictionaries(st.text(max_size=3), inner), max_size=5)
)


@settings(deadline=None, max_examples=50)
@given(SCHEMAS)
def test_the_sdk_can_walk_what_it_is_given_for_any_schema(schema):
    walkable = for_sdk(schema)
    MetadataMapping.get_standard_metadata(schema=walkable, key_properties=[])
    assert get_selected_schema("s", walkable, SelectionMask()) == walkable


def test_no_keyword_is_dropped_for_the_sdk():
    walkable = for_sdk(BEYOND_THE_SDK)
    assert set(walkable) == set(BEYOND_THE_SDK)
    assert walkable["properties"]["const"] == BEYOND_THE_SDK["properties"]["const"]
    assert walkable["properties"]["none"] == {"not": {}}
    assert walkable["additionalProperties"] is False


def test_discovery_says_schemas_as_they_were_captured_and_selects_everything(lake, root):
    build_stream(lake, "tap-a", "s", BEYOND_THE_SDK, [{"id": 1}], key_properties=["id"])
    (entry,) = discover(root)["streams"]
    assert entry["schema"] == BEYOND_THE_SDK
    assert entry["key_properties"] == ["id"]
    assert entry["replication_method"] == "LOG_BASED"
    assert "replication_key" not in entry
    assert entry["metadata"][0]["metadata"]["selected"] is True


def test_discovery_does_not_need_the_catalogue_file_and_leaves_empty_streams_out(flights, root):
    before = discover(root)
    flights.stream("tap-a", "born-empty").writer(writer_id="a-test").open()
    (root / "raw" / "tap-a" / "catalogue.json").unlink()
    assert discover(root) == before


def test_a_discovered_catalog_changes_nothing(lake, root):
    build_stream(lake, "tap-a", "s", BEYOND_THE_SDK, [{"id": 1}], key_properties=["id"])
    build_stream(lake, "tap-a", "s", V2, [{"id": 2}])
    assert replay(root, catalog=discover(root)).text == replay(root).text


def test_a_catalog_of_the_sdks_own_kind_is_taken_too(flights, root):
    catalog = Catalog.from_dict(discover(root))
    assert replay(root, catalog=catalog).text == replay(root).text


def test_an_older_catalog_drops_no_column_and_no_stream_in_silence(flights, root, caplog):
    old = discover(root)
    build_stream(flights, "tap-a", "flights", V2 | {"title": "third"}, [{"id": 300, "name": "new"}])
    build_stream(flights, "tap-a", "later", V1, [{"id": 1}])
    out = replay(root, catalog=old)
    assert out.records("flights")[-1] == {"id": 300, "name": "new"}
    assert out.of("SCHEMA", "flights")[-1]["schema"]["title"] == "third"
    assert out.records("later") == []
    assert "'later' is in the lake but not in the catalog" in caplog.text


def test_a_stream_that_is_not_selected_is_not_read(flights, root):
    catalog = discover(root)
    catalog["streams"][0]["metadata"][0]["metadata"]["selected"] = False
    assert replay(root, catalog=catalog).text == b""


def test_key_properties_of_the_metadata_go_into_the_schema_message_and_records_stay_raw(flights, root):
    catalog = discover(root)
    catalog["streams"][0]["metadata"][0]["metadata"]["table-key-properties"] = ["id", "name"]
    plain_run, out = replay(root), replay(root, catalog=catalog)
    assert [m["key_properties"] for m in out.of("SCHEMA")] == [["id", "name"]] * 2
    assert [line for line in out.lines if b"RECORD" in line] == [line for line in plain_run.lines if b"RECORD" in line]


def test_an_overridden_property_goes_into_every_schema_message_and_the_others_stay(flights, root):
    catalog = discover(root)
    catalog["streams"][0]["schema"]["properties"]["id"] = {"type": "string", "format": "date"}
    schemas = [m["schema"]["properties"] for m in replay(root, catalog=catalog).of("SCHEMA")]
    assert schemas == [
        {"id": {"type": "string", "format": "date"}},
        {"id": {"type": "string", "format": "date"}, "name": {"type": ["null", "string"]}},
    ]


def test_catalog_numbers_read_as_decimals_are_the_same_numbers(lake, root):
    schema = {"type": "object", "properties": {"x": {"type": "number", "multipleOf": 0.01, "maximum": 1e30}}}
    build_stream(lake, "tap-a", "s", schema, [{"x": 1}])
    catalog = json.loads(json.dumps(discover(root)), parse_float=Decimal)
    assert replay(root, catalog=catalog).text == replay(root).text


SMALL = st.dictionaries(
    st.sampled_from(["a", "b", "type", "enum"]),
    st.sampled_from([{"type": "string"}, {"type": ["string", "null"]}, {"type": "integer"}, True]),
)


@settings(deadline=None)
@given(st.lists(st.tuples(SMALL, st.lists(st.sampled_from("ab"), unique=True)), min_size=1, max_size=3), st.data())
def test_a_catalog_that_equals_any_version_overrides_nothing(versions, data):
    known = [version(properties, keys) for properties, keys in versions]
    properties, keys = copy.deepcopy(data.draw(st.sampled_from(versions)))
    assert not Overrides.between(entry(properties, keys), known)


@settings(deadline=None)
@given(SMALL, SMALL)
def test_what_only_the_catalog_says_is_laid_over_and_nothing_else(stored, asked):
    overrides = Overrides.between(entry(asked, []), [version(stored, [])])
    result = overrides.apply({"type": "SCHEMA", "schema": {"type": "object", "properties": stored}})
    assert result["schema"]["properties"] == {**stored, **asked}


def version(properties, keys) -> SchemaVersion:
    return SchemaVersion(
        schema={"type": "object", "properties": properties},
        key_properties=tuple(keys),
        first_offset=0,
        first_seen="",
    )


def entry(properties, keys):
    schema = {"type": "object", "properties": properties}
    stream = {"tap_stream_id": "s", "schema": schema, "key_properties": keys, "metadata": []}
    return for_singer_sdk({"streams": [stream]})["s"]


@pytest.mark.parametrize(
    "catalog",
    [
        [],
        {},
        {"streams": {}},
        {"streams": [5]},
        {"streams": [{"schema": {}}]},
        {"streams": [{"tap_stream_id": "s", "metadata": {}}]},
        {"streams": [{"tap_stream_id": "s", "metadata": [{"breadcrumb": "properties", "metadata": {}}]}]},
        {"streams": [{"tap_stream_id": "s", "metadata": [{"metadata": {}}]}]},
    ],
)
def test_a_malformed_catalog_is_an_error_that_says_where(flights, root, catalog):
    with pytest.raises(SettingError, match="catalog"):
        make_tap(root, catalog=catalog)


def test_an_entry_without_metadata_of_its_stream_selects_everything(flights, root):
    column = {"breadcrumb": ["properties", "id"], "metadata": {"inclusion": "available"}}
    for metadata in ([], [column]):
        catalog = {"streams": [{"tap_stream_id": "flights", "metadata": metadata}]}
        assert replay(root, catalog=catalog).text == replay(root).text


@settings(deadline=None)
@given(JSON)
def test_json_without_decimals_stays_as_it_is(value):
    assert plain(value) == value


@pytest.mark.parametrize("others", [True, False], ids=["among others", "alone"])
def test_a_stream_that_cannot_be_read_stops_those_alone_who_read_it(flights, root, caplog, others):
    if others:
        build_stream(flights, "tap-a", "users", V1, [{"id": 1}], key_properties=["id"])
    before = discover(root)["streams"][-1]
    key = "raw/tap-a/flights/manifest.json"
    sound = flights.storage.get(key).body
    flights.storage.put(key, b"{")
    flights.storage.delete("raw/tap-a/catalogue.json")
    catalog = discover(root)
    assert [entry["stream"] for entry in catalog["streams"]] == ["flights", "users"][: 1 + others]
    assert f"key='{key}'" in caplog.text
    broken = catalog["streams"][0]
    assert (broken["schema"], broken["metadata"][0]["metadata"]["selected"]) == ({"properties": {}}, True)
    for passed in (None, catalog):
        with pytest.raises(CorruptObjectError, match=key) as caught:
            replay(root, catalog=passed)
        assert caught.value.output.text == b""
    if others:
        assert catalog["streams"][1] == before
        assert replay(root, streams=["users"]).records() == [{"id": 1}]
    deselected = copy.deepcopy(catalog)
    deselected["streams"][0]["metadata"][0]["metadata"]["selected"] = False
    assert replay(root, catalog=deselected).records() == [{"id": 1}] * others
    # It says nothing of keys and columns, so that it is nobody's wish once the stream is whole again.
    flights.storage.put(key, sound)
    assert replay(root, catalog=catalog).text == replay(root).text
