"""Which adapter a setting means: the only place that names concrete storages and manifest stores."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from singerlake import open_file_lock
from singerlake.clock import Clock, IdSource, SystemClock, random_id
from singerlake.errors import SettingError
from singerlake.format import layout
from singerlake.manifests.lockfile import LockfileStore
from singerlake.manifests.log.objects import ObjectLog
from singerlake.manifests.numbered import NumberedStore
from singerlake.manifests.place import StreamPlace
from singerlake.manifests.port import ManifestStore
from singerlake.settings import StoreSettings
from singerlake.storage.local.storage import LocalStorage
from singerlake.storage.patience import PATIENCE_SECONDS
from singerlake.storage.port import Storage
from singerlake.storage.roots import BucketRoot, FolderRoot, parse_root
from singerlake.storage.settings import AnySettings, StorageSettings, together

if TYPE_CHECKING:
    from singerlake.manifests.dynamodb.client import DynamoTable
    from singerlake.storage.s3.settings import S3Settings

MANIFEST_STORES = ("lockfile", "log", "dynamodb", "postgres", "merge")
"""The kinds of manifest store; the first is the default."""
DEFAULT_STORE = MANIFEST_STORES[0]
ON_THE_LAKE = ("lockfile", "log", "merge")
"""Those whose whole state is on the lake, so that readers need no settings."""


def open_storage(
    lake_root: str,
    settings: StorageSettings | AnySettings | None = None,
    *,
    clock: Clock | None = None,
    ids: IdSource = random_id,
) -> Storage:
    """The storage a lake root names, as ``parse_root`` reads it. Raises ``SettingError``."""
    clock = clock or SystemClock()
    root, every = parse_root(lake_root), together(settings)
    if isinstance(root, FolderRoot):
        if not open_file_lock.AVAILABLE:
            raise SettingError(
                "a lake on a local disk needs file locks (flock), which this system does not have",
                hint="set lake_root to a bucket or a container, or run under WSL",
                lake_root=lake_root,
            )
        return LocalStorage(root.path, clock=clock, ids=ids)
    if isinstance(root, BucketRoot):
        from singerlake.storage.s3.storage import S3Storage

        return S3Storage(root.bucket, root.prefix, every.s3, clock=clock, ids=ids)
    try:
        azure_is_there = find_spec("azure.storage.blob") is not None
    except ModuleNotFoundError:
        azure_is_there = False
    if not azure_is_there:
        raise SettingError(
            "lake_root is on Azure Blob Storage, and its library is not installed",
            hint="run pip install 'singerlake[azure]'",
            lake_root=lake_root,
        )
    from singerlake.storage.azure.driver import AzureDriver
    from singerlake.storage.clouds.storage import CloudStorage

    patience = every.azure.patience_seconds
    driver = AzureDriver(root.container, root.prefix, every.azure, account_host=root.account_host)
    return CloudStorage(driver, probe_max_wait=patience, patience_seconds=patience, clock=clock, ids=ids)


def open_store(
    kind: str,
    place: StreamPlace,
    *,
    settings: StoreSettings,
    s3: S3Settings | None,
    lake_id: Callable[[], str],
    known_lake_id: str | None = None,
) -> ManifestStore:
    """The manifest store of one stream. ``s3`` has the credentials for DynamoDB, and the patience with both databases.
    ``lake_id`` gives the lake's identity, which only the databases ask for; ``known_lake_id`` is the same if it is
    already known. Raises ``SettingError``, also where a driver is missing."""
    storage, tap, stream, clock, ids = place.storage, place.tap, place.stream, place.clock, place.ids
    if kind == "lockfile":
        return LockfileStore(storage, tap, stream, lake_id=known_lake_id)
    if kind == "log":
        return NumberedStore(
            kind, ObjectLog(storage, tap, stream, ids), storage, tap, stream, clock, lake_id=known_lake_id
        )
    if kind == "merge":
        from singerlake.manifests.merge.settings import MergeSettings
        from singerlake.manifests.merge.store import MergeStore

        times = MergeSettings(stale=settings.merge_stale_seconds)
        return MergeStore(storage, tap, stream, settings=times, clock=clock, ids=ids, lake_id=known_lake_id)
    if kind not in MANIFEST_STORES:
        raise SettingError(
            f"manifest_store {kind!r} is not known to this version", hint=f"use one of: {', '.join(MANIFEST_STORES)}"
        )
    if kind == "postgres" and not settings.postgres_url:
        raise SettingError(
            "the manifest store postgres needs postgres_url",
            hint="set postgres_url, for the command singerlake as $SINGERLAKE_POSTGRES_URL",
        )
    own_id = lake_id()
    table_id = f"{own_id}/{layout.tap_segment(tap)}/{layout.stream_segment(stream)}"
    if kind == "postgres":
        from singerlake.manifests.postgres.settings import PostgresSettings
        from singerlake.manifests.postgres.store import PostgresStore

        tables = PostgresSettings(
            url=settings.postgres_url or "",
            schema=settings.postgres_schema,
            patience_seconds=s3.patience_seconds if s3 is not None else PATIENCE_SECONDS,
        )
        return PostgresStore(place, tables, table_id=table_id, lake_id=own_id)
    from singerlake.manifests.dynamodb.log import DynamoLog

    table = _table(settings.dynamodb_table, s3, settings.dynamodb_endpoint_url, clock)
    log = DynamoLog(storage, table, table_id=table_id, tap=tap, stream=stream, ids=ids)
    return NumberedStore(kind, log, storage, tap, stream, clock, lake_id=own_id)


@lru_cache(maxsize=8)
def _table(name: str, s3: S3Settings | None, endpoint_url: str | None, clock: Clock) -> DynamoTable:
    """One client for all streams of a lake: making one takes longer than a commit."""
    from singerlake.manifests.dynamodb.client import DynamoTable

    return DynamoTable(name, s3, endpoint_url=endpoint_url, clock=clock)
