"""The frozen models of one data file: as its writer describes it, and as a state lists it."""

from __future__ import annotations

import msgspec

from singerlake.format.decoders import prepare_decoders
from singerlake.format.state.attached import Attached


class NewFile(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A data file as its writer describes it, before the fold gives it an offset: one of the ``files`` of a manifest,
    by ``shared/docs/format/reading.md``. ``members`` is ``((start, messages), ...)``: the stored byte at which a gzip
    member starts and how many messages lie in it; empty members are not in it."""

    id: str
    path: str
    version: str
    messages: int
    records: int
    bytes: int
    raw_bytes: int
    sha256: str
    first: str
    last: str
    members: tuple[tuple[int, int], ...]
    erased: int = 0
    attached: tuple[Attached, ...] = ()

    @property
    def tabled(self) -> int:
        """The messages of its members together: ``messages``, in a file that is as it should be."""
        return self.members[0][1] if len(self.members) == 1 else sum(messages for _, messages in self.members)

    @property
    def is_sound(self) -> bool:
        """Whether its members add up to its messages, and its rows are of these."""
        own = not self.attached or max(row.message for row in self.attached) < self.messages
        return own and self.tabled == self.messages


class DataFile(NewFile, frozen=True, kw_only=True, gc=False):
    """A listed file: its messages have the offsets ``offset`` to ``offset + messages - 1``."""

    offset: int

    @property
    def end(self) -> int:
        """The offset after its last message."""
        return self.offset + self.messages


prepare_decoders(NewFile, DataFile)
