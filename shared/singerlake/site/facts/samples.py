"""The values of a stream's newest records, only where somebody asked for them: they may be secret."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from singerlake.format.lines.messages import is_record_line
from singerlake.format.state.model import Manifest
from singerlake.format.state.selection import Slice
from singerlake.humanize import cut
from singerlake.stream import LakeStream

_FILES = 5
"""Files that are looked into: the newest may hold messages and no record."""
_MESSAGES = 200
"""Messages at the end of a file that are looked at, so that a large one is not read whole."""
PROPERTIES = 60
_VALUE, _NAME = 80, 120
"""Characters that are shown of a value, of a property's name."""


@dataclass(frozen=True, slots=True)
class Samples:
    """``rows``: a property's name and its value in each record, None where the record has none; the newest record comes
    first. ``left_out`` counts properties beyond ``PROPERTIES``."""

    records: int
    rows: tuple[tuple[str, tuple[str | None, ...]], ...]
    left_out: int = 0


def take_samples(stream: LakeStream, manifest: Manifest, count: int) -> Samples:
    """The newest ``count`` records. Raises ``MissingFileError``, ``BrokenFileError`` and what storage raises."""
    records: list[dict[str, Any]] = []
    for file in list(reversed(manifest.files[-_FILES:])):
        if len(records) >= count:
            break
        records += reversed(_last(stream, Slice(file, max(0, file.messages - _MESSAGES)), count - len(records)))
    return samples_of(records)


def samples_of(records: list[dict[str, Any]]) -> Samples:
    """Records as rows of texts. Pure."""
    names = list(dict.fromkeys(name for record in records for name in record))
    rows = tuple(
        (cut(name, _NAME), tuple(_text(record[name]) if name in record else None for record in records))
        for name in names[:PROPERTIES]
    )
    return Samples(len(records), rows, max(0, len(names) - PROPERTIES))


def _last(stream: LakeStream, part: Slice, count: int) -> list[dict[str, Any]]:
    lines: deque[bytes] = deque(maxlen=count)
    for block in stream.read(part):
        lines.extend(line for line in block.data.split(b"\n") if line and is_record_line(line))
    return list(_records(lines))


def _records(lines: deque[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        # json takes what Python-made taps write and strict readers refuse: NaN, lone surrogates.
        try:
            record = json.loads(line).get("record")
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


def _text(value: Any) -> str:
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _VALUE)
