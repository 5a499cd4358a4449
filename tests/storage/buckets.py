"""What the tests of S3 make of a bucket: storages on it whose clock does not wait, and a look at what they hold."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.port import Refused, Storage, Written


class PatientlessClock:
    """Sleeps without waiting and remembers for how long it was asked to."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def jitter(self) -> float:
        return 0.5


Make = Callable[..., CloudStorage]


def written(outcome: Written | Refused) -> str:
    assert isinstance(outcome, Written)
    return outcome.etag


def body(storage: Storage, key: str) -> bytes | None:
    stored = storage.get(key)
    return stored.body if stored else None
