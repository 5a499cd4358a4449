"""Committers: what commits to a lake's streams what writers sent to a queue, whoever brings it messages."""

from __future__ import annotations

import os
import socket

from singerlake.errors import NotALakeError
from singerlake.lake import Lake
from singerlake.stores.port import ManifestStore
from singerlake.stores.queued.committer import Committer


def committer_of(lake: Lake) -> Committer:
    """A committer for streams that writers began. Raises ``NotALakeError`` where no writer was here yet."""
    lake_id = lake.known_lake_id()
    if lake_id is None:
        raise NotALakeError(
            "the lake has no id yet, by which messages name it",
            hint="run a writer once, then start the committer",
            lake_root=lake.storage.url,
        )

    def open_store(tap: str, stream: str) -> ManifestStore | None:
        there = lake.stream(tap, stream)
        kind = there.kind()
        return None if kind is None else there.store(kind)

    name = f"commit-worker {socket.gethostname()} {os.getpid()}"
    return Committer(lake_id, lake.storage, open_store, name, lake.clock, lake.ids)
