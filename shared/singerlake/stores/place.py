"""What every manifest store of one stream works with."""

from __future__ import annotations

from dataclasses import dataclass

from singerlake.clock import Clock, IdSource
from singerlake.storage.port import Storage


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """One stream: where its files are stored, its names, and time and identities."""

    storage: Storage
    tap: str
    stream: str
    clock: Clock
    ids: IdSource
