"""What a publisher knows of one stream."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field

from singerlake.format.state.model import SchemaVersion
from singerlake.stores.writing.uploads import Receipt
from singerlake.stores.writing.writer import StreamWriter
from target_singerlake.files.growing import GrowingFile


@dataclass
class Channel:
    """One stream's way into the lake: its writer, the last thing it was given to do, the files that are to be committed
    next, those that were ``taken`` for the commit under way, and the commits whose place in the log is not settled yet.
    ``announced`` are the versions that the catalogue was told of, the newest one last, ``announced_at`` is the end of
    the stream when it was. ``table_version`` and ``activated`` are those of the files that were taken so far."""

    name: str
    writer: StreamWriter | None = None
    last: Future[None] | None = None
    ready: deque[GrowingFile] = field(default_factory=deque)
    taken: list[GrowingFile] = field(default_factory=list)
    unsettled: deque[tuple[Receipt, list[GrowingFile]]] = field(default_factory=deque)
    settling: Future[None] | None = None
    look_again: float = 0.0
    announced: dict[str, SchemaVersion] = field(default_factory=dict)
    announced_at: int = 0
    recorded: str = ""
    table_version: int | None = None
    activated: int | None = None

    def take(self) -> GrowingFile:
        """The first of ``ready``, which is there no longer."""
        growing = self.ready.popleft()
        self.table_version = self.table_version if growing.table_version is None else growing.table_version
        self.activated = self.activated if growing.activated is None else growing.activated
        return growing
