"""Declarations that do not suit their stream are refused before anything is read, with the line of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.errors import SettingError, UnknownNameError
from singerlake.tables.declaration.model import ColumnRule, TableDeclaration
from singerlake.tables.declaration.streams import resolve
from singerlake.tables.declaration.yaml_file import read_file
from tests.lakes import build_stream
from tests.tables.tables import STREAM, TAP, memory_lake, runner_of

SCHEMA = {
    "properties": {
        "id": {"type": "integer"},
        "n": {"type": "integer"},
        "t": {"type": "string"},
        "any": {},
        "of": {"type": "array", "items": {"type": "integer"}},
    }
}
HEAD = f"tables:\n  t:\n    from: {TAP}.{STREAM}\n    "
MISTAKES = {
    "dropped-check": ("columns: {n: {drop: true}}\n    checks: {n: '> 0'}", 5, "checks of table 't' names 'n', which"),
    "dropped-unique": ("columns: {n: {drop: true}}\n    checks: {n: unique}", 5, "which its columns leave out"),
    "dropped-order": ("keep: history\n    columns: {n: {drop: true}}\n    order_by: [n]", 6, "order_by of table 't'"),
    "dropped-sort": ("columns: {n: {drop: true}}\n    sort_by: [n]", 5, "which its columns leave out"),
    "dropped-key": ("columns: {id: {drop: true}}", 3, "key of table 't' names 'id', which"),
    "dropped-part": ("columns: {n: {drop: true}}\n    partition_by: [n]", 5, "which its columns leave out"),
    "check-of-another-type": (
        "checks:\n      n:\n      - \"= 'a'\"",
        6,
        "of 'n': a column of type integer",
    ),
    "check-of-a-cast": ("columns: {t: {cast: date}}\n    checks: {t: \"= 'a'\"}", 5, "a column of type date"),
    "deletion-of-no-property": (
        "deleted_when: o = 1",
        4,
        "deleted_when of table 't' names 'o', which is not a property",
    ),
    "deletion-of-another-type": ("deleted_when: t = 1", 4, "deleted_when of table 't' says 't = 1' of 't'"),
    "rename-to-a-name-of-ours": (
        "columns:\n      n: {rename: _singerlake_file}",
        5,
        "a name that tables have for themselves",
    ),
    "rename-to-a-working-name": (
        "columns:\n      n: {rename: __partition_7}",
        5,
        "a name that tables have for themselves",
    ),
    "renames-that-differ-by-case": (
        "columns:\n      n: {rename: q}\n      t: {rename: Q}",
        6,
        "property 't' would be column 'Q' of table 't', as property 'n' is, and names of columns differ in more than",
    ),
    "rename-to-a-name-that-is-there": (
        "columns:\n      t: {rename: id}",
        5,
        "property 't' would be column 'id' of table 't', as property 'id' is, and names of columns differ in more than",
    ),
    "rename-to-a-name-that-is-there-but-for-case": (
        "columns:\n      t: {rename: ID}",
        5,
        "property 't' would be column 'ID' of table 't', as property 'id' is, and names of columns differ in more than",
    ),
    "deletion-of-no-type": ("deleted_when: any = 'D'", 4, "a column of type json is compared with 'D'"),
    "order-of-no-type": ("order_by: [any]", 4, "order_by of table 't' is 'any', which holds JSON"),
    "order-of-json": ("columns: {n: {cast: json}}\n    order_by: [n]", 5, "which holds JSON"),
    "part-of-no-time": ("partition_by: [month(n)]", 4, "is 'month(n)', which is not a time"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_declaration_that_does_not_suit_its_stream_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    lake = memory_lake()
    build_stream(lake, TAP, STREAM, SCHEMA, [{"id": 1, "n": 1}], key_properties=("id",))
    body, line, message = MISTAKES[name]
    path = tmp_path / "projections.yml"
    path.write_text(f"{HEAD}{body}\n")
    ((table,), failed) = resolve(read_file(path, {}).tables, {TAP: [STREAM]})
    assert failed == []
    with pytest.raises((SettingError, UnknownNameError)) as caught:
        runner_of(lake).plan(table.declaration)
    assert message in caught.value.message
    assert caught.value.context["line"] == line
    assert lake.storage.get("published/t/_table.json") is None


def test_a_name_may_be_given_whose_property_is_dropped_or_renamed() -> None:
    lake = memory_lake()
    build_stream(lake, TAP, STREAM, SCHEMA, [{"id": 1, "t": "a", "n": 2}], key_properties=("id",))
    for other, wanted in ((ColumnRule(drop=True), {"n": "a"}), (ColumnRule(rename="t"), {"n": "a", "t": 2})):
        columns = {"t": ColumnRule(rename="n"), "n": other}
        runner_of(lake).run(TableDeclaration(name="t", tap=TAP, stream=STREAM, columns=columns))
        (row,) = lake.table("t").to_arrow().read_all().to_pylist()
        assert {name: row[name] for name in ("n", "t") if name in row} == wanted


@pytest.mark.parametrize("name", ["_singer_type", "_singerlake_offset", "_rescued_data", "_Singer_Version"])
def test_a_property_with_a_name_of_ours_is_refused(name: str) -> None:
    lake = memory_lake()
    properties = {**SCHEMA["properties"], name: {"type": "string"}}
    build_stream(lake, TAP, STREAM, {"properties": properties}, [{"id": 1}], key_properties=("id",))
    with pytest.raises(SettingError, match=name) as caught:
        runner_of(lake).plan(TableDeclaration(name="t", tap=TAP, stream=STREAM))
    assert "for themselves" in caught.value.message
    assert caught.value.hint


def test_a_property_with_a_name_of_ours_cannot_be_renamed_and_the_error_says_so() -> None:
    lake = memory_lake()
    build_stream(
        lake, TAP, STREAM, {"properties": {"_singerlake_offset": {"type": "integer"}}}, [{}], key_properties=("id",)
    )
    for rule in (ColumnRule(rename="other"), ColumnRule(drop=True)):
        declared = TableDeclaration(name="t", tap=TAP, stream=STREAM, columns={"_singerlake_offset": rule})
        with pytest.raises(SettingError, match="'columns' can neither rename nor drop it"):
            runner_of(lake).plan(declared)


def test_a_key_that_no_schema_declares_is_told_so() -> None:
    lake = memory_lake()
    build_stream(lake, TAP, STREAM, SCHEMA, [{"id": 1, "uuid": "x"}], key_properties=("uuid",))
    with pytest.raises(SettingError, match="is 'uuid', a key property of its stream that no schema declares"):
        runner_of(lake).plan(TableDeclaration(name="t", tap=TAP, stream=STREAM))


@pytest.mark.parametrize(
    ("cast", "condition", "checks"), [("text", "any = 'D'", {}), ("integer", "any = 1", {"any fits its type": 2})]
)
def test_a_property_of_no_type_is_compared_as_it_is_cast(
    tmp_path: Path, cast: str, condition: str, checks: dict[str, int]
) -> None:
    lake = memory_lake()
    records = [{"id": 1, "any": "D"}, {"id": 2, "any": 1}, {"id": 3, "any": "U"}]
    build_stream(lake, TAP, STREAM, SCHEMA, records, key_properties=("id",))
    path = tmp_path / "projections.yml"
    path.write_text(f"{HEAD}columns: {{any: {{cast: {cast}}}}}\n    deleted_when: {condition}\n")
    ((table,), _) = resolve(read_file(path, {}).tables, {TAP: [STREAM]})
    outcome = runner_of(lake).run(table.declaration)
    assert outcome.run is not None
    assert outcome.state is not None
    assert outcome.state.rows == 2
    assert outcome.run.checks == checks


@pytest.mark.parametrize("keep", ["append", "latest", "history"])
def test_a_column_that_tells_deletions_may_be_dropped(tmp_path: Path, keep: str) -> None:
    lake = memory_lake()
    build_stream(lake, TAP, STREAM, SCHEMA, [{"id": 1, "t": "D"}, {"id": 2, "t": "U"}], key_properties=("id",))
    path = tmp_path / "projections.yml"
    path.write_text(f"{HEAD}keep: {keep}\n    columns: {{t: {{drop: true}}}}\n    deleted_when: t = 'D'\n")
    ((table,), _) = resolve(read_file(path, {}).tables, {TAP: [STREAM]})
    outcome = runner_of(lake).run(table.declaration)
    assert outcome.state is not None
    assert outcome.state.rows == (2 if keep == "append" else 1)
