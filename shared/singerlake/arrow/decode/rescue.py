"""What did not fit, as the JSON that is kept beside the row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from singerlake.arrow.values.values import Lost

if TYPE_CHECKING:
    import pyarrow as pa


def rescued_text(lost: Mapping[int, Iterable[Lost]], rows: int, arrow: pa.DataType) -> pa.Array:
    """The column ``_rescued_data``: null where all of a record fitted."""
    import pyarrow as pa

    if not lost:
        return pa.nulls(rows, arrow)
    return pa.array([as_json(lost[row]) if row in lost else None for row in range(rows)], arrow)


def as_json(lost: Iterable[Lost]) -> str:
    """One JSON object of the record's shape, the values as they were written: ``{"address":{"zip":12}}``. In an
    array the elements keep their places, up to the last one that is kept: ``{"items":[null,{"more":1}]}``."""
    tree: dict[str | int, Any] = {}
    for each in lost:
        inner = tree
        for key in each.keys[:-1]:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                # All of what it lies in is kept already.
                break
        else:
            inner[each.keys[-1]] = each.text
    return _written(tree)


def _written(tree: dict[str | int, Any]) -> str:
    texts = {key: _written(value) if isinstance(value, dict) else value for key, value in tree.items()}
    if 0 in texts or not all(isinstance(key, str) for key in texts):
        return "[" + ",".join(texts.get(place, "null") for place in range(1 + max(map(int, texts)))) + "]"
    return "{" + ",".join(f"{_name(str(key))}:{text}" for key, text in texts.items()) + "}"


@lru_cache(maxsize=4096)
def _name(name: str) -> str:
    """As JSON, without needless escapes; text that has no UTF-8 form is escaped."""
    written = json.dumps(name, ensure_ascii=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        return json.dumps(name)
    return written
