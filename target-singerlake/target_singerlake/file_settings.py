"""The settings of attached files: their JSON Schema, and their typed values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from singerlake.attached.property_path import Path, parse_path
from singerlake.attached.sources.locations import Allowed
from singerlake.errors import SettingError
from singerlake.settings import setting

MOST_THREADS = 32
_LONGEST_PROPERTY = 1000
"""Characters: the property stands in each row."""

Holds = Literal["location", "base64"]

FILE_SETTINGS: dict[str, dict[str, Any]] = {
    "file_properties": setting(
        "object",
        "Properties with files",
        "Which properties name files or hold their bytes: for each stream an object of property to `location` or "
        '`base64`, such as `{"users": {"photo": "location", "scans[*].url": "location"}}`. The target keeps '
        "these files in the lake.",
        additionalProperties={
            "type": "object",
            "additionalProperties": {"type": "string", "enum": ["location", "base64"]},
        },
    ),
    "file_sources": setting(
        "array",
        "Allowed sources of files",
        "From where files may be read: absolute folders, `s3://bucket/prefix`, `gs://bucket/prefix`, "
        "`az://container/prefix` and `https://host/path`. Default: from nowhere.",
        items={"type": "string"},
    ),
    "file_private_addresses": setting(
        "boolean",
        "Hosts with private addresses",
        "Also read from `https://` hosts of `file_sources` whose addresses are not of the public internet.",
        default=False,
    ),
    "on_missing_file": setting(
        "string",
        "File that cannot be read",
        "What to do about a file that cannot be read or is not allowed: `fail` ends the run, `record` lists the file "
        "without its bytes and goes on.",
        default="fail",
        enum=["fail", "record", None],
    ),
    "max_attached_bytes": setting(
        "integer",
        "Bytes of a kept file",
        "A larger file counts as one that cannot be read.",
        default=5 << 30,
        minimum=1,
    ),
    "file_timeout_seconds": setting(
        "integer",
        "Time for a kept file",
        "A file counts as one that cannot be read when reading it takes longer than this.",
        default=300,
        minimum=1,
    ),
    "file_threads": setting(
        "integer",
        "Threads that keep files",
        "How many files are read and uploaded at once.",
        default=8,
        minimum=1,
        maximum=MOST_THREADS,
    ),
}


@dataclass(frozen=True, slots=True)
class FileProperty:
    """A property that has files. ``name`` is how the setting writes it, ``path`` leads to it from the record."""

    name: str
    path: Path
    holds: Holds


@dataclass(frozen=True, kw_only=True)
class FileSettings:
    """What becomes of attached files. ``properties`` are those of each stream, in the order of the rows; seconds and
    bytes are as the schema above says. ``without_effect`` are the other settings of files that are set although no
    stream has properties with files."""

    properties: Mapping[str, Sequence[FileProperty]]
    allowed: Allowed
    private_addresses: bool
    record_missing: bool
    most_bytes: int
    seconds: int
    threads: int
    without_effect: Sequence[str] = ()


def file_settings(value: Callable[[str], Any]) -> FileSettings:
    """Typed settings; ``value`` gives a validated setting by its name. Raises ``SettingError``."""
    properties = {
        stream: [_property(stream, name, holds) for name, holds in named.items()]
        for stream, named in (value("file_properties") or {}).items()
    }
    properties = {stream: each for stream, each in properties.items() if each}
    return FileSettings(
        properties=properties,
        allowed=Allowed.parse(value("file_sources") or ()),
        private_addresses=value("file_private_addresses"),
        record_missing=value("on_missing_file") == "record",
        most_bytes=value("max_attached_bytes"),
        seconds=value("file_timeout_seconds"),
        threads=value("file_threads"),
        without_effect=() if properties else _set_beside(value),
    )


def _set_beside(value: Callable[[str], Any]) -> list[str]:
    """The settings beside ``file_properties`` that are not at their defaults."""
    others = {name: each.get("default") for name, each in FILE_SETTINGS.items() if name != "file_properties"}
    return [name for name, default in others.items() if (value(name) or None) != (default or None)]


def _property(stream: str, name: str, holds: Holds) -> FileProperty:
    def refused(place: int) -> SettingError:
        return SettingError(
            f"file_properties has a property that is not a path, from character {place} on",
            hint='write for example photo, user.photo, photos[*].url or "odd name".x',
            stream=stream,
            property=name,
        )

    if len(name) > _LONGEST_PROPERTY or not name.isprintable():
        raise refused(1)
    return FileProperty(name, parse_path(name, refused), holds)
