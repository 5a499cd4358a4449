"""Properties whose schema declares another format than their values have: a cast repairs the column."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest

from singerlake.lake import Lake
from singerlake.tables.declaration.model import ColumnRule, TableDeclaration
from singerlake.tables.run.one_table import Outcome
from singerlake.tables.state.keys import state_key
from tests.lakes import build_stream
from tests.tables.tables import STREAM, TAP, memory_lake, runner_of

MOMENT, DAY = {"type": ["null", "string"], "format": "date-time"}, {"type": ["null", "string"], "format": "date"}
AT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def lake_of(declared: dict[str, Any], *values: Any) -> Lake:
    lake = memory_lake()
    capture(lake, declared, *values)
    return lake


def capture(lake: Lake, declared: dict[str, Any], *values: Any) -> None:
    schema = {"properties": {"id": {"type": "integer"}, "x": declared}}
    records = [{"id": number, "x": value} for number, value in enumerate(values)]
    build_stream(lake, TAP, STREAM, schema, records, key_properties=["id"])


def run(lake: Lake, cast: str | None) -> Outcome:
    columns = {"x": ColumnRule(cast=cast)}
    return runner_of(lake).run(TableDeclaration(name="t", tap=TAP, stream=STREAM, columns=columns))


def column(lake: Lake) -> tuple[list[Any], list[Any]]:
    """The values, and what was rescued."""
    found = lake.table("t").to_arrow(columns=["x", "_rescued_data"]).read_all()
    return found["x"].to_pylist(), [text and json.loads(text) for text in found["_rescued_data"].to_pylist()]


@pytest.mark.parametrize(
    ("declared", "captured", "cast", "value"),
    [
        (MOMENT, "00000000000007D1", "text", "00000000000007D1"),
        (MOMENT, 1700000000000, "text", "1700000000000"),
        (MOMENT, 1700000000000, "integer", 1700000000000),
        (MOMENT, "1700000000000", "integer", 1700000000000),
        (MOMENT, "2023-11-14T22:13:20.5+00:00", "text", "2023-11-14T22:13:20.5+00:00"),
        (MOMENT, "2023-11-14", "timestamp", datetime(2023, 11, 14, tzinfo=UTC)),
        (DAY, "2023-11-14T22:13:20Z", "timestamp", AT),
        (DAY, "2023-11-14T22:13:20Z", "date", date(2023, 11, 14)),
        (DAY, "14.11.2023", "text", "14.11.2023"),
        ({"type": "integer"}, "12", "integer", 12),
        ({"type": "integer"}, 1, "boolean", True),
        ({"type": "number"}, "1.50", "decimal(10,2)", "1.50"),
        ({"type": "number"}, "1.50", "double", 1.5),
        ({"type": "boolean"}, "N", "boolean", False),
        ({"type": "boolean"}, 1, "integer", 1),
        ({"type": "string"}, 5, "text", "5"),
        ({"type": ["integer", "string"]}, "5", "integer", 5),
    ],
)
def test_a_cast_reads_the_value_as_it_was_captured(declared: Any, captured: Any, cast: str, value: Any) -> None:
    lake = lake_of(declared, captured, None)
    run(lake, cast)
    (found, nothing), rescued = column(lake)
    assert (str(found) if cast.startswith("decimal") else found, nothing, rescued) == (value, None, [None, None])


def test_what_the_type_of_a_cast_cannot_hold_is_kept_as_it_was_captured() -> None:
    lake = lake_of(MOMENT, 1700000000000, "2023-11-14T22:13:20Z", {"at": "2023-11-14"})
    run(lake, "timestamp")
    assert column(lake) == ([None, AT, None], [{"x": 1700000000000}, None, {"x": {"at": "2023-11-14"}}])


@pytest.mark.parametrize(
    ("cast", "kind"), [("text", "rebuild"), ("decimal(38,0)", "run"), ("json", "run"), (None, "run")]
)
def test_a_table_whose_casts_read_otherwise_is_made_anew(cast: str | None, kind: str) -> None:
    lake = lake_of({"type": "string"}, "5")
    run(lake, cast)
    stored = lake.storage.get(state_key("t"))
    assert stored is not None
    state = json.loads(stored.body)
    assert state.pop("casts") == 2
    lake.storage.put(state_key("t"), json.dumps(state).encode())
    capture(lake, {"type": "string"}, "6")
    outcome = run(lake, cast)
    assert outcome.run is not None
    assert outcome.run.kind == kind
    assert run(lake, cast).run is None
