"""Which adapter a setting means: the only place that names concrete storages and manifest stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from singerlake import open_file_lock
from singerlake.clock import Clock, IdSource, SystemClock, random_id
from singerlake.errors import SettingError
from singerlake.format import layout
from singerlake.settings import StoreSettings
from singerlake.storage.local.storage import LocalStorage
from singerlake.storage.patience import PATIENCE_SECONDS, Patience
from singerlake.storage.port import Storage
from singerlake.storage.roots import FolderRoot, parse_root
from singerlake.storage.settings import AnySettings, StorageSettings, together
from singerlake.stores.lockfile import LockfileStore
from singerlake.stores.log import ObjectLog
from singerlake.stores.numbered import NumberedStore
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import ManifestStore
from singerlake.stores.publish import SnapshotSettings

if TYPE_CHECKING:
    from singerlake.aws.settings import S3Settings
    from singerlake.storage.cloud.storage import CloudStorage
    from singerlake.storage.drivers.azure.driver import AzureDriver
    from singerlake.storage.drivers.gcs.driver import GcsDriver
    from singerlake.stores.dynamodb.client import DynamoTable
    from singerlake.stores.dynamodb.tables import DynamoMarks
    from singerlake.stores.postgres.connection import PostgresSettings
    from singerlake.stores.postgres.marks import PostgresMarks
    from singerlake.stores.queued.settings import QueueSettings
    from singerlake.stores.queued.sqs import SqsQueue
    from singerlake.stores.queued.store import Sender

MANIFEST_STORES = ("lockfile", "log", "dynamodb", "postgres", "merge")
"""The kinds of manifest store; the first is the default."""
DEFAULT_STORE = MANIFEST_STORES[0]
ATOMIC_STORES = ("log", "dynamodb", "postgres")
"""Those that commit a run to several streams at once."""
ON_THE_LAKE = ("lockfile", "log", "merge")
"""Those whose whole state is on the lake, so that readers need no settings."""
IN_A_DATABASE = ("dynamodb", "postgres")
"""The others, which can arbitrate writers of tables, too."""


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
        return LocalStorage(root.path, clock=clock, ids=ids, fleeting=layout.is_lock)
    if root.scheme == "s3":
        return s3_storage(root.bucket, root.prefix, every.s3, clock=clock, ids=ids)
    from singerlake.storage.cloud.storage import CloudStorage

    driver: AzureDriver | GcsDriver
    if root.scheme == "az":
        _require("azure.storage.blob", "Azure Blob Storage", "azure")
        from singerlake.storage.drivers.azure.driver import AzureDriver

        driver = AzureDriver(root.bucket, root.prefix, every.azure, account_host=root.account_host)
        seconds = every.azure.patience_seconds
    else:
        _require("google.cloud.storage", "Google Cloud Storage", "gcs")
        from singerlake.storage.drivers.gcs.driver import GcsDriver

        driver = GcsDriver(root.bucket, root.prefix, every.gcs, ids=ids)
        seconds = every.gcs.patience_seconds
    return CloudStorage(driver, Patience(seconds, clock, place=driver.place), probe_max_wait=seconds, ids=ids)


def s3_storage(bucket: str, prefix: str, settings: S3Settings, *, clock: Clock, ids: IdSource) -> CloudStorage:
    """The storage below a prefix of a bucket of S3. Raises ``SettingError``."""
    from singerlake.storage.cloud.storage import CloudStorage
    from singerlake.storage.drivers.s3.driver import S3Driver

    driver = S3Driver(bucket, prefix, settings, clock)
    return CloudStorage(
        driver,
        driver.patience,
        probe_max_wait=settings.probe_max_wait,
        probe_setting="s3_probe_max_wait_seconds",
        ids=ids,
    )


def _require(module: str, cloud: str, extra: str) -> None:
    """Raises ``SettingError`` where the library of a cloud is not installed."""
    try:
        found = find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise SettingError(
            f"lake_root is on {cloud}, and its library is not installed",
            hint=f"run pip install 'singerlake[{extra}]'",
            module=module,
        )


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
    if kind == "lockfile":
        return LockfileStore(place.storage, place.tap, place.stream, lake_id=known_lake_id)
    snapshots = SnapshotSettings(transactions=settings.snapshot_transactions, minutes=settings.snapshot_minutes)
    if kind == "log":
        return NumberedStore(kind, ObjectLog(place), place, lake_id=known_lake_id, snapshots=snapshots)
    if kind == "merge":
        from singerlake.stores.merge.settings import MergeSettings
        from singerlake.stores.merge.store import MergeStore

        times = MergeSettings(stale=settings.merge_stale_seconds)
        return MergeStore(place, settings=times, lake_id=known_lake_id, snapshots=snapshots)
    if kind not in MANIFEST_STORES:
        raise SettingError(
            f"manifest_store {kind!r} is not known to this version", hint=f"use one of: {', '.join(MANIFEST_STORES)}"
        )
    postgres = _postgres(settings, s3) if kind == "postgres" else None
    own_id = lake_id()
    tap_id = f"{own_id}/{layout.tap_segment(place.tap)}"
    if postgres is not None:
        from singerlake.stores.postgres.store import PostgresStore

        table_id = f"{tap_id}/{layout.stream_segment(place.stream)}"
        return PostgresStore(place, postgres, table_id=table_id, lake_id=own_id, snapshots=snapshots)
    from singerlake.stores.dynamodb.store import DynamoStore

    table = _table(settings.dynamodb_table, s3, settings.dynamodb_endpoint_url, place.clock)
    return DynamoStore(
        place, table, tap_id=tap_id, lake_id=own_id, snapshots=snapshots, query_items=settings.dynamodb_query_items
    )


def open_marks(
    kind: str, *, settings: StoreSettings, s3: S3Settings | None, lake_id: str, clock: Clock
) -> DynamoMarks | PostgresMarks:
    """What says which state of each table of a lake is the newest, in the database of a manifest store of that kind.
    ``s3`` as in ``open_store``. Raises ``SettingError``, also where a driver is missing."""
    if kind == "postgres":
        from singerlake.stores.postgres.marks import PostgresMarks

        return PostgresMarks(_postgres(settings, s3), lake_id, clock)
    from singerlake.stores.dynamodb.tables import DynamoMarks

    return DynamoMarks(_table(settings.dynamodb_table, s3, settings.dynamodb_endpoint_url, clock), lake_id)


def _postgres(settings: StoreSettings, s3: S3Settings | None) -> PostgresSettings:
    from singerlake.stores.postgres.connection import PostgresSettings

    if not settings.postgres_url:
        raise SettingError(
            "the manifest store postgres needs postgres_url",
            hint="set postgres_url, for the command singerlake as $SINGERLAKE_POSTGRES_URL",
        )
    return PostgresSettings(
        url=settings.postgres_url,
        schema=settings.postgres_schema,
        patience_seconds=s3.patience_seconds if s3 is not None else PATIENCE_SECONDS,
    )


@dataclass(frozen=True, slots=True)
class CreatedStore:
    """What a manifest store of that ``kind`` needs, and what is there now: a table of DynamoDB, whose ARN is ``name``,
    with the least ``policy`` of IAM; or a schema of PostgreSQL. ``before`` and ``after`` are versions of the tables in
    the schema, None where there were none."""

    kind: str
    name: str
    policy: Mapping[str, Any] | None = None
    before: int | None = None
    after: int | None = None


def create_store(kind: str, settings: StoreSettings, s3: S3Settings | None = None) -> CreatedStore:
    """Make what the manifest store ``dynamodb`` or ``postgres`` needs, if it is missing, as ``singerlake store create``
    does. One serves many lakes. ``s3`` has the credentials of AWS. Raises ``SettingError``, ``AccessDeniedError``,
    ``StorageUnavailableError``."""
    if kind == "dynamodb":
        from singerlake.stores.dynamodb.client import DynamoTable
        from singerlake.stores.dynamodb.tables import create_table, least_policy

        table = DynamoTable(
            settings.dynamodb_table, s3, endpoint_url=settings.dynamodb_endpoint_url, clock=SystemClock()
        )
        arn = create_table(table)
        return CreatedStore(kind, arn, policy=least_policy(arn, query_items=settings.dynamodb_query_items))
    if kind == "postgres":
        from singerlake.stores.postgres.schema import create_schema

        postgres = _postgres(settings, s3)
        state = create_schema(postgres.url, postgres.schema)
        return CreatedStore(kind, postgres.schema, before=state.before, after=state.after)
    raise SettingError(f"manifest_store {kind!r} is not in a database", hint=f"use one of: {', '.join(IN_A_DATABASE)}")


def by_queue(
    store: ManifestStore, place: StreamPlace, settings: QueueSettings | None, s3: S3Settings | None, *, lake_id: str
) -> ManifestStore:
    """``store`` with its commits sent to a queue, if there is one. ``s3`` has the credentials."""
    if settings is None:
        return store
    from singerlake.stores.queued.store import QueuedStore

    return QueuedStore(store, place, _sender(settings, s3, place.clock), lake_id=lake_id)


def open_queue(settings: QueueSettings, s3: S3Settings | None, clock: Clock) -> SqsQueue:
    """A queue of commits. ``s3`` has the credentials."""
    from singerlake.stores.queued.sqs import SqsQueue

    return SqsQueue(settings, s3, clock=clock)


@lru_cache(maxsize=8)
def _sender(settings: QueueSettings, s3: S3Settings | None, clock: Clock) -> Sender:
    """One for all streams of a lake: what one writer learns of the queue is true for all."""
    from singerlake.stores.queued.store import Sender

    return Sender(open_queue(settings, s3, clock), settings, clock)


@lru_cache(maxsize=8)
def _table(name: str, s3: S3Settings | None, endpoint_url: str | None, clock: Clock) -> DynamoTable:
    """One client for all streams of a lake: making one takes longer than a commit."""
    from singerlake.stores.dynamodb.client import DynamoTable

    return DynamoTable(name, s3, endpoint_url=endpoint_url, clock=clock)
