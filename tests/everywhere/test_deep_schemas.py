"""Schemas of as many levels as the format allows, and records that are deeper, go everywhere with the room that Python
gives by itself."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from singerlake.arrow.schema.columns import arrow_schema
from singerlake.arrow.schema.json_schema import MOST_LEVELS, columns_of
from singerlake.errors import InvalidSchemaError
from singerlake.format.exact_json import finite, indented
from singerlake.format.metadata import catalogue
from singerlake.format.schema_hash import DEEPEST, canonical_schema, is_too_deep
from singerlake.format.state import fold
from singerlake.format.state.manifest import from_json, to_json
from singerlake.format.state.model import SchemaVersion, StreamSchema
from singerlake.interpreter import process
from singerlake.lake import Lake
from singerlake.site.tree import tree_of
from singerlake.upkeep.reports.schema_diff import compare
from singerlake.upkeep.scan import schema_in
from singerlake.upkeep.verify import verify_stream
from tests.tap.runs import discover, replay
from tests.target.support import TAP, ingest, kept_ids, record, schema

PYTHON_S_OWN = 1_000


@pytest.fixture(autouse=True)
def little_room() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(PYTHON_S_OWN)
    yield
    sys.setrecursionlimit(before)


def below(inner: Any, levels: int, wrap: Callable[[Any], Any]) -> Any:
    """``inner`` within so many levels more."""
    for _ in range(levels):
        inner = wrap(inner)
    return inner


def column(schema: Any) -> dict[str, Any]:
    """A stream's schema with ``schema`` for one of its columns."""
    return {"type": "object", "properties": {"id": {"type": "integer"}, "x": schema}}


SHAPES = {
    "items": column(below({}, DEEPEST - 3, lambda inner: {"type": "array", "items": inner})),
    "objects": column(below({}, (DEEPEST - 3) // 2, lambda inner: {"type": "object", "properties": {"x": inner}})),
    "additionalProperties": column(below({}, DEEPEST - 3, lambda inner: {"additionalProperties": inner})),
    "anyOf": column(below({}, (DEEPEST - 3) // 2, lambda inner: {"anyOf": [inner, {"type": "null"}]})),
    "not": column(below({}, DEEPEST - 3, lambda inner: {"not": inner})),
    "required of what is none": column({"required": below([], DEEPEST - 4, lambda inner: [inner])}),
    "data": column({"enum": below([], DEEPEST - 4, lambda inner: [inner])}),
    "definitions": column({}) | {"$defs": below({}, DEEPEST - 2, lambda inner: {"$defs": inner})},
}
every_shape = pytest.mark.parametrize("deep", SHAPES.values(), ids=SHAPES.keys())


def test_they_are_as_deep_as_may_be() -> None:
    for deep in SHAPES.values():
        assert not is_too_deep(deep)
        assert is_too_deep({"not": {"not": deep}})


@every_shape
def test_the_format_holds_them(deep: Any) -> None:
    assert json.loads(canonical_schema(deep)) == deep
    assert finite([deep, float("nan")]) == [deep, None]
    odd = {**deep, "title": "\ud800"}
    for each in (deep, odd):
        assert json.loads(canonical_schema(each)) == each
        assert json.loads(indented(each)) == each
        born = fold.empty(tap="t", stream="s", store="lockfile", lineage="l", created="2026", transaction_id="x")
        held = SchemaVersion(schema=each, first_offset=0, first_seen="2026")
        manifest = msgspec.structs.replace(born, versions={"v": "v1"}, schemas={"v": held})
        assert from_json(to_json(manifest), key="k").schemas["v"] == held
        entry = catalogue.stream_entry("s", each, ())
        known = catalogue.merged(None, entry)
        assert catalogue.from_json(catalogue.to_json(known), key="k") == known
    line = json.dumps({"type": "SCHEMA", "stream": "s", "schema": deep}).encode() + b"\n"
    found = schema_in(line)
    assert found is not None
    assert pickle.loads(pickle.dumps(found[1])).schema == deep


@every_shape
def test_readers_and_comparisons_take_them(deep: Any) -> None:
    import pyarrow as pa

    made = arrow_schema(columns_of([deep]))
    # What Arrow passes on to another process has fewer levels than a schema may have.
    batch = pa.RecordBatch.from_pylist([], schema=made)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, made) as stream:
        stream.write_batch(batch)
    assert pa.ipc.open_stream(sink.getvalue()).read_all().schema == made
    other = {**deep, "properties": {**deep.get("properties", {}), "new": {}}}
    assert [each.path for each in compare(StreamSchema(schema=deep), StreamSchema(schema=other)).added] == ["new"]
    assert tree_of(deep)


def test_what_is_deeper_than_a_column_may_be_is_json_text() -> None:
    import pyarrow as pa

    arrays = columns_of([SHAPES["items"]]).get("x")
    assert arrays is not None
    inner, levels = arrow_schema(columns_of([SHAPES["items"]])).field("x").type, 0
    while pa.types.is_list(inner):
        inner, levels = inner.value_type, levels + 1
    assert (levels, inner) == (MOST_LEVELS, pa.string())


@pytest.mark.crossed("deep", "road")
@every_shape
@pytest.mark.parametrize(
    "road", [{}, {"stream_maps": {"users": {"more": "id + 1"}}}], ids=["as it came", "through stream maps"]
)
def test_the_plugins_take_them_both_ways(deep: Any, road: dict[str, Any], tmp_path: Path) -> None:
    ingest(tmp_path, [schema(schema=deep), record(1)], **road)
    assert kept_ids(tmp_path) == [1]
    sys.setrecursionlimit(PYTHON_S_OWN)
    stream = Lake.open(str(tmp_path)).stream(TAP, "users")
    assert verify_stream(stream.lake.storage, TAP, "users", stream.state).findings == ()
    assert stream.rebuilt(lineage=None).files[0].version == stream.snapshot().files[0].version
    assert stream.to_arrow().read_all().num_rows == 1
    catalog = discover(tmp_path, tap_id=TAP)
    for options in ({}, {"catalog": catalog}, {"include_lake_metadata": True}):
        sys.setrecursionlimit(PYTHON_S_OWN)
        assert [row["id"] for row in replay(tmp_path, tap_id=TAP, **options).records()] == [1]


@pytest.mark.parametrize("deep", [SHAPES[name] for name in SHAPES if name != "required of what is none"])
def test_records_are_held_against_them(deep: Any, tmp_path: Path) -> None:
    ingest(tmp_path, [schema(schema=deep), record(1)], validate_records=True)
    assert kept_ids(tmp_path) == [1]


def test_a_schema_that_refers_to_itself_without_end_is_an_error_and_no_crash(tmp_path: Path) -> None:
    endless = {"type": "object", "properties": {"id": {"$ref": "#/properties/id"}}}
    with pytest.raises(InvalidSchemaError, match="unset validate_records"):
        ingest(tmp_path, [schema(schema=endless), record(1)], validate_records=True)


@pytest.mark.parametrize("innermost", ["1", "NaN"])
def test_a_deep_record_that_a_target_took_is_sound_to_every_reader(innermost: str, tmp_path: Path) -> None:
    value = "[" * 3_000 + innermost + "]" * 3_000
    line = f'{{"type":"RECORD","stream":"users","record":{{"id":1,"x":{value}}}}}'.encode()
    process.make_room()
    ingest(tmp_path, [schema(schema=column({})), line])
    stream = Lake.open(str(tmp_path)).stream(TAP, "users")

    sys.setrecursionlimit(PYTHON_S_OWN)
    assert verify_stream(stream.lake.storage, TAP, "users", stream.state).findings == ()
    sys.setrecursionlimit(PYTHON_S_OWN)
    assert stream.rebuilt(lineage=None).files == stream.snapshot().files
    sys.setrecursionlimit(PYTHON_S_OWN)
    assert stream.to_arrow().read_all().column("x").to_pylist() == [value]


def test_a_limit_that_is_higher_stays() -> None:
    sys.setrecursionlimit(process.CALLS + 1)
    process.make_room()
    assert sys.getrecursionlimit() == process.CALLS + 1
