"""What a publisher knows of one stream, and its closed files as the stream's writer takes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field

from singerlake.clock import timestamp
from singerlake.errors import BrokenFileError
from singerlake.format.layout import file_path
from singerlake.format.state.attached import Attached
from singerlake.format.state.model import SchemaVersion
from singerlake.interpreter.threads import waiting
from singerlake.stores.writing.uploads import Receipt, Upload
from singerlake.stores.writing.writer import StreamWriter
from target_singerlake.files.growing import GrowingFile

FILES_AT_ONCE = 16
"""Files of one stream that one transaction may carry."""


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

    def uploads(self, writer: StreamWriter, taken: list[GrowingFile]) -> Iterator[Upload | None]:
        """The first of ``ready``, once it is whole, and those of the same schema after it that are whole when they are
        asked for; None where none is. ``taken`` gets each."""
        while len(taken) < FILES_AT_ONCE:
            following = self.ready[0] if self.ready else None
            if following is None or (taken and not following.is_whole):
                yield None
                continue
            if taken and following.schema.content != taken[0].schema.content:
                return
            with waiting():
                rows = following.finish()
            taken.append(self._take())
            yield _upload(writer, self.name, following, rows)

    def _take(self) -> GrowingFile:
        growing = self.ready.popleft()
        self.table_version = self.table_version if growing.table_version is None else growing.table_version
        self.activated = self.activated if growing.activated is None else growing.activated
        return growing


def _upload(writer: StreamWriter, stream: str, growing: GrowingFile, rows: tuple[Attached, ...]) -> Upload:
    """A whole spooled file as its stream's writer takes it. Raises ``BrokenFileError``."""
    spool, content = growing.spool, growing.schema.content
    if spool is None or spool.messages != growing.messages:
        raise BrokenFileError(
            "a file in the spool lacks messages that were read for it",
            hint="it was not committed; run again, and report this",
            stream=stream,
            id=growing.header.id,
        )
    version = writer.version_of(content.schema)
    path = file_path(stream, version, growing.first, growing.last, growing.header.id)
    first, last = timestamp(growing.first), timestamp(growing.last)
    file = spool.describe(path=path, version=version, first=first, last=last, attached=rows)
    return Upload(spool.path, file, content)
