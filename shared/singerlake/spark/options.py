"""The options of ``spark.read.format("singerlake")``, checked before anything is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from singerlake.arrow.request import Mode, Request
from singerlake.arrow.splits import TARGET_BYTES
from singerlake.errors import SettingError
from singerlake.settings import S3_SETTINGS

REQUIRED = {
    "path": "the lake's root, a path or s3://bucket/prefix: lake_root of the plugins",
    "tap": "the tap_id whose data to read",
    "stream": "the stream's name",
}
"""Name -> what it means."""
OPTIONAL = (
    "from_version",
    "versions",
    "from_offset",
    "to_offset",
    "columns",
    "metadata",
    "mode",
    "partition_bytes",
)
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True)
class ReadOptions:
    """Where and what to read. ``path`` is the lake root, absolute where it is local; ``storage`` holds the ``aws_*``
    and ``s3_*`` options under the names of the plugins' settings, secrets among them, and is not shown."""

    path: str
    tap: str
    stream: str
    request: Request = field(default_factory=Request)
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
        request=Request(
            from_version=options.get("from_version", "").strip() or None,
            versions=_names("versions", options),
            from_offset=_offset("from_offset", options),
            to_offset=_offset("to_offset", options),
            columns=_names("columns", options),
            metadata=_truth("metadata", options.get("metadata", "false")),
            mode=_mode(options.get("mode", Mode.PERMISSIVE.value)),
            partition_bytes=_size("partition_bytes", options.get("partition_bytes", str(TARGET_BYTES))),
        ),
        storage={
            name: _truth(name, options[name]) if "boolean" in described["type"] else options[name]
            for name, described in S3_SETTINGS.items()
            if name in options
        },
    )


def _absolute(path: str) -> str:
    """A local path independent of the working folder, which tasks do not share with the driver."""
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))


def _names(option: str, options: Mapping[str, str]) -> tuple[str, ...] | None:
    """Names between commas, or, for names that hold commas or spaces of their own, a JSON array of strings."""
    text = options.get(option)
    if text is None:
        return None
    if text.lstrip().startswith("["):
        try:
            return msgspec.json.decode(text, type=tuple[str, ...])
        except msgspec.DecodeError as error:
            raise SettingError(
                f"option {option!r} is no JSON array of strings: {error}", hint='write ["a","b"], or a,b'
            ) from None
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _offset(option: str, options: Mapping[str, str]) -> int | None:
    text = options.get(option)
    if text is None:
        return None
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()):
        raise SettingError(f"option {option!r} is no offset", hint="write a record offset in digits, as 120000")
    return int(digits)


def _mode(text: str) -> Mode:
    try:
        return Mode(text.strip().upper())
    except ValueError:
        known = ", ".join(mode.value for mode in Mode)
        raise SettingError(f"option 'mode' is not one of {known}", hint=f"set it to one of {known}") from None


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
