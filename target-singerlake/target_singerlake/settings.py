"""The target's settings: their JSON Schema, and their typed values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from singerlake.adapters import MANIFEST_STORES
from singerlake.attached.property_path import Path, parse_path
from singerlake.attached.sources.locations import Allowed
from singerlake.errors import SettingError
from singerlake.lock_file import LockSettings
from singerlake.settings import (
    LAKE_ROOT,
    SNAPSHOT_SETTINGS,
    STORAGE_SETTINGS,
    STORE_SETTINGS,
    number_setting,
    setting,
    text_setting,
    truth_setting,
    unread,
    unread_variables,
)
from singerlake.stores.queued.settings import QUEUE_SETTINGS, URL, QueueSettings, queue_settings
from singerlake.work.machine import processors

PLUGIN = "target-singerlake"
EXTRACTOR_NAME = "MELTANO_EXTRACTOR_NAME"
"""The environment variable in which Meltano gives a loader the name of its tap."""
_LOCK = LockSettings()
MEMORY_BYTES = 96 << 20
"""``max_memory_bytes`` by default: 200 streams then have members of half a megabyte."""
MOST_THREADS = 4
"""Threads that compress by default: at level 1, two keep up with the one that reads."""

MOST_FILE_THREADS = 32
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
    "file_private_addresses": truth_setting(
        "Hosts with private addresses",
        "Also read from `https://` hosts of `file_sources` whose addresses are not of the public internet.",
        default=False,
    ),
    "on_missing_file": text_setting(
        "File that cannot be read",
        "What to do about a file that cannot be read or is not allowed: `fail` ends the run, `record` lists the file "
        "without its bytes and goes on.",
        default="fail",
        enum=["fail", "record", None],
    ),
    "max_attached_bytes": number_setting(
        "Bytes of a kept file", "A larger file counts as one that cannot be read.", default=5 << 30, minimum=1
    ),
    "file_timeout_seconds": number_setting(
        "Time for a kept file",
        "A file counts as one that cannot be read when reading it takes longer than this.",
        default=300,
        minimum=1,
    ),
    "file_threads": number_setting(
        "Threads that keep files",
        "How many files are read and uploaded at once.",
        default=8,
        minimum=1,
        maximum=MOST_FILE_THREADS,
    ),
}

PROPERTIES: dict[str, dict[str, Any]] = {
    "lake_root": LAKE_ROOT,
    "tap_id": text_setting(
        "Tap id",
        "The name under which the lake keeps the tap's streams. Default: the extractor's name, which Meltano gives in "
        f"`${EXTRACTOR_NAME}`.",
    ),
    "manifest_store": text_setting(
        "Manifest store",
        "How writers of one stream agree. Default: the lake's own, `lockfile` for a new lake.",
        enum=[*MANIFEST_STORES, None],
    ),
    "max_file_records": number_setting(
        "Records per file", "Close a file at this many records; 0: never.", default=0, minimum=0
    ),
    "max_file_bytes": number_setting(
        "Bytes per file",
        "Close a file once its compressed bytes reach this; 0: never. A file may be about a megabyte "
        "larger, because that much is compressed at once.",
        default=128 << 20,
        minimum=0,
    ),
    "max_file_age_seconds": number_setting(
        "Age of a file",
        "Commit a file this many seconds after its first record, even if the tap sends nothing; 0: never.",
        default=300,
        minimum=0,
    ),
    "max_memory_bytes": number_setting(
        "Memory for buffers",
        "The most raw bytes that wait in memory to be compressed, or are being compressed, for all streams together. "
        "Each stream counts as 32 KiB of it, all streams as a third at most.",
        default=MEMORY_BYTES,
        minimum=1 << 20,
    ),
    "compression_level": number_setting(
        "Compression level",
        "Level of gzip: 1 to 3 are fast (ISA-L), 4 to 9 give smaller files and are much slower (zlib).",
        default=1,
        minimum=1,
        maximum=9,
    ),
    "compress_threads": number_setting(
        "Threads that compress",
        "How many parts of files are compressed at once. Default: as many as the process has processors, at most "
        f"{MOST_THREADS}.",
        minimum=1,
    ),
    "atomic_run": truth_setting(
        "Atomic run",
        "Show readers all that a run brings, to all its streams, at once when the run ends, or nothing if it fails. "
        "Needs the manifest store `log`, `postgres` or `dynamodb` (there for at most 49 streams a run).",
        default=False,
    ),
    "validate_records": truth_setting(
        "Validate records",
        "Stop at a record that does not match its JSON Schema, of whichever draft. `format` is not checked, and no "
        "document is fetched for a `$ref`. Stored records stay as the tap wrote them.",
        default=False,
    ),
    "invalid_records": setting(
        "string",
        "Invalid records",
        "What is done with a record that does not match its schema, or has no key: `fail` stops the run, `quarantine` "
        "keeps the record in the stream `STREAM__quarantine` of the same tap, and the run goes on. `quarantine` looks "
        "at every record, as `validate_records` does.",
        enum=["fail", "quarantine"],
        default="fail",
    ),
    "schema_changes": setting(
        "object",
        "Changes of schemas",
        'What the schema of a stream may become, by the stream\'s name or a pattern, such as `{"orders": "freeze", '
        '"*": "additive"}`: `evolve` any other one, `additive` one that has more properties and changes no other, '
        "`freeze` none. What breaks this is done with as `invalid_records` says. Default: any.",
        additionalProperties={"type": "string", "enum": ["evolve", "additive", "freeze"]},
    ),
    "add_record_metadata": truth_setting(
        "Add record metadata",
        "Add the `_sdc_*` properties to every record. Records are then written anew, which takes longer.",
        default=False,
    ),
    "spool_dir": text_setting(
        "Spool directory",
        "The folder in which files grow until they are uploaded. Files of killed runs are removed. Default: the "
        "system's temporary directory.",
    ),
    "lock_max_wait_seconds": number_setting(
        "Longest wait for a lock",
        "How long to wait for another live writer of the same stream and version.",
        default=int(_LOCK.max_wait),
        minimum=0,
    ),
    "lock_stale_after_seconds": number_setting(
        "A lock is stale after",
        "Take over a lock that was not refreshed for this long.",
        default=int(_LOCK.stale_after),
        minimum=1,
    ),
    "lock_refresh_seconds": number_setting(
        "Refresh of a lock", "How often a lock that is held is refreshed.", default=int(_LOCK.refresh), minimum=1
    ),
    **FILE_SETTINGS,
    **QUEUE_SETTINGS,
    **STORE_SETTINGS,
    **SNAPSHOT_SETTINGS,
    **STORAGE_SETTINGS,
}

SCHEMA: dict[str, Any] = {"type": "object", "properties": PROPERTIES, "required": ["lake_root"]}


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


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings that ingestion itself uses; bytes and seconds as the schema above says, 0: never."""

    lake_root: str
    tap_id: str
    manifest_store: str | None
    max_file_records: int
    max_file_bytes: int
    max_file_age_seconds: int
    max_memory_bytes: int
    compression_level: int
    compress_threads: int
    atomic_run: bool
    validate_records: bool
    invalid_records: Literal["fail", "quarantine"]
    schema_changes: Mapping[str, Literal["evolve", "additive", "freeze"]] | None
    add_record_metadata: bool
    spool_dir: str | None
    lock: LockSettings
    files: FileSettings
    queue: QueueSettings | None = None


def settings_of(config: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Settings:
    """Typed settings from a validated config; null and missing mean the default. Raises ``SettingError``."""

    def value(name: str) -> Any:
        chosen = config.get(name)
        return PROPERTIES[name].get("default") if chosen is None else chosen

    tap_id = config.get("tap_id")
    if not tap_id and unread_variables(PLUGIN, config, {"tap_id": {}}, environment):
        # Under the extractor's name the data would be appended to another tap's, and nothing takes it out again.
        raise SettingError(f"tap_id is not set: {unread(PLUGIN, ('tap_id',))}", hint="or unset the variable")
    tap_id = tap_id or environment.get(EXTRACTOR_NAME)
    if not tap_id:
        raise SettingError("tap_id is not set", hint=f"set tap_id, or run under Meltano, which gives ${EXTRACTOR_NAME}")
    queue = queue_settings(config)
    if queue is not None and value("atomic_run"):
        raise SettingError(
            f"atomic_run and {URL} exclude each other: an atomic run commits once, at its end, and decides by itself",
            hint=f"leave {URL} unset for this run, or atomic_run",
        )
    plain = {name: value(name) for name in Settings.__dataclass_fields__ if name in PROPERTIES}
    plain["lake_root"] = plain["lake_root"] or ""
    plain["tap_id"] = tap_id
    plain["compress_threads"] = plain["compress_threads"] or min(MOST_THREADS, processors())
    lock = LockSettings(
        max_wait=value("lock_max_wait_seconds"),
        stale_after=value("lock_stale_after_seconds"),
        refresh=value("lock_refresh_seconds"),
    )
    return Settings(**plain, lock=lock, files=file_settings(value), queue=queue)
