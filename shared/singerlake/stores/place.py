"""What everything that reads and writes one stream works with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from singerlake.clock import Clock, IdSource
from singerlake.format import layout
from singerlake.lock_file import Lock, LockSettings
from singerlake.storage.port import Storage
from singerlake.stores.port import ManifestStore


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """One stream: where its files are stored, its names, and time and identities."""

    storage: Storage
    tap: str
    stream: str
    clock: Clock
    ids: IdSource

    @property
    def prefix(self) -> str:
        """What the keys of all its objects begin with."""
        return layout.stream_prefix(self.tap, self.stream)

    @property
    def manifest_key(self) -> str:
        return layout.manifest_key(self.tap, self.stream)

    def locks(
        self, holder: str, versions: Iterable[str] = (), *, own: bool = False, settings: LockSettings | None = None
    ) -> list[Lock]:
        """The lock of each version of files, and with ``own`` the stream's own, in the order in which all writers take
        them. ``holder`` is the id of the one who takes them."""
        keys = [layout.version_lock_key(self.tap, self.stream, version) for version in sorted(versions)]
        if own:
            keys.append(layout.stream_lock_key(self.tap, self.stream))
        return [Lock(self.storage, key, holder, settings or LockSettings(), self.clock, self.ids) for key in keys]

    @contextmanager
    def alone(self, who: str, *stores: ManifestStore) -> Iterator[None]:
        """Keep other writers away by the stream's own lock, where a commit to one of ``stores`` can be lost to theirs.
        Raises ``LockTimeoutError`` and what storage raises."""
        with ExitStack() as held:
            if any(store.exclusive for store in stores):
                for lock in self.locks(f"{who} {self.ids()}", own=True):
                    held.enter_context(lock.held())
            yield
