"""Which adapter a setting means: the only place that names concrete storages and manifest stores."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from singerlake.clock import Clock, IdSource, SystemClock, random_id
from singerlake.errors import SettingError
from singerlake.format import layout
from singerlake.manifests.lockfile import LockfileStore
from singerlake.manifests.numbered import NumberedStore
from singerlake.manifests.object_log import ObjectLog
from singerlake.manifests.port import ManifestStore
from singerlake.settings import StoreSettings
from singerlake.storage.local import LocalStorage
from singerlake.storage.patience import PATIENCE_SECONDS
from singerlake.storage.port import Storage

if TYPE_CHECKING:
    from singerlake.manifests.dynamodb_client import DynamoTable
    from singerlake.storage.s3 import S3Settings

MANIFEST_STORES = ("lockfile", "log", "dynamodb", "postgres", "merge")
"""The kinds of manifest store; the first is the default."""
DEFAULT_STORE = MANIFEST_STORES[0]
ON_THE_LAKE = ("lockfile", "log", "merge")
"""Those whose whole state is on the lake, so that readers need no settings."""


def open_storage(
    lake_root: str, settings: S3Settings | None = None, *, clock: Clock | None = None, ids: IdSource = random_id
) -> Storage:
    """The storage a lake root names: a path, ``file://...`` or ``s3://bucket/prefix``. Raises ``SettingError``."""
    clock = clock or SystemClock()
    if not lake_root or not lake_root.strip():
        raise SettingError("lake_root is empty", hint="set it to a path or to s3://bucket/prefix")
    if lake_root.startswith("$") or "${" in lake_root:
        raise SettingError(
            "lake_root holds a variable that nothing replaced",
            hint="set the variable, or write the path itself",
            lake_root=lake_root,
        )
    scheme = urlsplit(lake_root).scheme if "://" in lake_root else ""
    if scheme == "s3":
        bucket, _, prefix = lake_root[len("s3://") :].partition("/")
        if "@" in bucket or ":" in bucket:
            raise SettingError(
                "lake_root holds credentials or a port",
                hint="write s3://bucket/prefix; set aws_access_key_id and its secret, or s3_endpoint_url",
            )
        if not bucket:
            raise SettingError("lake_root names no bucket", hint="write s3://bucket/prefix", lake_root=lake_root)
        from singerlake.storage.s3 import S3Settings, S3Storage

        return S3Storage(bucket, prefix.strip("/"), settings or S3Settings(), clock=clock, ids=ids)
    if scheme == "file":
        return LocalStorage(Path(unquote(urlsplit(lake_root).path)), clock=clock, ids=ids)
    if scheme:
        raise SettingError(
            "lake_root has a scheme nobody here knows", hint="use a path or s3://bucket/prefix", scheme=scheme
        )
    return LocalStorage(Path(lake_root).expanduser(), clock=clock, ids=ids)


def open_store(
    kind: str,
    storage: Storage,
    tap: str,
    stream: str,
    *,
    settings: StoreSettings,
    s3: S3Settings | None,
    lake_id: Callable[[str], str],
    clock: Clock,
    ids: IdSource,
) -> ManifestStore:
    """The manifest store of one stream. ``s3`` has the credentials for DynamoDB, and the patience with both databases;
    ``lake_id`` gives the identity of a lake that uses this kind, which databases alone ask for. Raises
    ``SettingError``; a driver's absence is one."""
    if kind == "lockfile":
        return LockfileStore(storage, tap, stream)
    if kind == "log":
        return NumberedStore(kind, ObjectLog(storage, tap, stream, ids), storage, tap, stream, clock)
    if kind == "merge":
        from singerlake.manifests.merge import MergeStore
        from singerlake.manifests.merge_settings import MergeSettings

        times = MergeSettings(stale=settings.merge_stale_seconds)
        return MergeStore(storage, tap, stream, settings=times, clock=clock, ids=ids)
    if kind not in MANIFEST_STORES:
        raise SettingError(
            f"manifest_store {kind!r} is not known to this version", hint=f"use one of: {', '.join(MANIFEST_STORES)}"
        )
    if kind == "postgres" and not settings.postgres_url:
        raise SettingError(
            "the manifest store postgres needs postgres_url",
            hint="set postgres_url, for the command singerlake as $SINGERLAKE_POSTGRES_URL",
        )
    table_id = f"{lake_id(kind)}/{layout.tap_segment(tap)}/{layout.stream_segment(stream)}"
    if kind == "postgres":
        from singerlake.manifests.postgres import PostgresStore

        return PostgresStore(
            storage,
            tap,
            stream,
            table_id=table_id,
            url=settings.postgres_url or "",
            schema=settings.postgres_schema,
            patience_seconds=s3.patience_seconds if s3 is not None else PATIENCE_SECONDS,
            clock=clock,
            ids=ids,
        )
    from singerlake.manifests.dynamodb_log import DynamoLog

    table = _table(settings.dynamodb_table, s3, settings.dynamodb_endpoint_url, clock)
    log = DynamoLog(storage, table, table_id=table_id, tap=tap, stream=stream, ids=ids)
    return NumberedStore(kind, log, storage, tap, stream, clock)


@lru_cache(maxsize=8)
def _table(name: str, s3: S3Settings | None, endpoint_url: str | None, clock: Clock) -> DynamoTable:
    """One client for all streams of a lake: making one takes longer than a commit."""
    from singerlake.manifests.dynamodb_client import DynamoTable

    return DynamoTable(name, s3, endpoint_url=endpoint_url, clock=clock)
