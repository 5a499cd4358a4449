"""What differs between two tables, against what plain Python says of two dictionaries."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.tables.compare.differences import Difference, differences
from singerlake.tables.state.types import sort_key

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("k", pa.string()),
        ("x", pa.float64()),
        ("list", pa.list_(pa.float64())),
        ("json", pa.string()),
    ]
)
KEYS = {
    "number": (SCHEMA, st.tuples(st.integers(-3, 3), st.sampled_from(["", "a", "B", "é", "\U0001d4b3"]))),
    "float": (
        pa.schema([("n", pa.float64()), *list(SCHEMA)[1:]]),
        st.tuples(st.sampled_from([0.0, 1.5, -1.5, math.inf, -math.inf, math.nan]), st.sampled_from(["a", "b"])),
    ),
}
VALUES = st.tuples(
    st.sampled_from([None, 0.0, -0.0, 1.0, math.nan]),
    st.sampled_from([None, [], [None], [1.0], [math.nan], [0.0], [-0.0]]),
    st.sampled_from([None, "1", "1.0", "true", '{"a":1,"b":2}', '{"b": 2, "a": 1}', "{", "[" * 3000 + "]" * 3000]),
)
SIZES = st.lists(st.integers(0, 3), min_size=1, max_size=6)
ONE_SIDED = ("deleted", "inserted")
Rows = dict[Any, tuple[Any, ...]]


def pieces(rows: Rows, schema: pa.Schema, sizes: list[int]) -> Iterator[pa.Table]:
    """The rows in the order of their keys, in pieces of these sizes, empty ones among them."""
    ordered = [(*key, *rows[key]) for key in sorted(rows, key=sort_key)]
    at, turn = 0, 0
    while at < len(ordered) or turn < len(sizes):
        size = sizes[turn % len(sizes)] or (turn >= len(sizes))
        yield pa.Table.from_pylist(
            [dict(zip(schema.names, row, strict=True)) for row in ordered[at : at + size]], schema
        )
        at, turn = at + size, turn + 1


def comparable(value: Any) -> Any:
    """The same, where NaN equals itself and JSON its own value."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, str):
        try:
            return json.dumps(json.loads(value), sort_keys=True)
        except (ValueError, RecursionError):
            return value
    return [comparable(each) for each in value] if isinstance(value, list | tuple) else value


def keys_of(table: pa.Table) -> list[Any]:
    return [(comparable(row["n"]), row["k"]) for row in table.to_pylist()]


@pytest.mark.parametrize("kind", KEYS)
@given(data=st.data())
def test_it_is_what_dictionaries_say(kind: str, data: st.DataObject) -> None:
    schema, keys = KEYS[kind]
    before, after = (data.draw(st.dictionaries(keys, VALUES, max_size=8)) for _ in range(2))
    before, after = ({(comparable(n), k): ((n, k), row) for (n, k), row in rows.items()} for rows in (before, after))
    sizes = [data.draw(SIZES) for _ in range(2)]
    found: list[Difference] = list(
        differences(
            pieces(dict(before.values()), schema, sizes[0]),
            pieces(dict(after.values()), schema, sizes[1]),
            ("n", "k"),
            ("x", "list", "json"),
            {"json"},
        )
    )
    deleted, inserted = ([key for each in found for key in keys_of(getattr(each, name))] for name in ONE_SIDED)
    assert sorted(deleted, key=str) == sorted(before.keys() - after.keys(), key=str)
    assert sorted(inserted, key=str) == sorted(after.keys() - before.keys(), key=str)
    both = [key for each in found for key in keys_of(each.before)]
    assert both == [key for each in found for key in keys_of(each.after)]
    assert sorted(both, key=str) == sorted(before.keys() & after.keys(), key=str)
    masks = {
        name: [flag for each in found for flag in each.columns[name].to_pylist()] for name in ("x", "list", "json")
    }
    for at, key in enumerate(both):
        one, other = before[key][1], after[key][1]
        for place, name in enumerate(("x", "list", "json")):
            assert masks[name][at] == (comparable(one[place]) != comparable(other[place])), (key, name)


def test_nothing_and_nothing_do_not_differ() -> None:
    assert list(differences(iter(()), iter([SCHEMA.empty_table()]), ("n",), ("x",))) == []
