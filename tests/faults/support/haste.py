"""Time that runs faster than it does, for stores that wait for storage's clock: the writers' clock and what storage
says of its objects run alike, so that nothing but the machine seems slower."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from singerlake import adapters
from singerlake.clock import SystemClock
from singerlake.storage.port import Entry, Folder, Part, Storage, Stored


@dataclass(frozen=True)
class Haste:
    """``factor`` seconds pass in one, from the moment ``since`` on."""

    since: datetime
    factor: float

    def at(self, moment: datetime) -> datetime:
        """What the fast clock shows when the machine's shows ``moment``."""
        return self.since + (moment - self.since) * self.factor


class ShiftedClock(SystemClock):
    """The machine's clock, fast, and wrong by ``shift`` seconds."""

    def __init__(self, haste: Haste | None) -> None:
        self.shift = 0.0
        self._haste = haste
        self._factor = haste.factor if haste else 1.0

    def now(self) -> datetime:
        now = super().now()
        return (self._haste.at(now) if self._haste else now) + timedelta(seconds=self.shift)

    def monotonic(self) -> float:
        return super().monotonic() * self._factor

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds / self._factor)


class HastenedStorage:
    """A storage whose objects say when they were written by the fast clock."""

    def __init__(self, inner: Storage, haste: Haste) -> None:
        self._inner = inner
        self._haste = haste

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get(self, key: str) -> Stored | None:
        found = self._inner.get(key)
        return replace(found, last_modified=self._haste.at(found.last_modified)) if found else None

    def head(self, key: str) -> Entry | None:
        found = self._inner.head(key)
        return self._entry(found) if found else None

    def upload(self, key: str, path: Path, ready: Callable[[], object] = lambda: None) -> int:
        return self._inner.upload(key, path, ready)

    def compose(self, key: str, pieces: Sequence[bytes | Part]) -> Entry:
        return self._entry(self._inner.compose(key, pieces))

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[Entry]:
        return map(self._entry, self._inner.list(prefix, start_after=start_after))

    def list_folder(self, prefix: str) -> Folder:
        found = self._inner.list_folder(prefix)
        return replace(found, entries=tuple(map(self._entry, found.entries)))

    def _entry(self, found: Entry) -> Entry:
        return msgspec.structs.replace(found, last_modified=self._haste.at(found.last_modified))


def hasten(monkeypatch: pytest.MonkeyPatch, haste: Haste | None = None) -> None:
    """Have time run faster for everything in this process that asks a system's clock, for as long as the test runs: ten
    times as fast from now on by default."""
    haste = haste or Haste(SystemClock().now(), 10)
    factor = haste.factor
    now, monotonic, sleep, opened = SystemClock.now, SystemClock.monotonic, SystemClock.sleep, adapters.open_storage
    monkeypatch.setattr(SystemClock, "now", lambda clock: haste.at(now(clock)))
    monkeypatch.setattr(SystemClock, "monotonic", lambda clock: factor * monotonic(clock))
    monkeypatch.setattr(SystemClock, "sleep", lambda clock, seconds: sleep(clock, seconds / factor))
    monkeypatch.setattr(
        "singerlake.lake.open_storage", lambda root, settings=None: HastenedStorage(opened(root, settings), haste)
    )
