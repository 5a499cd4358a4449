"""What settings add for targets that cannot take a stream as it was captured: one schema, and a sequence."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from singerlake.errors import SettingError
from singerlake.lake import Lake
from tests.lakes import activate_version_line, build_stream, record_line
from tests.tap.batch.support import batch_config, unpacked
from tests.tap.runs import V1, V2, Output, discover, replay

NUMBER = {"type": "object", "properties": {"id": {"type": "number"}, "name": {"type": "string"}}, "required": ["id"]}
ALL = {
    "type": "object",
    "properties": {"id": {"type": "number"}, "name": {"type": ["null", "string"]}},
}


@pytest.fixture
def versions(lake: Lake) -> Lake:
    """Three versions of two messages each: ``id`` widens, ``name`` comes and goes."""
    build_stream(lake, "tap-a", "s", V2, [b'{"type":"RECORD", "stream":"s", "record":{"id":0}}', {"id": 1}])
    build_stream(lake, "tap-a", "s", NUMBER, [{"id": 2.5, "name": "x"}, activate_version_line("s", 7)])
    build_stream(lake, "tap-a", "s", V1, [{"id": 4}, {"id": 5}])
    return lake


def bodies(output: Output) -> list[bytes]:
    return [line for line in output.lines if b'"SCHEMA"' not in line]


def test_one_schema_is_sent_for_all_versions_and_the_rest_keeps_its_bytes(versions: Lake, root: Path) -> None:
    plain, one = replay(root), replay(root, one_schema=True)
    assert len(plain.of("SCHEMA")) == 3
    (schema,) = one.of("SCHEMA")
    assert schema == {"type": "SCHEMA", "stream": "s", "schema": ALL, "key_properties": []}
    assert one.messages[0] == schema
    assert bodies(one) == bodies(plain)


def test_a_stream_of_one_version_is_as_it_was_captured(flights: Lake, root: Path) -> None:
    assert replay(root, versions=["v1"], one_schema=True).messages == replay(root, versions=["v1"]).messages


@pytest.mark.parametrize(
    ("chosen", "columns", "type"),
    [
        ({"versions": ["v1", "v3"]}, {"id", "name"}, "integer"),
        ({"versions": ["v3"]}, {"id"}, "integer"),
        ({"from_version": "v2"}, {"id", "name"}, "number"),
    ],
)
def test_versions_that_are_not_replayed_have_no_part_in_it(
    versions: Lake, root: Path, chosen: dict[str, object], columns: set[str], type: str
) -> None:
    (schema,) = (out := replay(root, one_schema=True, **chosen)).of("SCHEMA")
    assert set(schema["schema"]["properties"]) == columns
    assert schema["schema"]["properties"]["id"]["type"] == type
    assert bodies(out) == bodies(replay(root, **chosen))


def test_a_run_goes_on_at_any_bookmark_with_what_is_left(versions: Lake, root: Path) -> None:
    found, state = [], None
    for _ in range(6):
        out = replay(root, one_schema=True, max_records=1, state=state)
        assert len(out.of("SCHEMA")) <= 1
        found += out.of("RECORD")
        state = out.state
    assert found == replay(root).of("RECORD")
    assert replay(root, one_schema=True, state=state).of("SCHEMA") == []


def test_batches_of_several_versions_share_a_file(versions: Lake, root: Path, tmp_path: Path) -> None:
    out = replay(root, one_schema=True, batch_config=batch_config(tmp_path / "b"))
    assert [m["type"] for m in out.messages if m["type"] != "STATE"] == [
        "SCHEMA", "BATCH", "BATCH", "ACTIVATE_VERSION", "BATCH",
    ]  # fmt: skip
    assert [each[1]["id"] for each in unpacked(out) if isinstance(each, tuple)] == [0, 1, 2.5, 4, 5]


def test_selection_maps_and_catalogs_see_the_one_schema(versions: Lake, root: Path) -> None:
    catalog = discover(root)
    assert replay(root, one_schema=True, catalog=catalog).text == replay(root, one_schema=True).text
    maps = {"s": {"double": "float(id) * 2", "__else__": None, "id": "id"}}
    mapped = replay(root, one_schema=True, stream_maps=maps)
    (schema,) = mapped.of("SCHEMA")
    assert set(schema["schema"]["properties"]) == {"id", "double"}
    assert [record["double"] for record in mapped.records()] == [0, 2, 5, 8, 10]
    catalog["streams"][0]["metadata"].append({"breadcrumb": ["properties", "name"], "metadata": {"selected": False}})
    (schema,) = (out := replay(root, one_schema=True, catalog=catalog)).of("SCHEMA")
    assert set(schema["schema"]["properties"]) == {"id"}
    assert all(record.keys() == {"id"} for record in out.records())


def test_keys_are_those_of_the_newest_version_and_others_are_named(
    lake: Lake, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    build_stream(lake, "tap-a", "s", V1, [{"id": 1}], key_properties=["id"])
    build_stream(lake, "tap-a", "s", V2, [{"id": 2, "name": "x"}], key_properties=["name"])
    with caplog.at_level(logging.WARNING):
        (schema,) = replay(root, one_schema=True).of("SCHEMA")
    assert schema["key_properties"] == ["name"]
    assert "differ in key_properties; one_schema sends those of the newest, ['name']" in caplog.text


LINES = [
    record_line("s", {"id": 1, "sequence": "mine"}),
    b'{ "type": "RECORD", "stream": "s", "record": {"id":1.50} }\r',
    activate_version_line("s", 3),
    b'{"sequence":99,"type":"RECORD","stream":"s","record":{"id":12345678901234567890123}}',
]


def test_a_sequence_is_the_offset_and_records_keep_their_bytes(lake: Lake, root: Path) -> None:
    build_stream(lake, "tap-a", "s", V1, LINES)
    out = replay(root, sequence=True)
    assert [(m["type"], m.get("sequence")) for m in out.messages if m["type"] != "STATE"] == [
        ("SCHEMA", None), ("RECORD", 0), ("RECORD", 1), ("ACTIVATE_VERSION", None), ("RECORD", 3),
    ]  # fmt: skip
    assert out.lines[1] == LINES[0].rstrip()[:-1] + b',"sequence":0}'
    assert b'"record": {"id":1.50} ,"sequence":1}' in out.lines[2]
    assert out.lines[4].count(b"sequence") == 1
    without = [{name: part for name, part in m.items() if name != "sequence"} for m in out.of("RECORD")]
    plain = [{name: part for name, part in m.items() if name != "sequence"} for m in replay(root).of("RECORD")]
    assert without == plain


def test_mapped_records_have_it_too(lake: Lake, root: Path) -> None:
    build_stream(lake, "tap-a", "s", V1, [{"id": 1}, {"id": 2}])
    maps = {"s": {"__filter__": "id > 1"}, "t": {"__source__": "s"}}
    out = replay(root, sequence=True, stream_maps=maps)
    assert [(m["stream"], m["sequence"]) for m in out.of("RECORD")] == [("t", 0), ("s", 1), ("t", 1)]


def test_a_batch_has_no_place_for_it(flights: Lake, root: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="sequence and batch_config are both set"):
        replay(root, sequence=True, batch_config=batch_config(tmp_path / "b"))


def test_the_values_of_records_of_all_versions_fit(versions: Lake, root: Path) -> None:
    out = replay(root, one_schema=True, sequence=True)
    assert [json.loads(line)["sequence"] for line in out.lines if b'"RECORD"' in line] == [0, 1, 2, 4, 5]
