"""The rest of the reader written from ``shared/docs/format`` alone: section 4.1, attached files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any


def is_row(row: Any) -> bool:
    """Whether this is a row; a later version may say more in it."""
    if not isinstance(row, list) or len(row) < 7:
        return False
    message, property, source, sha256, size, media_type, copy = row[:7]
    if not (is_count(message) and isinstance(property, str) and isinstance(source, str | None)):
        return False
    if sha256 is None:
        return size is None and media_type is None and is_count(copy) and copy == 1
    is_checksum = isinstance(sha256, str) and re.fullmatch("[0-9a-f]{64}", sha256) is not None
    return is_checksum and is_count(size) and isinstance(media_type, str) and is_count(copy) and 1 <= copy < 10**9


def is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def name_in(row: list[Any]) -> str | None:
    """The name of the object of a row."""
    if row[3] is None:
        return None
    return str(row[3]) if row[6] == 1 else f"{row[3]}.{row[6]}"


def path_of(name: str) -> str:
    """Where an object is in the stream's folder."""
    return f"_files/{name[:2]}/{name}"


def told(state: dict[str, Any]) -> list[list[Any]]:
    """The rows of a state's records: the offset, and what a reader gives of each."""
    found = []
    for file in state["files"]:
        for row in file.get("attached", ()):
            name = name_in(row)
            found.append([file["offset"] + row[0], *row[1:6], None if name is None else path_of(name)])
    return found


# 11.1


def names_in(files: Iterable[dict[str, Any]]) -> set[str]:
    """The objects of which files have rows."""
    names = (name_in(row) for file in files for row in file.get("attached", ()))
    return {name for name in names if name is not None}


def rows_together(files: Iterable[dict[str, Any]]) -> list[list[Any]]:
    """The rows of neighbouring files, as of one file."""
    found: list[list[Any]] = []
    before = 0
    for file in files:
        found += [[row[0] + before, *row[1:7]] for row in file.get("attached", ())]
        before += file["messages"]
    return found


def without_back(retired: list[dict[str, Any]], files: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is retired, without the objects that files have rows of."""
    back = names_in(files)
    return [file for file in retired if file["id"] not in back]


def left_behind(gone: Iterable[dict[str, Any]], files: Iterable[dict[str, Any]], at: str) -> list[dict[str, Any]]:
    """The objects that no file has any more, as retired ones."""
    names = sorted(names_in(gone) - names_in(files))
    return [{"id": name, "path": path_of(name), "by": None, "since": at} for name in names]


def is_going(retired: list[dict[str, Any]], files: Iterable[dict[str, Any]]) -> bool:
    """Whether files have rows of an object whose deletion is agreed on."""
    names = names_in(files)
    return any(file["id"] in names and file.get("deleted") is not None for file in retired)
