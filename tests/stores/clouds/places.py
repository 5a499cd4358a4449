"""Places of the stores' suite whose lakes are in a cloud. What storage says of times is the test's: the suite's clock
stands still, and stores that wait for storage's clock would wait for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec
import pytest

from singerlake.clock import Clock, random_id
from singerlake.storage.port import Entry, Folder, Part, Refused, Storage, Stored, Written
from tests.servers.azurite import Azurite
from tests.servers.gcs.server import GcsServer
from tests.storage.adapters import open_azure, open_gcs
from tests.storage.memory import Hook, Step
from tests.stores.stores import Place, make_place, unique_ids

CLOUDS = ("azure", "gcs")
BUCKET = "stores"


class Dated:
    """A storage whose objects say when they were written by a clock of the test's."""

    def __init__(self, inner: Storage, clock: Clock) -> None:
        self.hook: Hook = lambda _: None
        self._inner = inner
        self._clock = clock
        self._written: dict[str, datetime] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get(self, key: str) -> Stored | None:
        found = self._inner.get(key)
        return replace(found, last_modified=self._when(key, found.last_modified)) if found else None

    def head(self, key: str) -> Entry | None:
        found = self._inner.head(key)
        return self._dated(found) if found else None

    def put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        self.hook(Step("put", key, False))
        outcome = self._inner.put(key, body, if_absent=if_absent, if_match=if_match)
        if isinstance(outcome, Written):
            self._written[key] = self._clock.now()
        self.hook(Step("put", key, True))
        return outcome

    def upload(self, key: str, path: Any, ready: Callable[[], object] = lambda: None) -> int:
        size = self._inner.upload(key, path, ready)
        self._written[key] = self._clock.now()
        return size

    def compose(self, key: str, pieces: Sequence[bytes | Part]) -> Entry:
        made = self._inner.compose(key, pieces)
        self._written[key] = self._clock.now()
        return self._dated(made)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[Entry]:
        return map(self._dated, self._inner.list(prefix, start_after=start_after))

    def list_folder(self, prefix: str) -> Folder:
        found = self._inner.list_folder(prefix)
        return replace(found, entries=tuple(map(self._dated, found.entries)))

    def _dated(self, entry: Entry) -> Entry:
        return msgspec.structs.replace(entry, last_modified=self._when(entry.key, entry.last_modified))

    def _when(self, key: str, otherwise: datetime) -> datetime:
        return self._written.get(key, otherwise)


@dataclass
class CloudPlace(Place):
    """A ``Place`` in a cloud's bucket."""

    inner: Storage | None = None

    def __post_init__(self) -> None:
        assert self.inner is not None
        self.storage = Dated(self.inner, self.clock)  # type: ignore[assignment]
        self.lake = self.opened()


def make_cloud_place(cloud: str, kind: str, request: pytest.FixtureRequest) -> Place:
    """A place of that kind on a lake of its own in that cloud, with all servers running that it needs."""
    plain = make_place(kind, request)
    server: Azurite | GcsServer = request.getfixturevalue(f"stores_in_{cloud}")
    prefix = f"a lake/{random_id()}"
    if isinstance(server, Azurite):
        inner = open_azure(BUCKET, prefix, server.settings())
    else:
        inner = open_gcs(BUCKET, prefix, server.settings())
    # Databases and buckets outlive a test.
    return CloudPlace(kind, settings=plain.settings, s3=plain.s3, ids=unique_ids(), inner=inner)
