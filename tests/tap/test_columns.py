"""Columns over several versions: all that will be replayed are offered, and what is deselected is in none of them."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.errors import UnknownNameError
from singerlake.format.state.model import SchemaVersion
from tap_singerlake.catalog.catalog import Overrides, for_singer_sdk
from tap_singerlake.catalog.columns import united, unknown
from tests.lakes import build_stream
from tests.tap.runs import discover, replay

STRING = {"type": ["null", "string"]}
OLD = {
    "type": "object",
    "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}}},
    "properties": {
        "id": {"type": "integer"},
        "ssn": STRING,
        "at": {"$ref": "#/$defs/point"},
        "address": {"type": "object", "properties": {"city": STRING, "street": STRING}},
        "contact": {"type": ["null", "object"], "properties": {"email": STRING}},
    },
}
NEW = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "address": {"type": "object", "properties": {"city": STRING, "zip": STRING}},
        "contact": STRING,
        "name": STRING,
    },
    "additionalProperties": False,
}
PRIVATE = "hunter2"
RECORDS = [
    {
        "id": 1,
        "ssn": PRIVATE,
        "at": {"x": 1},
        "address": {"city": "a", "street": PRIVATE},
        "contact": {"email": PRIVATE},
    },
    {"id": 2, "address": {"city": "b", "zip": "c"}, "contact": "public", "name": "n"},
]


@pytest.fixture
def people(lake):
    """Two versions; the columns of the first that the second has not are private."""
    build_stream(lake, "tap-a", "people", OLD, RECORDS[:1], key_properties=["id"])
    build_stream(lake, "tap-a", "people", NEW, RECORDS[1:], key_properties=["id"])
    return lake


def deselect(catalog, *columns):
    """As people write them: ``address.city``."""
    for column in columns:
        crumb = [crumb for name in column.split(".") for crumb in ("properties", name)]
        for entry in catalog["streams"]:
            entry["metadata"] = [part for part in entry["metadata"] if part["breadcrumb"] != crumb]
            entry["metadata"].append({"breadcrumb": crumb, "metadata": {"inclusion": "available", "selected": False}})
    return catalog


def offered(catalog):
    (entry,) = catalog["streams"]
    return entry["schema"]["properties"]


def test_columns_of_every_version_are_offered_nested_ones_too(people, root):
    found = offered(discover(root))
    assert list(found) == ["id", "address", "contact", "name", "ssn", "at"]
    assert list(found["address"]["properties"]) == ["city", "zip", "street"]
    assert found["contact"] == {**STRING, "properties": {"email": STRING}}
    (entry,) = discover(root)["streams"]
    assert entry["schema"]["$defs"] == OLD["$defs"]
    assert [part["breadcrumb"] for part in entry["metadata"][1:]] == [["properties", name] for name in found]


@pytest.mark.parametrize(
    ("config", "columns"),
    [
        ({"from_version": "v2"}, ["id", "address", "contact", "name"]),
        ({"versions": ["v1"]}, ["id", "ssn", "at", "address", "contact"]),
        ({"versions": {"people": ["v2"]}}, ["id", "address", "contact", "name"]),
        ({"from_version": "v1", "versions": "v1,v2"}, ["id", "address", "contact", "name", "ssn", "at"]),
        ({"from_version": "v9"}, ["id", "address", "contact", "name", "ssn", "at"]),
    ],
)
def test_only_versions_that_will_be_replayed_are_looked_at(people, root, config, columns):
    assert list(offered(discover(root, **config))) == columns


def test_a_version_that_comes_back_after_the_first_offset_counts(people, lake, root):
    build_stream(lake, "tap-a", "people", OLD, RECORDS[:1], key_properties=["id"])
    assert "ssn" in offered(discover(root, from_version="v2"))
    assert list(offered(discover(root)))[-1] == "name"


@pytest.mark.parametrize(
    "config",
    [{}, {"stream_maps": {"people": {"more": "'1'"}}}, {"include_lake_metadata": True}, {"flattening_enabled": True}],
    ids=["plain", "mapped", "metadata", "flattened"],
)
def test_what_is_deselected_is_in_no_version(people, root, config):
    if "flattening_enabled" in config:
        config = {**config, "flattening_max_depth": 2}
    catalog = deselect(discover(root), "ssn", "address.street", "contact.email")
    out = replay(root, catalog=catalog, **config)
    assert len(out.records()) == 2
    assert PRIVATE.encode() not in out.text
    # Ids of files and lineages may spell a name by chance.
    said = re.sub(rb"[0-9a-v]{16}", b"", out.text)
    for name in (b"ssn", b"street", b"email"):
        assert name not in said
    assert b"public" in said


def test_a_catalog_as_discovered_changes_no_byte(people, root):
    assert replay(root, catalog=discover(root)).text == replay(root).text
    narrow = discover(root, versions=["v1"])
    assert replay(root, catalog=narrow).text == replay(root).text


def test_an_older_catalog_follows_the_sdk_and_says_what_it_does_not_reach(lake, root, caplog):
    build_stream(lake, "tap-a", "people", NEW, RECORDS[1:], key_properties=["id"])
    old = discover(root)
    build_stream(lake, "tap-a", "people", OLD, RECORDS[:1], key_properties=["id"])
    assert replay(root, catalog=old).records() == [RECORDS[1], RECORDS[0]]
    assert "does not know" not in caplog.text
    out = replay(root, catalog=deselect(old, "name", "contact"))
    assert out.records()[1]["ssn"] == PRIVATE
    assert "does not know these columns, so they are replayed: 'ssn', 'at', 'address.street'; refresh" in caplog.text
    assert "email" not in caplog.text


def test_a_key_property_of_any_version_is_automatic_and_says_so_where_it_is_deselected(lake, root, caplog):
    build_stream(lake, "tap-a", "people", OLD, RECORDS[:1], key_properties=["ssn"])
    build_stream(lake, "tap-a", "people", NEW, RECORDS[1:], key_properties=["id"])
    catalog = discover(root)
    (entry,) = catalog["streams"]
    assert entry["key_properties"] == ["id"]
    inclusion = {part["breadcrumb"][-1]: part["metadata"]["inclusion"] for part in entry["metadata"][1:]}
    assert [name for name, said in inclusion.items() if said == "automatic"] == ["id", "ssn"]
    for part in entry["metadata"][1:]:
        part["metadata"]["selected"] = part["breadcrumb"][-1] not in ("ssn", "name")
    out = replay(root, catalog=catalog)
    assert out.records()[0]["ssn"] == PRIVATE
    assert "name" not in out.records()[1]
    assert "key properties are always replayed, these too, although the catalog deselects them: 'ssn'" in caplog.text


def test_a_stream_whose_manifest_is_damaged_is_offered_as_the_catalogue_has_it(people, root, caplog):
    (root / "raw" / "tap-a" / "people" / "manifest.json").write_bytes(b"{")
    assert offered(discover(root)) == NEW["properties"]
    assert "columns of older versions are not offered" in caplog.text


PROPERTY = st.recursive(
    st.sampled_from([True, False, {}, {"type": "string"}, {"type": ["string", "null"]}, {"type": "object"}]),
    lambda inner: st.builds(
        lambda more, properties: {**more, "properties": properties},
        st.sampled_from([{}, {"type": "object"}, {"type": ["null", "object"]}, {"type": "string"}]),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    ),
    max_leaves=8,
)
SCHEMA = st.builds(
    lambda properties, defs: {"type": "object", "properties": properties, **({"$defs": defs} if defs else {})},
    st.dictionaries(st.sampled_from("abc"), PROPERTY, max_size=3),
    st.dictionaries(st.sampled_from("xy"), PROPERTY, max_size=2),
)


@settings(deadline=None)
@given(st.lists(SCHEMA, min_size=1, max_size=3))
def test_what_is_united_of_some_versions_is_nobodys_wish_and_lacks_no_column(schemas):
    made = united(schemas)
    known = [SchemaVersion(schema=one, key_properties=(), first_offset=0, first_seen="") for one in schemas]
    text = json.dumps({"streams": [{"tap_stream_id": "s", "schema": made, "key_properties": [], "metadata": []}]})
    assert not Overrides.between(for_singer_sdk(json.loads(text))["s"], known)
    assert not unknown(schemas, made, ())


def test_a_schema_that_has_every_column_is_taken_as_it_is():
    assert united([OLD, OLD]) is OLD
    assert united([True, OLD]) is True


def test_a_version_that_streams_lack_fails_before_anything_is_written(people, lake, root):
    for name, schema in (("a-first", NEW), ("cities", OLD), ("islands", NEW)):
        build_stream(lake, "tap-a", name, schema, RECORDS[1:])
    lake.stream("tap-a", "born").writer(writer_id="a-test").open()
    for config in ({"from_version": "v2"}, {"versions": ["v2"]}, {"versions": {"people": "v2", "cities": "v2"}}):
        with pytest.raises(UnknownNameError) as raised:
            replay(root, **config)
        assert raised.value.output.text == b""
        assert "stream 'cities' has no version 'v2'" in raised.value.message
        assert "'cities': it has: v1 (" in raised.value.hint
        asked = json.dumps({"people": config.get("from_version", ["v2"])})
        assert f"to ask of the others only, set it to {asked}" in raised.value.hint
    with pytest.raises(
        UnknownNameError, match=r"3 of 3 .*'a-first'.*'cities'.*'islands'.*write it as in"
    ) as everywhere:
        replay(root, from_version="v7", streams=["a-first", "cities", "islands"])
    assert everywhere.value.hint.endswith('write it as in {"a-first": "v1"}')


def test_a_version_is_not_asked_of_streams_that_have_a_bookmark_or_are_left_out(people, lake, root):
    build_stream(lake, "tap-a", "cities", NEW, RECORDS[1:])
    bookmark = {"bookmarks": {"cities": replay(root, streams=["cities"]).state["bookmarks"]["cities"]}}
    assert len(replay(root, from_version="v2", state=bookmark).records()) == 1
    catalog = discover(root)
    catalog["streams"][0]["metadata"][0]["metadata"]["selected"] = False
    assert catalog["streams"][0]["stream"] == "cities"
    assert len(replay(root, from_version="v2", catalog=catalog).records()) == 1
    assert len(replay(root, from_version="v2", stream_maps={"cities": None}).records()) == 1
    with pytest.raises(UnknownNameError) as raised:
        replay(root, versions=["v2"], state=bookmark)
    assert raised.value.output.text == b""
