"""A property whose name changes its case: a column of each, or one of both where that is declared."""

from __future__ import annotations

import json
from typing import Any

import pytest

from singerlake.conditions import named_condition_of
from singerlake.errors import CheckFailedError, SettingError
from singerlake.lake import Lake
from singerlake.tables.declaration.model import ColumnRule, Format, Keep, TableDeclaration
from tests.lakes import build_stream
from tests.tables.tables import STREAM, TAP, memory_lake, runner_of

UPPER: dict[str, Any] = {"ID": {"type": "integer"}, "v": {"type": "string"}}
LOWER: dict[str, Any] = {"id": {"type": "number"}, "v": {"type": "string"}}
JOINED = {"ID": ColumnRule(rename="id")}


def lake_of(*versions: tuple[dict[str, Any], list[dict[str, Any]]]) -> Lake:
    """A stream whose key has the name of the first property of each version."""
    lake = memory_lake()
    for properties, records in versions:
        build_stream(lake, TAP, STREAM, {"properties": properties}, records, key_properties=[next(iter(properties))])
    return lake


def declared(**more: Any) -> TableDeclaration:
    return TableDeclaration(name="t", tap=TAP, stream=STREAM, **{"columns": JOINED, **more})


def rows(lake: Lake, *names: str, **more: Any) -> list[tuple[Any, ...]]:
    runner_of(lake).run(declared(**more))
    return [tuple(row[name] for name in names) for row in lake.table("t").to_arrow().read_all().to_pylist()]


def changed() -> Lake:
    """Keys 1 and 2 by the one name, 2 and 3 by the other."""
    return lake_of(
        (UPPER, [{"ID": 1, "v": "a"}, {"ID": 2, "v": "b"}]),
        (LOWER, [{"id": 2, "v": "c"}, {"id": 3.0, "v": "d"}]),
    )


@pytest.mark.parametrize("format", [Format.PARQUET, Format.JSONL])
@pytest.mark.parametrize("key", [None, ("ID",), ("id",), ("ID", "id")])
def test_two_properties_are_one_column_and_one_key(key: tuple[str, ...] | None, format: Format) -> None:
    lake = changed()
    assert rows(lake, "id", "v", key=key, format=format) == [(1, "a"), (2, "c"), (3, "d")]
    assert lake.table("t").schema.names[:2] == ["id", "v"]
    assert lake.table("t").state.key == ("id",)
    build_stream(lake, TAP, STREAM, {"properties": UPPER}, [{"ID": 3, "v": "e"}], key_properties=["ID"])
    assert rows(lake, "id", "v", key=key, format=format) == [(1, "a"), (2, "c"), (3, "e")]
    assert lake.table("t").state.generation == 1


def test_all_that_names_one_of_them_means_the_column() -> None:
    lake = changed()
    history = rows(lake, "id", "v", "_current", keep=Keep.HISTORY, sort_by=("id",), order_by=("ID",))
    assert history == [(1, "a", True), (2, "b", False), (2, "c", True), (3, "d", True)]
    for name in ("ID", "id"):
        assert rows(lake, "v", deleted_when=named_condition_of(f"{name} >= 2")) == [("a",)]


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        ({"id": ColumnRule(rename="ID")}, "ID"),
        ({"ID": ColumnRule(rename="key"), "id": ColumnRule(rename="key", cast="text")}, "key"),
        ({"ID": ColumnRule(rename="id", cast="text")}, "id"),
        ({"ID": ColumnRule(rename="id", cast="json")}, "id"),
    ],
)
def test_they_have_one_name_and_one_type(columns: dict[str, ColumnRule], name: str) -> None:
    found = rows(changed(), name, "v", columns=columns)
    ids = [1, 2, 3] if name == "ID" else ["1", "2", "3.0"]
    assert found == list(zip(ids, "acd", strict=True))


def test_nested_values_are_joined() -> None:
    one = {"type": "object", "properties": {"a": {"type": "integer"}}}
    two = {"type": "object", "properties": {"b": {"type": "integer"}}}
    lake = lake_of(
        ({"id": UPPER["ID"], "O": one}, [{"id": 1, "O": {"a": 1}}]),
        ({"id": UPPER["ID"], "o": two}, [{"id": 2, "o": {"b": 2}}]),
    )
    found = rows(lake, "o", columns={"O": ColumnRule(rename="o")})
    assert found == [({"a": 1, "b": None},), ({"a": None, "b": 2},)]


def test_a_record_with_two_values_ends_the_run_and_with_one_value_twice_does_not() -> None:
    both = {**UPPER, **LOWER}
    lake = lake_of((both, [{"ID": 1, "id": 1}, {"ID": None, "id": 2}, {"ID": 3}, {"ID": "x", "id": 4}]))
    assert rows(lake, "id") == [(1,), (2,), (3,), (4,)]
    assert json.loads(rows(lake, "_rescued_data")[3][0]) == {"ID": "x"}
    build_stream(lake, TAP, STREAM, {"properties": both}, [{"ID": 5, "id": 6}], key_properties=["ID"])
    with pytest.raises(CheckFailedError, match="one of id, ID: 1 row, as at offset 4; records have values of both"):
        rows(lake, "id")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"ID": ColumnRule(rename="Id")}, "or join the two by giving both the name 'Id'"),
        ({"ID": ColumnRule("k"), "id": ColumnRule("K")}, "or join the two by giving both the name 'K'"),
        ({"ID": ColumnRule("id", cast="text"), "id": ColumnRule(cast="double")}, "are cast to 'text' and 'double'"),
    ],
)
def test_they_are_one_by_one_name_and_one_cast(columns: dict[str, ColumnRule], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        runner_of(changed()).plan(declared(columns=columns))


def test_a_key_that_changed_its_case_ends_the_run_with_what_joins_it() -> None:
    with pytest.raises(CheckFailedError, match=r"to make one column of both: columns: \{'ID': \{rename: 'id'\}\}"):
        rows(changed(), columns={})


def test_without_a_declaration_each_has_a_column() -> None:
    assert rows(changed(), "ID", "id_2", columns={}, keep=Keep.APPEND) == [(1, None), (2, None), (None, 2), (None, 3)]
