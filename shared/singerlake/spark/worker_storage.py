"""The storage of a lake, in a Python worker of Spark: one for all of its tasks, since Spark uses a worker again and a
client of S3 takes a while to make."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from singerlake.adapters import open_storage
from singerlake.errors import NotALakeError
from singerlake.format import layout
from singerlake.settings import storage_settings

if TYPE_CHECKING:
    from singerlake.storage.port import Storage
    from singerlake.storage.settings import StorageSettings


@lru_cache(maxsize=8)
def task_storage(path: str, settings: tuple[tuple[str, Any], ...]) -> Storage:
    return open_storage(path, storage_settings(dict(settings)))


def worker_storage(url: str, settings: StorageSettings | None) -> Storage:
    """The storage of a lake. Raises ``NotALakeError`` where the lake is not there."""
    storage = _storage(url, settings)
    require_lake(storage, url)
    return storage


def require_lake(storage: Storage, url: str) -> None:
    """Raise ``NotALakeError`` where the lake is not there."""
    if not storage.list_folder(f"{layout.RAW}/").folders:
        raise NotALakeError(
            "nothing here is a lake, on the machine that runs this task",
            hint="a local path has to be the same folder on the driver and all workers; or use s3://",
            path=url,
        ) from None


@lru_cache(maxsize=8)
def _storage(url: str, settings: StorageSettings | None) -> Storage:
    return open_storage(url, settings)
