"""``schema_changes``: what breaks it ends the run, or goes to the quarantine, and the stream stays as it was."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from singer_sdk.exceptions import ConfigValidationError

from singerlake.errors import SchemaChangeError
from singerlake.lake import Lake
from tests.target.support import TAP, ingest, kept

ID, NAME = {"id": {"type": "integer"}}, {"name": {"type": "string"}}
STATE = b'{"type":"STATE","value":{"at":1}}'
LATER = b'{"type":"STATE","value":{"at":2}}'


def schema(properties: dict[str, Any], stream: str = "s", **more: Any) -> bytes:
    return json.dumps({"type": "SCHEMA", "stream": stream, "schema": {"properties": properties, **more}}).encode()


def record(id: int, stream: str = "s", **more: Any) -> bytes:
    return json.dumps({"type": "RECORD", "stream": stream, "record": {"id": id, **more}}).encode()


def activation(version: int) -> bytes:
    return json.dumps({"type": "ACTIVATE_VERSION", "stream": "s", "version": version}).encode()


def ids(folder: Path, stream: str = "s") -> list[int]:
    return [json.loads(line)["record"]["id"] for line in kept(folder, stream) if b'"RECORD"' in line]


def versions(folder: Path, stream: str = "s") -> int:
    return len(Lake.open(str(folder)).stream(TAP, stream).snapshot().versions)


WIDE = {"id": {"type": "number"}}
NULLABLE = {"id": {"type": ["null", "integer"]}}
DESCRIBED = {"id": {"type": "integer", "description": "a number"}}
CHANGES: list[tuple[dict[str, Any], dict[str, Any], str, str, str]] = [
    # before, after, and what additive and freeze say: the property that changes, or that nothing is wrong
    (ID, ID, "", "", ""),
    (ID, {**ID, **NAME}, "", "name", "is new"),
    ({**ID, **NAME}, {**NAME, **ID}, "", "", ""),
    ({**ID, **NAME}, ID, "name", "name", "is gone"),
    (ID, WIDE, "id", "id", "widened"),
    (WIDE, ID, "", "id", "narrowed"),
    (ID, NULLABLE, "id", "id", "may be null now"),
    (ID, DESCRIBED, "", "id", "another description"),
    (
        {"at": {"type": "object", "properties": ID}},
        {"at": {"type": "object", "properties": WIDE}},
        "at.id",
        "at.id",
        "",
    ),
]


@pytest.mark.parametrize("allowed", ["additive", "freeze", "evolve"])
@pytest.mark.parametrize(("before", "after", "additive", "freeze", "how"), CHANGES)
@pytest.mark.parametrize("runs", ["one run", "two runs"])
def test_a_schema_is_held_to_the_newest(
    tmp_path: Path, before: Any, after: Any, additive: str, freeze: str, how: str, allowed: str, runs: str
) -> None:
    settings = {"schema_changes": {"s": allowed}}
    first, second = [schema(before), record(1), STATE], [schema(after), record(2), LATER]
    wrong = {"additive": additive, "freeze": freeze, "evolve": ""}[allowed]
    if runs == "two runs":
        assert ingest(tmp_path, first, **settings) == ['{"at":1}']
    lines = second if runs == "two runs" else [*first, *second]
    if not wrong:
        assert ingest(tmp_path, lines, **settings)[-1] == '{"at":2}'
        assert ids(tmp_path) == [1, 2]
        return
    with pytest.raises(SchemaChangeError) as refused:
        ingest(tmp_path, lines, **settings)
    assert refused.value.context["property"] == wrong
    assert how in refused.value.context["change"]
    assert refused.value.context["rule"] == "schema_changes"
    assert ids(tmp_path) == [1]
    assert versions(tmp_path) == 1


def test_other_keys_and_constraints_of_the_whole_break_it(tmp_path: Path) -> None:
    ingest(tmp_path, [schema(ID), record(1)], schema_changes={"*": "additive"})
    keyed = schema(ID).replace(b'"stream"', b'"key_properties": ["id"], "stream"')
    with pytest.raises(SchemaChangeError, match="schema_changes says additive") as refused:
        ingest(tmp_path, [keyed, record(2)], schema_changes={"*": "additive"})
    assert (refused.value.context["property"], refused.value.context["change"]) == ("key_properties", " before, id now")
    with pytest.raises(SchemaChangeError) as refused:
        ingest(tmp_path, [schema(ID, minProperties=1), record(2)], schema_changes={"*": "freeze"})
    assert refused.value.context["change"] == "another text of the schema"


@pytest.mark.parametrize(
    ("setting", "is_held"),
    [
        ({"s": "freeze"}, True),
        ({"*": "freeze"}, True),
        ({"s": "evolve", "*": "freeze"}, False),
        ({"*": "freeze", "s": "evolve"}, False),
        ({"o*": "freeze", "*": "evolve"}, False),
        ({"[s]": "freeze", "*": "evolve"}, True),
        ({"S": "freeze"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_name_counts_before_patterns_and_of_these_the_first(tmp_path: Path, setting: Any, is_held: bool) -> None:
    ingest(tmp_path, [schema(ID), record(1)])
    lines = [schema({**ID, **NAME}), record(2)]
    if is_held:
        with pytest.raises(SchemaChangeError):
            ingest(tmp_path, lines, schema_changes=setting)
    else:
        ingest(tmp_path, lines, schema_changes=setting)
    assert ids(tmp_path) == [1] if is_held else [1, 2]


@pytest.mark.parametrize("wrong", [{"s": "frozen"}, {"s": None}, "freeze", ["s"]])
def test_a_wrong_setting_is_refused(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(ConfigValidationError):
        ingest(tmp_path, [schema(ID)], schema_changes=wrong)
    assert not (tmp_path / "raw").exists()


def frozen(folder: Path, *lines: bytes, **more: Any) -> list[str]:
    return ingest(folder, lines, schema_changes={"*": "freeze"}, invalid_records="quarantine", **more)


@pytest.mark.parametrize("runs", ["one run", "two runs"])
def test_records_of_a_schema_that_is_refused_are_in_quarantine(
    tmp_path: Path, runs: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = [schema(ID), record(1), STATE]
    second = [
        schema(WIDE),
        record(2),
        activation(7),
        LATER,
        schema(ID),
        record(3),
        schema(WIDE, "other"),
        record(4, "other"),
    ]
    with caplog.at_level(logging.WARNING):
        if runs == "two runs":
            frozen(tmp_path, *first)
            assert frozen(tmp_path, *second) == ['{"at":2}']
        else:
            assert frozen(tmp_path, *first, *second)[-1] == '{"at":2}'
    assert "a record of a schema that is not allowed (property 'id', change 'widened')" in caplog.text
    assert (ids(tmp_path), ids(tmp_path, "other"), ids(tmp_path, "s__quarantine")) == ([1, 3], [4], [2])
    assert versions(tmp_path) == 1
    # What the stream has stays until the records of that version are there.
    assert not [line for line in kept(tmp_path, "s") if b"ACTIVATE_VERSION" in line]
    (held,) = [json.loads(line) for line in kept(tmp_path, "s__quarantine") if b"ACTIVATE_VERSION" in line]
    assert held == {"type": "ACTIVATE_VERSION", "stream": "s__quarantine", "version": 7}
    (found,) = [json.loads(line)["record"] for line in kept(tmp_path, "s__quarantine") if b'"RECORD"' in line]
    assert (found["_quarantine_property"], found["_quarantine_rule"]) == ("id", "schema_changes")


def test_a_stream_whose_first_schema_of_a_run_is_refused_gets_nothing_and_goes_on_with_the_next(tmp_path: Path) -> None:
    frozen(tmp_path, schema(ID), record(1))
    early = [activation(2), schema(WIDE), record(2), activation(3), STATE]
    assert frozen(tmp_path, *early) == ['{"at":1}']
    assert (ids(tmp_path), ids(tmp_path, "s__quarantine")) == ([1], [2])
    assert not [line for line in kept(tmp_path, "s") if b"ACTIVATE_VERSION" in line]
    assert frozen(tmp_path, schema(ID), record(3), activation(4)) == []
    assert ids(tmp_path) == [1, 3]
    assert ingest(tmp_path, [schema(WIDE), record(5)]) == []
    assert (ids(tmp_path), versions(tmp_path)) == ([1, 3, 5], 2)


def test_an_atomic_run_that_breaks_it_leaves_nothing(tmp_path: Path) -> None:
    atomic = {"atomic_run": True, "manifest_store": "log", "schema_changes": {"s": "freeze"}}
    ingest(tmp_path, [schema(ID), record(1)], **atomic)
    with pytest.raises(SchemaChangeError):
        ingest(tmp_path, [schema(ID), record(2), STATE, schema(WIDE), record(3)], **atomic)
    assert ids(tmp_path) == [1]


def test_what_maps_make_of_a_schema_is_held_to_it(tmp_path: Path) -> None:
    maps = {"stream_maps": {"s": {"more": "str(id)"}}, "schema_changes": {"s": "freeze"}}
    ingest(tmp_path, [schema(ID), record(1)], **maps)
    ingest(tmp_path, [schema(ID), record(2)], **maps)
    with pytest.raises(SchemaChangeError):
        ingest(tmp_path, [schema(ID), record(3)], schema_changes={"s": "freeze"})
    assert ids(tmp_path) == [1, 2]
