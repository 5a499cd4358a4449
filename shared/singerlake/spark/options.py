"""The options of ``spark.read.format("singerlake")``, checked before anything is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from singerlake.arrow.splits import TARGET_BYTES
from singerlake.errors import SettingError
from singerlake.settings import S3_SETTINGS

REQUIRED = {
    "path": "the lake's root, a path or s3://bucket/prefix: lake_root of the plugins",
    "tap": "the tap_id whose data to read",
    "stream": "the stream's name",
}
"""Name -> what it means."""
OPTIONAL = ("from_version", "versions", "metadata", "partition_bytes")
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True)
class ReadOptions:
    """What to read. ``path`` is the lake root, absolute where it is local; ``storage`` holds the ``aws_*`` and ``s3_*``
    options under the names of the plugins' settings, secrets among them, and is not shown."""

    path: str
    tap: str
    stream: str
    from_version: str | None = None
    versions: tuple[str, ...] | None = None
    metadata: bool = False
    partition_bytes: int = TARGET_BYTES
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """The options as Spark passes them, names in any case. Raises ``SettingError`` naming the option."""
    options = {name.lower(): value for name, value in given.items()}
    known = (*REQUIRED, *OPTIONAL, *S3_SETTINGS)
    for name in options:
        if name not in known:
            raise SettingError(f"option {name!r} is not known", hint=f"use one of: {', '.join(known)}")
    for name, meaning in REQUIRED.items():
        if not options.get(name, "").strip():
            raise SettingError(f"option {name!r} is missing", hint=f"set .option({name!r}, ...): {meaning}")
    return ReadOptions(
        path=_absolute(options["path"].strip()),
        tap=options["tap"],
        stream=options["stream"],
        from_version=options.get("from_version", "").strip() or None,
        versions=_names(options.get("versions")),
        metadata=_truth("metadata", options.get("metadata", "false")),
        partition_bytes=_size("partition_bytes", options.get("partition_bytes", str(TARGET_BYTES))),
        storage={
            name: _truth(name, options[name]) if "boolean" in described["type"] else options[name]
            for name, described in S3_SETTINGS.items()
            if name in options
        },
    )


def _absolute(path: str) -> str:
    """A local path independent of the working folder, which tasks do not share with the driver."""
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))


def _names(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise SettingError("option 'versions' names no version", hint="write labels or hashes, as in 'v1,v3'")
    return names


def _truth(name: str, text: str) -> bool:
    value = _TRUTH.get(text.strip().lower())
    if value is None:
        raise SettingError(f"option {name!r} is neither true nor false", hint="write 'true' or 'false'")
    return value


def _size(name: str, text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and int(digits)):
        raise SettingError(f"option {name!r} is no positive number of bytes", hint="write it in digits, as 67108864")
    return int(digits)
