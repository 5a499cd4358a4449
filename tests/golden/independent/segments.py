"""The rest of the reader written from ``shared/docs/format`` alone: section 5.3, segments."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

NAME = re.compile("[0-9]{20}-[0-9a-v]{16}")
TIMED = re.compile("w[0-9a-v]{15}")


class NoSegment(Exception):
    """A segment that is not what the state says."""


def with_all_files(state: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same state without segments: all files stand in ``files``."""
    if ("segments" in state.get("features", ())) != bool(state.get("segments")):
        raise NoSegment("segments without their feature, or the feature without any")
    if not state.get("segments"):
        return state
    files: list[dict[str, Any]] = []
    end = None
    for segment in state["segments"]:
        held = files_of(segment, folder)
        if end is not None and segment["offset"] != end:
            raise NoSegment("offsets are left out between two segments, or there twice")
        end = segment["end"]
        if not held or (held[0]["offset"], held[-1]["offset"] + held[-1]["messages"]) != (segment["offset"], end):
            raise NoSegment("a segment has other offsets than the state says")
        files += held
    whole = {name: value for name, value in state.items() if name != "segments"}
    return {**whole, "files": [*files, *state["files"]]}


def files_of(segment: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """What a segment holds."""
    name = segment["name"]
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise NoSegment("a name that is none")
    path = folder / "_segments" / f"{name}.json.gz"
    if not path.exists():
        raise NoSegment("a segment is not there")
    try:
        text = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise NoSegment("no gzip") from error
    if hashlib.sha256(text).hexdigest() != segment["sha256"]:
        raise NoSegment("another checksum")
    held: list[dict[str, Any]] = json.loads(text)
    return held


def summary(files: list[dict[str, Any]], moment: Callable[[str], datetime | None]) -> dict[str, Any]:
    """What a state says of a segment of these files, but for its name and checksum. What may be absent is: 0, or
    None."""
    versions: dict[str, list[int]] = {}
    for file in files:
        of, records, size, _ = versions.get(file["version"], (0, 0, 0, 0))
        end = file["offset"] + file["messages"]
        versions[file["version"]] = [of + 1, records + file["records"], size + file["bytes"], end]
    times = [(file["first"], file["last"]) for file in files if is_timed(file, moment)]
    ids = [file["id"] for file in files if TIMED.fullmatch(file["id"])]
    return {
        "offset": files[0]["offset"],
        "end": files[-1]["offset"] + files[-1]["messages"],
        "versions": versions,
        "raw_bytes": sum(file["raw_bytes"] for file in files),
        "erased": sum(file.get("erased", 0) for file in files),
        "attached": sum(len(file.get("attached", ())) for file in files),
        "first": min((first for first, _ in times), default=None),
        "last": max((last for _, last in times), default=None),
        "untimed": len(files) - len(times),
        "ids": [min(ids), max(ids)] if ids else None,
        "others": len(files) - len(ids),
        "misnamed": sum(not file["path"].endswith(f"-{file['id']}.singer.gz") for file in files),
    }


def is_timed(file: dict[str, Any], moment: Callable[[str], datetime | None]) -> bool:
    """Whether a file's times are known (5.1)."""
    first, last = moment(file["first"]), moment(file["last"])
    return first is not None and last is not None and first <= last


def that_may_have(segments: Iterable[dict[str, Any]], id: str) -> list[dict[str, Any]]:
    """The segments in which a file of that id can be."""
    return [segment for segment in segments if may_have(segment, id)]


def may_have(segment: dict[str, Any], id: str) -> bool:
    if TIMED.fullmatch(id) is None:
        return bool(segment.get("others"))
    return segment.get("ids") is not None and bool(segment["ids"][0] <= id <= segment["ids"][1])
