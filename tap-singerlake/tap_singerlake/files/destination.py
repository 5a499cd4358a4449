"""The setting ``include_files``: where copies of attached files go."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from singerlake.adapters import open_storage
from singerlake.errors import SettingError
from singerlake.settings import setting
from singerlake.storage.port import Storage
from singerlake.storage.settings import StorageSettings
from tap_singerlake.error_settings import place_of

SETTING: dict[str, Any] = setting(
    "string",
    "Include files",
    "Copy the files that are attached to records there before the STATE that follows the records: a folder, or "
    "`s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`. The lake's settings of storage are used. "
    "Default: files stay in the lake.",
)
"""JSON Schema of the setting."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A place for copies. Errors of ``storage`` within ``named`` name the setting."""

    storage: Storage

    def url(self, key: str) -> str:
        """What lies at ``key`` as a URL, or as a path of this machine."""
        return f"{self.storage.url.rstrip('/')}/{key}"

    def named(self) -> AbstractContextManager[None]:
        """Errors within are those of ``include_files``, not of the lake."""
        return place_of("include_files")


def destination(value: Any, settings: StorageSettings, lake: Storage) -> Destination | None:
    """Where the setting says; None where it is not set. Raises ``SettingError``, also for a place in ``lake``."""
    if value is None or not str(value).strip():
        return None
    with place_of("include_files"):
        storage = open_storage(str(value), settings)
    inside, outside = (_compared(each.url) for each in (storage, lake))
    if inside == outside or inside.startswith(outside.rstrip("/") + "/"):
        raise SettingError(
            "include_files is a place in the lake", hint="set it to a place outside of it", include_files=storage.url
        )
    return Destination(storage)


def _compared(url: str) -> str:
    return url if "://" in url else os.path.realpath(url)
