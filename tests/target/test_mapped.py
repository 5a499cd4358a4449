"""The rewriting road: stream maps, flattening and metadata change what they are asked to, and nothing else."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from singer_sdk.exceptions import MapExpressionError, MissingKeyPropertiesError, StreamMapConfigError

from singerlake.errors import InvalidMessageError, InvalidSchemaError
from singerlake.lake import Lake
from tests.target.support import (
    TAP,
    USERS,
    WIDER,
    activate,
    ingest,
    kept,
    kept_ids,
    manifest,
    record,
    records,
    schema,
    state,
)


def stored(root: Path, stream: str = "users") -> list[dict[str, Any]]:
    """The messages of a stream, floats exact."""
    return [json.loads(line, parse_float=Decimal) for line in kept(root, stream)]


def test_a_map_adds_removes_and_computes(tmp_path: Path) -> None:
    maps = {"users": {"name": "__NULL__", "next": "id + 1", "hash": "md5(name)"}}
    assert ingest(tmp_path, [schema(), *records(1, 2), state({"at": 2})], stream_maps=maps) == ['{"at": 2}']
    assert [list(message["record"]) for message in stored(tmp_path)] == [["id", "next", "hash"]] * 2
    assert [message["record"]["next"] for message in stored(tmp_path)] == [2, 3]
    (version,) = manifest(tmp_path).schemas.values()
    assert set(version.schema["properties"]) == {"id", "next", "hash"}
    assert version.key_properties == ("id",)


def test_the_envelope_the_bookmark_properties_and_every_digit_stay(tmp_path: Path) -> None:
    line = (
        b'{"type": "RECORD", "time_extracted": "2026-01-01T00:00:00.10+05:00", "version": 12, "sequence": 7, '
        b'"stream": "users", "record": {"id": 123456789012345678901234567890, "_sdc_deleted_at": "gone", '
        b'"when": "0000-99-99", "n": [1.10, 0.1234567890123456789012345678901, 1E+400, -0.0], "nan": NaN, '
        b'"odd": "\\ud800 \\u00e9"}}'
    )
    ingest(tmp_path, [schema(bookmark_properties=["id"], origin="kept"), line], stream_maps={"users": {"extra": "'1'"}})
    (message,) = kept(tmp_path)
    found, sent = json.loads(message, parse_float=str), json.loads(line, parse_float=str)
    assert found.pop("record") | {"nan": None} == sent.pop("record") | {"extra": "1", "nan": None}
    assert b'"nan":NaN' in message
    assert found == sent
    (version,) = manifest(tmp_path).schemas.values()
    assert version.bookmark_properties == ("id",)
    (file,) = manifest(tmp_path).files
    head = (tmp_path / "raw" / TAP / "users" / file.path).read_bytes()
    import gzip

    assert json.loads(gzip.decompress(head).split(b"\n")[0])["origin"] == "kept"


def test_streams_that_no_map_names_keep_their_very_bytes(tmp_path: Path) -> None:
    odd = b' {"type":"RECORD","stream":"users","record":{"id":1,  "n":1.10}}\r'
    ingest(tmp_path, [schema(), odd, activate(3)], stream_maps={"orders": {"a": "'1'"}})
    assert kept(tmp_path) == [odd, activate(3)]


def test_an_alias_holds_through_schema_changes_and_for_activate_version(tmp_path: Path) -> None:
    maps = {"users": {"__alias__": "people"}}
    lines = [schema(), *records(1), activate(5), schema(schema=WIDER), *records(2), schema(), *records(3), activate(6)]
    ingest(tmp_path, lines, stream_maps=maps)
    assert Lake.open(str(tmp_path)).streams(TAP) == ["people"]
    assert [(message["type"], message["stream"]) for message in stored(tmp_path, "people")] == [
        ("RECORD", "people"),
        ("ACTIVATE_VERSION", "people"),
        ("RECORD", "people"),
        ("RECORD", "people"),
        ("ACTIVATE_VERSION", "people"),
    ]
    found = manifest(tmp_path, "people")
    assert [found.versions[file.version] for file in found.files] == ["v1", "v2", "v1"]


def test_a_stream_can_be_copied_filtered_and_removed(tmp_path: Path) -> None:
    maps: dict[str, Any] = {
        "even": {"__source__": "users", "__filter__": "id % 2 == 0"},
        "orders": None,
        "gone": "__NULL__",
    }
    lines = [schema(), schema("orders"), schema("gone"), *records(1, 2, 3), record(9, "orders"), record(9, "gone")]
    ingest(tmp_path, [*lines, activate(1, "orders")], stream_maps=maps)
    assert Lake.open(str(tmp_path)).streams(TAP) == ["even", "users"]
    assert kept_ids(tmp_path) == [1, 2, 3]
    assert kept_ids(tmp_path, "even") == [2]


def test_all_other_streams_can_be_removed(tmp_path: Path) -> None:
    maps = {"users": {}, "__else__": None}
    for _ in range(2):
        ingest(tmp_path, [schema(), schema("orders"), *records(1), record(1, "orders")], stream_maps=maps)
    assert Lake.open(str(tmp_path)).streams(TAP) == ["users"]


def test_two_streams_under_one_name_each_keep_their_schema(tmp_path: Path) -> None:
    maps = {"users": {"__alias__": "all"}, "wider": {"__alias__": "all"}}
    lines = [schema(), schema("wider", WIDER), *records(1, 2), record(3, "wider"), *records(4)]
    ingest(tmp_path, lines, stream_maps=maps)
    assert kept_ids(tmp_path, "all") == [1, 2, 3, 4]
    found = manifest(tmp_path, "all")
    widths = [len(found.schemas[file.version].schema["properties"]) for file in found.files]
    assert widths == [2, 3, 2]


def test_flattening(tmp_path: Path) -> None:
    nested = {"properties": {"id": {"type": "integer"}, "a": {"type": "object", "properties": {"b": USERS}}}}
    line = b'{"type": "RECORD", "stream": "users", "record": {"id": 1, "a": {"b": {"id": 1.50, "name": "x"}}}}'
    ingest(tmp_path, [schema(schema=nested), line], flattening_enabled=True, flattening_max_depth=2)
    assert stored(tmp_path)[0]["record"] == {"id": 1, "a__b__id": Decimal("1.50"), "a__b__name": "x"}
    assert kept(tmp_path)[0].count(b"1.50") == 1


def test_a_schema_that_flattening_cannot_take_is_named(tmp_path: Path) -> None:
    odd = schema(schema={"properties": {"id": True}}, keys=())
    with pytest.raises(InvalidSchemaError, match="flattening"):
        ingest(tmp_path, [odd, *records(1)], flattening_enabled=True, flattening_max_depth=2)
    ingest(tmp_path, [odd, *records(1)], stream_maps={"orders": {}})
    assert kept_ids(tmp_path) == [1]


def test_record_metadata_is_added_to_records_and_schema(tmp_path: Path) -> None:
    line = record(1, time_extracted="2026-01-01T00:00:00Z", version=7)
    ingest(tmp_path, [schema(), line], add_record_metadata=True)
    (message,) = stored(tmp_path)
    added = {name: value for name, value in message["record"].items() if name.startswith("_sdc_")}
    assert added["_sdc_extracted_at"] == "2026-01-01T00:00:00Z"
    assert added["_sdc_table_version"] == 7
    assert added["_sdc_received_at"][:2] == "20"
    (version,) = manifest(tmp_path).schemas.values()
    assert {name for name in version.schema["properties"] if name.startswith("_sdc_")} == set(added)
    assert len(added) == 7


def test_a_mapped_record_without_a_mapped_key_is_refused(tmp_path: Path) -> None:
    maps = {"users": {"__key_properties__": ["name"]}}
    line = b'{"type": "RECORD", "stream": "users", "record": {"id": 1}}'
    with pytest.raises(MissingKeyPropertiesError):
        ingest(tmp_path, [schema(), line], stream_maps=maps)


@pytest.mark.parametrize(
    ("maps", "kind"),
    [
        ({"users": {"bad": "((("}}, MapExpressionError),
        ({"users": {"id": "__NULL__"}}, StreamMapConfigError),
        ({"users": {"bad": "no_such_name + 1"}}, MapExpressionError),
        ({"users": {"bad": "id + name"}}, InvalidMessageError),
    ],
)
def test_a_map_that_cannot_work_is_a_clear_error(tmp_path: Path, maps: dict[str, Any], kind: type) -> None:
    with pytest.raises(kind) as raised:
        ingest(tmp_path, [schema(), *records(1)], stream_maps=maps)
    assert "user 1" not in str(raised.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"stream_maps": {"users": {"extra": "'1'"}}},
        {"stream_maps": {"other": {"extra": "'1'"}}},
        {"flattening_enabled": True, "flattening_max_depth": 2},
        {"add_record_metadata": True},
    ],
)
def test_a_schema_s_numbers_stay_as_they_came(tmp_path: Path, settings: dict[str, Any]) -> None:
    price = b'{"type": "number", "multipleOf": 0.01, "maximum": 123456789012345678901234567890.5}'
    sent = b'{"type": "SCHEMA", "stream": "users", "schema": {"properties": {"id": {}, "price": ' + price + b"}}}"
    assert ingest(tmp_path, [sent, record(1), state(1)] * 2, **settings) == ["1"]
    assert kept_ids(tmp_path) == [1, 1]
    state_of = manifest(tmp_path)
    (version,) = state_of.schemas.values()
    assert version.schema["properties"]["price"] == json.loads(price)
    key = Lake.open(str(tmp_path)).stream(TAP, "users").prefix + state_of.files[0].path
    line = gzip.decompress((tmp_path / key).read_bytes()).splitlines()[0]
    assert b'"maximum":123456789012345678901234567890.5' in line.replace(b" ", b"")
