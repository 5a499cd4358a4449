"""From a reader's events to output and checkpoints: where blocks are cut, and when a bookmark is emitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from singerlake.format.lines.messages import is_record_line
from singerlake.format.newlines import end_of
from singerlake.format.state.bookmark import Bookmark
from tap_singerlake.conversion import Conversion
from tap_singerlake.reader import FileEnd, MessageBlock, SchemaLine


class Replay:
    """One run over one stream.

    ``write`` takes whole lines. ``checkpoint`` takes a bookmark once everything before it was written: at the end of
    each file, after ``every`` messages, and at the end. ``limit`` is the most records to write.
    """

    def __init__(
        self,
        conversion: Conversion,
        *,
        write: Callable[[bytes | memoryview], None],
        checkpoint: Callable[[Bookmark], None],
        every: int,
        limit: int | None,
    ) -> None:
        self._conversion = conversion
        self._write = write
        self._checkpoint = checkpoint
        self._every = every
        self._left = limit
        self._since = 0
        self._schema = b""
        self._reached: Bookmark | None = None
        self._told: Bookmark | None = None

    def run(self, events: Iterable[SchemaLine | MessageBlock | FileEnd]) -> Iterator[int]:
        """Writes ``events``; gives the number of records after each write."""
        for event in events:
            if self._left == 0:
                break
            if isinstance(event, SchemaLine):
                self._say_schema(event)
            elif isinstance(event, MessageBlock):
                yield from self._say_messages(event)
            else:
                self._reached = event.bookmark
                if self._since:
                    self._settle()
        self._settle()

    def _say_schema(self, event: SchemaLine) -> None:
        lines = self._conversion.schema(event.line)
        if lines != self._schema:
            self._write(lines)
            self._schema = lines

    def _say_messages(self, event: MessageBlock) -> Iterator[int]:
        block, view = event.block, memoryview(event.block.data)
        done = start = 0
        while done < block.messages and self._left != 0:
            messages, records = self._share(event, start, min(block.messages - done, self._every - self._since))
            last = done + messages == block.messages
            end = len(view) if last else end_of(block.data, messages, start)
            offsets = block.offsets[done : done + messages]
            self._write(self._conversion.messages(view[start:end], offsets, event.file))
            start, done = end, done + messages
            self._since += messages
            self._left = None if self._left is None else self._left - records
            self._reached = event.bookmark(done)
            yield records
            if self._since >= self._every:
                self._settle()

    def _share(self, event: MessageBlock, start: int, messages: int) -> tuple[int, int]:
        """``messages`` or fewer, as the limit allows, and the records among them."""
        if event.file.records + event.file.erased == event.file.messages:
            allowed = messages if self._left is None else min(messages, self._left)
            return allowed, allowed
        return take(event.block.data, start, messages, self._left)

    def _settle(self) -> None:
        if self._reached is not None and self._reached != self._told:
            self._checkpoint(self._reached)
            self._told = self._reached
        self._since = 0


def take(data: bytes, start: int, messages: int, limit: int | None) -> tuple[int, int]:
    """How many of the ``messages`` lines from ``start`` on hold no more than ``limit`` records, and how many records
    those are: ``(messages, records)``. Stops right behind the last record that the limit allows."""
    records = 0
    for count in range(messages):
        end = data.index(b"\n", start) + 1
        records += is_record_line(data[start:end])
        if records == limit:
            return count + 1, records
        start = end
    return messages, records
