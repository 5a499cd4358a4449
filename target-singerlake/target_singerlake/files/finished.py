"""Finished files of a stream, as its writer takes them."""

from __future__ import annotations

from collections.abc import Iterator

from singerlake.clock import timestamp
from singerlake.errors import BrokenFileError
from singerlake.format.layout import file_path
from singerlake.format.state.attached import Attached
from singerlake.interpreter.turns import waiting
from singerlake.stores.writing.uploads import Upload
from singerlake.stores.writing.writer import StreamWriter
from target_singerlake.files.growing import GrowingFile
from target_singerlake.files.stream_queue import Channel

FILES_AT_ONCE = 16
"""Files of one stream that one transaction may carry."""


def uploads(writer: StreamWriter, channel: Channel, taken: list[GrowingFile]) -> Iterator[Upload | None]:
    """The first waiting file, once it is whole, and those of the same schema after it that are whole when they are
    asked for; None where none is. ``taken`` gets each."""
    while len(taken) < FILES_AT_ONCE:
        following = channel.ready[0] if channel.ready else None
        if following is None or (taken and not following.is_whole):
            yield None
            continue
        if taken and following.schema.content != taken[0].schema.content:
            return
        with waiting():
            rows = following.finish()
        taken.append(channel.take())
        yield _upload(writer, channel.name, following, rows)


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
