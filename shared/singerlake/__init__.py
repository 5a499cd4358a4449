"""A raw data lake for Singer and Meltano pipelines.

A lake holds taps, a tap holds streams, and a stream is an ordered log of messages in files::

    from singerlake import Lake

    lake = Lake.open("lake")                    # or "s3://bucket/prefix", "gs://...", "az://..."
    for tap in lake.taps():
        for name in lake.streams(tap):
            manifest = lake.stream(tap, name).snapshot()
            print(tap, name, manifest.next_offset, "messages")

    lake.existing_stream("my-tap", "users").to_arrow().read_all().to_pandas()
    lake.project(all=True)                      # a table of every stream
    lake.table("users").to_arrow().read_all().to_pandas()

What goes wrong is a ``SingerlakeError``. Its subclasses are grouped by what the caller does next (``errors.py``).
"""

# ruff: noqa: F403, F405  (each error is named once, in __all__)

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import version

    from singerlake.adapters import CreatedStore, create_store
    from singerlake.aws.settings import S3Settings
    from singerlake.errors import *
    from singerlake.format.decision import Brought
    from singerlake.format.state.attached import Attached
    from singerlake.lake import Lake
    from singerlake.lock_file import LockSettings
    from singerlake.settings import StoreSettings
    from singerlake.singer_file import Block
    from singerlake.site.build import build_site
    from singerlake.storage.drivers.azure.settings import AzureSettings
    from singerlake.storage.drivers.gcs.settings import GcsSettings
    from singerlake.storage.settings import StorageSettings
    from singerlake.stores.atomic.decisions import Commit
    from singerlake.stores.atomic.view import StreamView
    from singerlake.stream import LakeStream
    from singerlake.tables.project import ProjectedTable
    from singerlake.tables.read import LakeTable

    __version__ = version("singerlake")

_FROM = {
    "Attached": "singerlake.format.state.attached",
    "AzureSettings": "singerlake.storage.drivers.azure.settings",
    "Block": "singerlake.singer_file",
    "Brought": "singerlake.format.decision",
    "build_site": "singerlake.site.build",
    "create_store": "singerlake.adapters",
    "Commit": "singerlake.stores.atomic.decisions",
    "CreatedStore": "singerlake.adapters",
    "GcsSettings": "singerlake.storage.drivers.gcs.settings",
    "Lake": "singerlake.lake",
    "LakeStream": "singerlake.stream",
    "LakeTable": "singerlake.tables.read",
    "LockSettings": "singerlake.lock_file",
    "ProjectedTable": "singerlake.tables.project",
    "S3Settings": "singerlake.aws.settings",
    "StorageSettings": "singerlake.storage.settings",
    "StoreSettings": "singerlake.settings",
    "StreamView": "singerlake.stores.atomic.view",
}
"""Where what is not an error comes from. Each is imported when it is first asked for: commands must start quickly."""

__all__ = [
    "AccessDeniedError",
    "Attached",
    "AzureSettings",
    "Block",
    "BrokenFileError",
    "Brought",
    "ChangedFileError",
    "CheckFailedError",
    "Commit",
    "CommitRefusedError",
    "ConditionNotSupportedError",
    "ConditionsUnprovenError",
    "ConfigurationError",
    "CorruptObjectError",
    "CreatedStore",
    "ExpiredMessagesError",
    "ForeignManifestError",
    "GcsSettings",
    "InputError",
    "InvalidMessageError",
    "InvalidSchemaError",
    "Lake",
    "LakeError",
    "LakeStream",
    "LakeTable",
    "LineageChangedError",
    "LockSettings",
    "LockTimeoutError",
    "LostBookmarkError",
    "LostStateError",
    "MissingFileError",
    "NameTooLongError",
    "NoSuchBucketError",
    "NotALakeError",
    "ProjectedTable",
    "RetryableError",
    "S3Settings",
    "SchemaChangeError",
    "SettingError",
    "SingerlakeError",
    "StorageFullError",
    "StorageSettings",
    "StorageUnavailableError",
    "StoreSettings",
    "StreamClosedError",
    "StreamView",
    "TooManyConflictsError",
    "TruncatedInputError",
    "UnexpectedError",
    "UnknownNameError",
    "UnknownOutcomeError",
    "UnreadableSourceError",
    "UnsupportedFormatError",
    "ValueDoesNotFitError",
    "__version__",
    "build_site",
    "create_store",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("singerlake")
    if name in __all__:
        return getattr(import_module(_FROM.get(name, "singerlake.errors")), name)
    raise AttributeError(f"module 'singerlake' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
