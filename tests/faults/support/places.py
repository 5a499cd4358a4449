"""Where the fault cases take place: every manifest store, each on a lake that real processes share.

A new store is one line in ``KINDS``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from singerlake.clock import Clock
from singerlake.format import layout
from singerlake.format.state.model import Manifest
from singerlake.lake import Lake, open_storage
from singerlake.lock_file import LockSettings
from singerlake.settings import StoreSettings
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.port import Capabilities, Storage
from singerlake.storage.settings import StorageSettings
from singerlake.stores.port import ManifestStore
from singerlake.stores.writer import StreamWriter
from singerlake.stream import LakeStream
from tests.faults.support.haste import Haste, HastenedStorage, ShiftedClock

TAP, STREAM = "t", "s"
LOCK = LockSettings(max_wait=30, stale_after=0.5, refresh=0.1)


@dataclass(frozen=True)
class Kind:
    """What a fault has to know of a store to meet it: regular expressions, and what the store is made of.

    ``key`` is the end of the lake's objects that commits write; where ``on`` is a database, ``statement`` is what
    commits ask of it. ``tail`` is the call that reads the log's tail, where there is a log that can be trimmed;
    ``appends`` the one that puts a record under its number, where that is not the commit itself.
    """

    name: str
    key: str = ""
    statement: str = ""
    tail: str = ""
    appends: str = ""
    on: str = "lake"
    locks: bool = False
    settles: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def request(self) -> str:
        """The request that commits, as the proxy in front of the server describes it."""
        return rf"^PUT .*{self.key}" if self.on == "lake" else self.statement

    @property
    def call(self) -> str:
        """The call of a writer's process that commits."""
        return rf"^storage\.put .*{self.key}" if self.on == "lake" else rf"^{self.on}\.{self.statement}"

    @property
    def numbering(self) -> str:
        """The call of a writer's process that takes the log's next number."""
        return self.appends or self.call


KINDS = {
    kind.name: kind
    for kind in (
        Kind("lockfile", key=r"/manifest\.json$", locks=True),
        Kind("log", key=r"/_log/\d{20}\.json$", tail=r"^storage\.(list|get) .*/_log/0"),
        Kind("dynamodb", on="dynamodb", statement="TransactWriteItems", tail=r"^dynamodb\.Query"),
        Kind("postgres", on="postgres", statement="COMMIT", tail=r"^postgres\.\s*SELECT"),
        Kind(
            "merge",
            key=r"/_log/manifest\.json@[^/]+$",
            tail=r"^storage\.(list|get) .*/_log/0",
            appends=r"^storage\.put .*/_log/\d{20}\.json$",
            settles=True,
        ),
    )
}


def of_kinds(which: Callable[[Kind], bool]) -> pytest.MarkDecorator:
    """Runs a test for the stores that a fault applies to, not for all."""
    return pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if which(kind)], ids=str, indirect=True)


_FIELDS = {"s3": "s3", "az": "azure", "gs": "gcs"}
"""Scheme of a root -> the settings that reach it."""


@cache
def _storage(root: str, settings: StorageSettings | None) -> Storage:
    return open_storage(root, settings)


@cache
def _clock(haste: Haste | None) -> Clock:
    """One for all who look from outside, by which their connections to a database are known to be the same."""
    return ShiftedClock(haste)


@dataclass(frozen=True)
class Place:
    """One stream, in one store, on one lake. ``settings`` reach its storage, and DynamoDB. ``haste`` is how fast its
    time runs; ``honoured`` is what is known of its storage before anybody probes it."""

    kind: Kind
    root: str
    settings: StorageSettings | None = None
    stores: StoreSettings = field(default_factory=StoreSettings)
    stream: str = STREAM
    haste: Haste | None = None
    honoured: Capabilities | None = None

    def lake(self, clock: Clock | None = None) -> Lake:
        """The lake, opened anew but for the connection to its storage."""
        lake = Lake.open(self.root, self.settings, self.stores)
        storage = _storage(self.root, self.settings)
        if isinstance(storage, CloudStorage) and self.honoured is not None:
            proved = storage._proved
            if proved.capabilities is None:
                proved.capabilities, proved.at = self.honoured, storage._patience.clock.monotonic()
        if self.haste is not None and self.settings is None:
            storage = HastenedStorage(storage, self.haste)  # type: ignore[assignment]
        return replace(lake, storage=storage, clock=clock or _clock(self.haste))

    def lake_stream(self) -> LakeStream:
        return self.lake().stream(TAP, self.stream)

    def writer(self, name: str = "a-test", lake: Lake | None = None, lock: LockSettings = LOCK) -> StreamWriter:
        stream = (lake or self.lake()).stream(TAP, self.stream)
        return stream.writer(writer_id=name, store=self.kind.name, lock=lock)

    def store(self) -> ManifestStore:
        return self.lake_stream().store(self.kind.name)

    def state(self) -> Manifest | None:
        """What the store itself says, read by somebody who knew nothing before."""
        loaded = self.store().load()
        return loaded.manifest if loaded else None

    @property
    def prefix(self) -> str:
        return layout.stream_prefix(TAP, self.stream)

    @property
    def storage(self) -> Storage:
        return self.lake().storage

    @property
    def path(self) -> Path:
        """The folder of a lake on disk."""
        return Path(self.root)

    def objects(self) -> dict[str, bytes]:
        """Everything on the lake, whole."""
        storage = self.storage
        found = ((entry.key, storage.get(entry.key)) for entry in storage.list(""))
        return {key: stored.body for key, stored in found if stored is not None}

    def keys_with(self, part: str) -> list[str]:
        """The stream's keys that contain ``part``."""
        return [entry.key for entry in self.storage.list(self.prefix) if part in entry.key]

    def end_idle_transactions(self) -> None:
        """What the server does of itself, after a minute, to those who stopped in the middle of a transaction."""
        if self.kind.on == "postgres":
            with psycopg.connect(self.stores.postgres_url or "", autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
                )

    def by_way_of(self, storage: str | None, **stores: Any) -> Place:
        """The same place, reached through other endpoints: ``storage`` takes the place of host and port."""
        settings = self.settings
        if settings is not None and storage is not None:
            own = getattr(settings, _FIELDS[self.root.partition("://")[0]])
            settings = self._with(endpoint_url=storage + urlsplit(own.endpoint_url or "").path)
        return replace(self, settings=settings, stores=replace(self.stores, **stores))

    def without_patience(self) -> Place:
        """The same place for writers that do not wait for a storage that is gone."""
        return replace(self, settings=self._with(patience_seconds=0))

    def _with(self, **changes: Any) -> StorageSettings:
        assert self.settings is not None
        name = _FIELDS[self.root.partition("://")[0]]
        return replace(self.settings, **{name: replace(getattr(self.settings, name), **changes)})
