"""Rows that differ, as commands print them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from singerlake.cli.output import json_of, shown
from singerlake.tables.compare.counts import RowDifference

_MARKS = {"inserted": "+", "changed": "~", "deleted": "-"}


def difference_text(row: RowDifference) -> str:
    """A row that differs on one line; of a row that one side alone has, the values that are there."""
    if row.before is not None and row.after is not None:
        values = [f"{name} {_text(row.before[name])} -> {_text(each)}" for name, each in row.after.items()]
    else:
        values = _named({name: each for name, each in (row.after or row.before or {}).items() if each is not None})
    return shown(f"{_MARKS[row.what]} {', '.join(_named(row.key))}" + (f": {', '.join(values)}" if values else ""))


def _named(values: Mapping[str, Any]) -> list[str]:
    return [f"{name} {_text(each)}" for name, each in values.items()]


def _text(value: object) -> str:
    return json.dumps(json_of(value), ensure_ascii=False)
