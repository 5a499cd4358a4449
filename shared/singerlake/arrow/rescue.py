"""What did not fit, as the JSON that is kept beside the row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from singerlake.arrow.values import Lost

if TYPE_CHECKING:
    import pyarrow as pa


def rescued_text(lost: Mapping[int, Iterable[Lost]], rows: int, arrow: pa.DataType) -> pa.Array:
    """The column ``_rescued_data``: null where all of a record fitted."""
    import pyarrow as pa

    if not lost:
        return pa.nulls(rows, arrow)
    return pa.array([as_json(lost[row]) if row in lost else None for row in range(rows)], arrow)


def as_json(lost: Iterable[Lost]) -> str:
    """One JSON object of the record's shape, the values as they were written: ``{"address":{"zip":12}}``."""
    tree: dict[str, Any] = {}
    for each in lost:
        inner = tree
        for key in each.keys[:-1]:
            inner = inner.setdefault(key, {})
        inner[each.keys[-1]] = each.text
    return _written(tree)


def _written(tree: dict[str, Any]) -> str:
    members = (
        f"{json.dumps(key)}:{_written(value) if isinstance(value, dict) else value}" for key, value in tree.items()
    )
    return "{" + ",".join(members) + "}"
