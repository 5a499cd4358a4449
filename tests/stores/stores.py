"""Every manifest store, as tests of all of them see it: one stream, shared by as many writers as a test wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from singerlake.format import layout
from singerlake.format.state import fold
from singerlake.format.state.additions import Conflict
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Change, Transaction
from singerlake.lake import Lake
from singerlake.settings import StoreSettings
from singerlake.storage.settings import AnySettings, together
from singerlake.stores.commit import commit_transaction
from singerlake.stores.port import Loaded, ManifestStore
from singerlake.upkeep.context import StreamContext
from tests.fakes import FakeClock, counting_ids
from tests.format.state.test_fold import check_log
from tests.storage.memory import MemoryStorage

ON_THE_LAKE = ("lockfile", "log", "merge")
"""Kinds that need nothing but storage, so that a test can fault every step they take."""
IN_A_DATABASE = ("dynamodb", "postgres")
"""Kinds that need a server; ``place`` starts it."""
KINDS = (*ON_THE_LAKE, *IN_A_DATABASE)


BORN = "2026-01-01T00:00:00.000000Z"


@dataclass
class Place:
    """One lake in memory with one stream ``s`` of the tap ``t``. Every ``store()`` is another writer's or reader's."""

    kind: str
    ignore_conditions: bool = False
    settings: StoreSettings = field(default_factory=StoreSettings)
    s3: AnySettings | None = None
    clock: FakeClock = field(default_factory=FakeClock)
    ids: Callable[[], str] = field(default_factory=counting_ids)

    def __post_init__(self) -> None:
        self.storage = MemoryStorage(clock=self.clock, ids=self.ids, ignore_conditions=self.ignore_conditions)
        self.lake = self.opened()

    def opened(self) -> Lake:
        """The lake as a process sees it that starts now."""
        return Lake(self.storage, self.clock, self.ids, self.settings, together(self.s3))

    def known_by_another_id(self) -> None:
        """From here on the lake has another identity in all metadata that names it: a database knows nothing of it."""
        before, after = self.lake.lake_id().encode(), self.ids().encode()
        for key in (layout.root_metadata_key(), layout.manifest_key("t", "s")):
            stored = self.storage.get(key)
            assert stored is not None
            assert before in stored.body
            self.storage.put(key, stored.body.replace(before, after))
        self.lake = self.opened()

    def store(self, stream: str = "s", kind: str | None = None) -> ManifestStore:
        return self.lake.stream("t", stream).store(kind or self.kind)

    def context(self, stream: str = "s") -> StreamContext:
        """What maintenance of a stream works with."""
        return StreamContext(self.storage, "t", stream, self.clock, self.ids, self.store(stream))

    def first(self, stream: str = "s") -> Manifest:
        return fold.empty(
            tap="t",
            stream=stream,
            store=self.kind,
            lineage=self.ids(),
            created=BORN,
            transaction_id=self.ids(),
        )

    def born(self, stream: str = "s") -> Loaded:
        return self.store(stream).create(self.first(stream))

    def transaction(self, change: Change) -> Transaction:
        return Transaction(id=self.ids(), at="2026-02-01T00:00:00Z", change=change)

    def commit(self, base: Loaded, change: Change, stream: str = "s", **options: int) -> Loaded | Conflict:
        """One change through the commit loop of a writer of its own, until it is settled."""
        store = self.store(stream)
        return commit_transaction(store, base, self.transaction(change), clock=self.clock, **options)

    def committed(self, base: Loaded, *changes: Change) -> Loaded:
        """Changes one after the other, each of which must succeed."""
        for change in changes:
            outcome = self.commit(base, change)
            assert isinstance(outcome, Loaded), outcome
            base = outcome
        return base

    def loaded(self, stream: str = "s") -> Loaded:
        """What a writer that comes now begins with."""
        loaded = self.store(stream).load()
        assert loaded is not None
        return loaded

    def state(self, stream: str = "s") -> Manifest:
        """What a writer or reader that comes now sees."""
        manifest = self.loaded(stream).manifest
        check_log(manifest)
        return manifest

    def listed(self, stream: str = "s") -> list[str]:
        return [file.id for file in self.state(stream).files]


def make_place(kind: str, request: pytest.FixtureRequest) -> Place:
    """A ``Place`` of that kind, with its server running where it needs one."""
    if kind == "dynamodb":
        server, table = request.getfixturevalue("dynamodb_table")
        return Place(
            kind,
            settings=StoreSettings(dynamodb_table=table, dynamodb_endpoint_url=server.endpoint_url),
            s3=server.settings(),
            ids=unique_ids(),
        )
    if kind == "postgres":
        url, schema = request.getfixturevalue("postgres_schema")
        return Place(kind, settings=StoreSettings(postgres_url=url, postgres_schema=schema), ids=unique_ids())
    return Place(kind)


def unique_ids() -> Callable[[], str]:
    """Identities that differ between tests, for servers that outlive one."""
    from singerlake.clock import random_id

    return random_id
