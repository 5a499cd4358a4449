"""manifest.json, catalogue.json and singerlake.json: what is believed, and what is refused with the key named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from singerlake.errors import CorruptObjectError, ForeignManifestError, UnsupportedFormatError
from singerlake.format.metadata import catalogue, root
from singerlake.format.state import manifest
from tests.format.state.test_fold import add, born, done, new_file

KEY = "raw/t/s/manifest.json"
PARSERS: dict[str, Callable[..., object]] = {
    "manifest": manifest.from_json,
    "root": root.from_json,
    "catalogue": catalogue.from_json,
}


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"3", b"\xff\xfe", b'{"format":', b"<html></html>"])
def test_what_is_not_a_json_object_is_corrupt(parser: str, body: bytes) -> None:
    with pytest.raises(CorruptObjectError, match=KEY):
        PARSERS[parser](body, key=KEY)


@pytest.mark.parametrize("parser", ["manifest", "root"])
@pytest.mark.parametrize("body", [b"{}", b'{"format":"1"}', b'{"format":true}', b'{"format":0}', b'{"format":1}'])
def test_an_object_of_another_kind_is_corrupt(parser: str, body: bytes) -> None:
    with pytest.raises(CorruptObjectError, match=KEY):
        PARSERS[parser](body, key=KEY)


@pytest.mark.parametrize(("parser", "newer"), [("manifest", 6), ("root", 2)])
def test_a_newer_format_is_refused_before_its_fields_are_looked_at(parser: str, newer: int) -> None:
    with pytest.raises(UnsupportedFormatError, match=rf"format {newer}.*upgrade.*manifest\.json"):
        PARSERS[parser](b'{"format":%d,"files":"other"}' % newer, key=KEY)


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_a_lake_of_the_development_is_refused_with_what_to_do(version: int) -> None:
    with pytest.raises(UnsupportedFormatError, match=rf"format {version} by a version before 0\.1\.0.*capture"):
        manifest.from_json(b'{"format":%d,"files":"other"}' % version, key=KEY)


@pytest.mark.parametrize("named", ["heard", "x-1", ""])
@pytest.mark.parametrize(
    "beginning", [b'{"format":1,"features":["erased","%b"],"tap":"t"', b'{"features": ["%b"], "format": 1']
)
def test_a_feature_that_is_not_known_is_refused_by_its_name(beginning: bytes, named: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=rf"needs '{named}', .*upgrade.*manifest\.json"):
        manifest.from_json(beginning % named.encode() + b',"files":"other"}', key=KEY)


@pytest.mark.parametrize("named", ["3", "[3]", '"erased"', "null", "{}"])
def test_features_of_another_shape_are_corrupt(named: str) -> None:
    with pytest.raises(CorruptObjectError, match="'features' is not a list of names"):
        manifest.from_json(b'{"format":1,"features":%b,"tap":"t"}' % named.encode(), key=KEY)


def test_a_feature_that_the_state_has_nothing_of_may_be_named() -> None:
    state = done(born(), add(new_file("a")))
    body = manifest.to_json(state).replace(b'{"format":1,', b'{"format":1,"features":["attached","erased"],')
    assert manifest.from_json(body, key=KEY) == state


@pytest.mark.parametrize("body", [b'{"streams":{}}', b'{"streams":[1]}', b'{"streams":[{"stream":"a"}]}', b"{}"])
def test_a_catalogue_of_another_shape_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptObjectError, match="not a catalogue"):
        catalogue.from_json(body, key=KEY)


def test_a_manifest_comes_back_as_it_was_and_unknown_fields_are_passed_over() -> None:
    state = done(born(), add(new_file("a"), new_file("b", 4, 1)))
    fields = json.loads(manifest.to_json(state))
    fields["new_field"] = {"later": "format"}
    assert manifest.from_json(json.dumps(fields).encode(), key=KEY) == state


def test_the_manifest_has_the_fields_of_the_format_and_the_spec_s_versions() -> None:
    fields = json.loads(manifest.to_json(done(born(), add(new_file("a")))))
    assert list(fields["versions"].values()) == ["v1"]
    assert set(fields["files"][0]) == {
        *("id", "path", "version", "offset", "messages", "records", "bytes", "raw_bytes", "sha256"),
        *("first", "last", "members"),
    }
    assert fields["transaction"] == {"number": 1, "id": "t0"}


@pytest.mark.parametrize(("field", "value"), [("tap", "T"), ("stream", "S"), ("store", "log")])
def test_a_manifest_that_belongs_elsewhere_is_refused(field: str, value: str) -> None:
    state = msgspec.structs.replace(born(), **{field: value})
    with pytest.raises(ForeignManifestError, match=rf"belongs to {field} '{value}'.*manifest\.json"):
        manifest.check_own(state, tap="t", stream="s", store="lockfile", key=KEY)


def test_the_catalogue_holds_the_tap_s_own_schema_untouched() -> None:
    schema = {"properties": {"a": True, "b": {"items": [{"type": "string"}, False]}}, "$defs": {"x": {}}}
    found = catalogue.stream_entry("s", schema, ["a"])
    assert found["schema"] == schema
    by_name = {tuple(item["breadcrumb"]): item["metadata"] for item in found["metadata"]}
    assert by_name["properties", "a"] == {"inclusion": "automatic"}
    assert by_name["properties", "b"] == {"inclusion": "available"}
    assert by_name[()]["forced-replication-method"] == "LOG_BASED"


def test_the_catalogue_s_entry_is_the_newest_file_s_schema() -> None:
    assert catalogue.entry(born()) is None
    state = done(born(), add(new_file("a", 3, 1), new_file("b", 3, 0)))
    found = catalogue.entry(state)
    assert found is not None
    assert list(found["schema"]["properties"]) == ["a"]


def test_a_stream_is_merged_into_a_catalogue_once() -> None:
    one, two = catalogue.stream_entry("b", {}, []), catalogue.stream_entry("a", {}, [])
    merged = catalogue.merged(catalogue.merged(catalogue.merged(None, one), two), one)
    assert [item["stream"] for item in merged["streams"]] == ["a", "b"]
    assert catalogue.from_json(catalogue.to_json(merged), key=KEY) == merged


ENTRIES = [
    catalogue.stream_entry("b", {"properties": {"é": {"default": 0.1}}}, ["é"]),
    catalogue.stream_entry("a", {}, []),
    catalogue.stream_entry("\udfff", {"properties": {"\ud800": {"maximum": 10**30}}}, ["\ud800"]),
    catalogue.stream_entry("c", {"default": float("nan")}, []),
]


@pytest.mark.parametrize("before", [ENTRIES[:0], ENTRIES[:2], ENTRIES])
@pytest.mark.parametrize("fresh", [ENTRIES[:1], ENTRIES[1:], [catalogue.stream_entry("a", {"title": "new"}, [])]])
def test_stored_entries_are_joined_with_new_ones_without_being_read(before: list[Any], fresh: list[Any]) -> None:
    stored = catalogue.stored_entries(catalogue.to_json(catalogue.merged(None, *before)), key=KEY)
    joined = catalogue.from_json(catalogue.stored_with(stored, fresh), key=KEY)
    merged = catalogue.merged(catalogue.merged(None, *before), *fresh)
    assert joined == catalogue.from_json(catalogue.to_json(merged), key=KEY)
    again = catalogue.stored_entries(catalogue.stored_with(stored, fresh), key=KEY)
    assert all(catalogue.is_entry(again[item["stream"]], item) for item in fresh)
    assert catalogue.stored_with(again, fresh) == catalogue.stored_with(stored, fresh)


def test_a_stored_entry_says_the_same_however_it_is_spelled() -> None:
    entry = ENTRIES[0]
    for spelled in (
        json.dumps(entry),
        json.dumps(entry, indent=1, ensure_ascii=False),
        json.dumps(entry, sort_keys=True),
    ):
        body = f'{{"note": 1, "streams": [{spelled}]}}'.encode()
        assert catalogue.is_entry(catalogue.stored_entries(body, key=KEY)["b"], entry)
    assert not catalogue.is_entry(None, entry)
    assert not catalogue.is_entry(json.dumps({**entry, "schema": {}}).encode(), entry)
    assert not catalogue.is_entry(json.dumps({**entry, "schema": 0}).replace("0}", "1e999}").encode(), entry)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"{}", b'{"streams": {}}', b'{"streams": [1]}', b'{"streams": [{"stream": "a"}]}'),
        *(b'{"streams": [{"tap_stream_id": 5}]}', b'{"streams": [{"tap_stream_id": "a", "schema": {]}'),
        *(b'{"streams": [{"tap_stream_id": "a", "x": "\xff"}]}', b'{"streams": [{"tap_stream_id": "a"}]'),
    ],
)
def test_a_damaged_catalogue_gives_no_stored_entries(body: bytes) -> None:
    with pytest.raises(CorruptObjectError, match="not a catalogue"):
        catalogue.stored_entries(body, key=KEY)


def test_people_s_annotations_survive_a_run_that_adds_its_tap() -> None:
    notes = root.TapNotes(owner="Ada", description="d", links={"docs": "https://example.org"})
    before = msgspec.structs.replace(root.new(lake_id="l", manifest_store="lockfile"), taps={"a": notes})
    after = root.from_json(root.to_json(root.with_tap(before, "b")), key=KEY)
    assert after.taps == {"a": notes, "b": root.TapNotes()}
    assert root.with_tap(after, "a") is after


def test_fields_that_nobody_here_knows_stay_in_the_root_metadata() -> None:
    noted = {"owner": "Ada", "description": "", "links": {}, "contact": "ada@example.org"}
    before = {"format": 1, "lake_id": "l", "manifest_store": "lockfile", "taps": {"a": noted}, "note": [1, "\ud800"]}
    body = json.dumps(before).encode()
    added = json.loads(root.to_json(root.with_tap(root.from_json(body, key=KEY), "b"), body))
    assert added.pop("taps") == {"a": noted, "b": {"owner": "", "description": "", "links": {}}}
    assert added == {name: value for name, value in before.items() if name != "taps"}


def test_names_that_have_no_utf_8_are_kept_as_escapes() -> None:
    schema = {"properties": {"\ud800": {"type": "string"}}}
    base = msgspec.structs.replace(born(), stream="\udfff")
    version = msgspec.structs.replace(done(born(), add(new_file("a"))).schemas[new_file("a").version], schema=schema)
    state = msgspec.structs.replace(base, schemas={"h": version})
    body = manifest.to_json(state)
    assert b"\\udfff" in body
    assert manifest.from_json(body, key=KEY) == state
    entry = catalogue.merged(None, catalogue.stream_entry("\udfff", schema, ["\ud800"]))
    assert catalogue.from_json(catalogue.to_json(entry), key=KEY) == entry


def test_a_tap_id_without_utf_8_is_noted_as_any_other() -> None:
    before = root.with_tap(root.new(lake_id="l", manifest_store="lockfile"), "a\ud800")
    body = root.to_json(before)
    assert root.from_json(body, key=KEY) == before
    assert body.count(b"\n  ") > 1, "people read it"


def test_metadata_stays_json_whatever_numbers_a_schema_holds() -> None:
    odd = {"properties": {"\ud800": {"default": [float("nan"), float("-inf"), 0.5], "maximum": 10**30}}}
    entry = catalogue.merged(None, catalogue.stream_entry("s", odd, []))
    kept = json.loads(catalogue.to_json(entry), parse_constant=pytest.fail)["streams"][0]["schema"]["properties"]
    assert kept["\ud800"] == {"default": [None, None, 0.5], "maximum": 10**30}
