"""The options of ``df.write.format("singerlake")``, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from singerlake.adapters import MANIFEST_STORES
from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.lock_file import LockSettings
from singerlake.settings import SNAPSHOT_SETTINGS, STORE_SETTINGS, storage_settings, store_settings
from singerlake.spark.options import absolute, checked, named_as_options, names, storage, whole

OPTIONAL = (
    "key_properties",
    "manifest_store",
    "compression_level",
    "max_file_bytes",
    "max_file_records",
    "spool_dir",
    "lock_max_wait_seconds",
    "lock_stale_after_seconds",
    "lock_refresh_seconds",
)
_LOCK = LockSettings()


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """Where and how to write. ``path`` is the lake root, absolute where it is local; ``storage`` and ``stores`` hold
    the options of S3 and of the manifest stores under the names of the plugins' settings, secrets among them, and are
    not shown. ``max_file_bytes`` (compressed) and ``max_file_records`` of 0 mean no limit."""

    path: str
    tap: str
    stream: str
    key_properties: tuple[str, ...] = ()
    manifest_store: str | None = None
    compression_level: int = 1
    max_file_bytes: int = 128 << 20
    max_file_records: int = 0
    spool_dir: str | None = None
    lock: LockSettings = field(default_factory=LockSettings)
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)
    stores: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @named_as_options()
    def lake(self) -> Lake:
        """The lake these options name, whether it is there or not."""
        return Lake.open(self.path, storage_settings(self.storage), store_settings(self.stores))


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options as Spark passes them, names in any case. Raises ``SettingError`` naming the option."""
    options = checked(given, (*OPTIONAL, *STORE_SETTINGS, *SNAPSHOT_SETTINGS))
    keys = names("key_properties", options) or ()
    if len(set(keys)) != len(keys):
        raise SettingError("option 'key_properties' names a column twice", hint="name it once")
    return WriteOptions(
        path=absolute(options["path"]),
        tap=options["tap"],
        stream=options["stream"],
        key_properties=keys,
        manifest_store=_manifest_store(options.get("manifest_store", "")),
        compression_level=whole("compression_level", options, default=1, least=1, most=9),
        max_file_bytes=whole("max_file_bytes", options, default=128 << 20, least=0),
        max_file_records=whole("max_file_records", options, default=0, least=0),
        spool_dir=options.get("spool_dir", "").strip() or None,
        lock=LockSettings(
            max_wait=whole("lock_max_wait_seconds", options, default=int(_LOCK.max_wait), least=0),
            stale_after=whole("lock_stale_after_seconds", options, default=int(_LOCK.stale_after), least=1),
            refresh=whole("lock_refresh_seconds", options, default=int(_LOCK.refresh), least=1),
        ),
        storage=storage(options),
        stores={name: options[name] for name in (*STORE_SETTINGS, *SNAPSHOT_SETTINGS) if name in options},
    )


def _manifest_store(text: str) -> str | None:
    kind = text.strip().lower()
    if kind and kind not in MANIFEST_STORES:
        known = ", ".join(MANIFEST_STORES)
        raise SettingError(f"option 'manifest_store' is not one of {known}", hint="leave it out for the lake's own")
    return kind or None
