"""The rest of the reader written from ``shared/docs/format`` alone: section 5, the fields that must be there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def is_member(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(is_count(each) for each in value)


def is_schema(value: Any) -> bool:
    return isinstance(value, dict) and "schema" in value and is_count(value.get("first_offset"))


def list_of(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(holds(each) for each in value)


def map_of(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(holds(each) for each in value.values())


OF_A_FILE: dict[str, Callable[[Any], bool]] = {
    "path": is_text,
    "version": is_text,
    "offset": is_count,
    "messages": is_count,
    "bytes": is_count,
    "sha256": lambda value: is_text(value) and re.fullmatch("[0-9a-f]{64}", value) is not None,
    "members": list_of(is_member),
}


def is_file(value: Any) -> bool:
    return isinstance(value, dict) and all(holds(value.get(name)) for name, holds in OF_A_FILE.items())


OF_A_STATE: dict[str, Callable[[Any], bool]] = {
    "tap": is_text,
    "stream": is_text,
    "store": is_text,
    "lineage": is_text,
    "next_offset": is_count,
    "versions": map_of(is_text),
    "schemas": map_of(is_schema),
    "files": list_of(is_file),
}


def wrong_in(state: dict[str, Any]) -> list[str]:
    """The fields that are not there, or of another kind."""
    wrong = [name for name, holds in OF_A_STATE.items() if not holds(state.get(name))]
    return wrong + ([] if list_of(is_text)(state.get("features", [])) else ["features"])
