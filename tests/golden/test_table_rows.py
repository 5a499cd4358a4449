"""Rows of tables by section 14 of the format, each as it is written here and not computed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from singerlake.format.schema_hash import schema_hash
from singerlake.tables.declaration.model import Deletions, Keep, NullKeys, TableDeclaration
from singerlake.tables.read import LakeTable
from tests.lakes import build_stream
from tests.tables.tables import STREAM, TABLE, TAP, memory_lake, runner_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": ["null", "integer"]},
        "t": {"type": "string"},
        "j": {},
        "_sdc_deleted_at": {"type": ["null", "string"]},
    },
}


def rows(lines: Sequence[str], columns: Sequence[str], **declared: Any) -> list[tuple[Any, ...]]:
    """The rows of a table of these messages, ordered as the table has them."""
    lake = memory_lake()
    build_stream(lake, TAP, STREAM, SCHEMA, [line.encode() for line in lines], key_properties=("id",))
    declaration = TableDeclaration(name=TABLE, tap=TAP, stream=STREAM, **declared)
    runner_of(lake).run(declaration)
    table = LakeTable.load(lake.storage, TABLE).to_arrow().read_all()
    return [tuple(row[column] for column in columns) for row in table.to_pylist()]


def record(record: str, second: int, version: int | None = None) -> str:
    behind = "" if version is None else f',"version":{version}'
    time = f"2026-01-01T00:00:0{second}Z"
    return f'{{"type":"RECORD","stream":"s","record":{record},"time_extracted":"{time}"{behind}}}'


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def test_values_that_stand_as_they_came_and_the_hash_of_the_version() -> None:
    made = rows(
        [
            record('{"id":1,"t":"a\\ud800"}', 1),
            record('{"id":2,"t":"b","j":{"x" : [1,  2.50], "x":null}}', 2),
            record('{"id":3,"t":"c","j":[ NaN, 1.0 ]}', 3),
            record('{"id":4,"t":"d","j":null}', 4),
        ],
        ["id", "t", "j", "_singerlake_version", "_rescued_data"],
        keep=Keep.APPEND,
        metadata=True,
    )
    version = schema_hash(SCHEMA)
    assert made == [
        (1, None, None, version, '{"t":"a\\ud800"}'),
        (2, "b", '{"x" : [1,  2.50], "x":null}', version, None),
        (3, "c", "[NaN,1.0]", version, None),
        (4, "d", None, version, None),
    ]


def test_a_record_behind_an_end_begins_an_interval_though_it_equals_the_one_before() -> None:
    made = rows(
        [
            record('{"id":1,"t":"a"}', 1),
            record('{"id":1,"t":"a"}', 2),
            record('{"id":1,"t":"a","_sdc_deleted_at":"x"}', 3),
            record('{"id":1,"t":"a","_sdc_deleted_at":"y"}', 4),
            record('{"id":1,"t":"a"}', 5),
        ],
        ["id", "t", "_valid_from", "_valid_to", "_current"],
        keep=Keep.HISTORY,
    )
    assert made == [(1, "a", at(1), at(3), False), (1, "a", at(5), None, True)]


def test_the_moment_of_an_activate_version_counts_a_record_that_null_keys_drops() -> None:
    made = rows(
        [
            record('{"id":1,"t":"a"}', 1, 1),
            record('{"id":null,"t":"b"}', 7, 1),
            '{"type":"ACTIVATE_VERSION","stream":"s","version":2}',
            record('{"id":2,"t":"c"}', 8, 2),
        ],
        ["id", "t", "_deleted", "_deleted_at"],
        keep=Keep.LATEST,
        deletions=Deletions.SOFT,
        null_keys=NullKeys.DROP,
    )
    assert made == [(1, "a", True, at(7)), (2, "c", False, None)]
