"""The messages of a stream from an offset on, and then those that come."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from singerlake.errors import LineageChangedError, MissingFileError
from singerlake.follow.state import FollowedState
from singerlake.format.state.model import Manifest
from singerlake.format.state.selection import offset_left, slices
from singerlake.singer_file import Block

if TYPE_CHECKING:
    from singerlake.stream import LakeStream


def follow(
    stream: LakeStream,
    from_offset: int | None,
    *,
    lineage: str | None,
    every: float,
    skip_expired: bool,
    until: threading.Event | None,
) -> Iterator[Block]:
    """As ``LakeStream.follow`` says."""
    followed = FollowedState(stream)
    state = followed.newest()
    lineage = _same(lineage, state)
    offset = state.next_offset if from_offset is None else from_offset
    while until is None or not until.is_set():
        try:
            for part in slices(state, offset=offset_left(state, offset, skip_expired=skip_expired)):
                for block in stream.read(part):
                    yield block
                    offset = block.end
                    if until is not None and until.is_set():
                        return
                offset = part.file.end
        except MissingFileError:
            # A vacuum joined it with others and gc collected it since the state was read, or it is lost.
            before, state = state, followed.anew()
            if state.transaction == before.transaction:
                raise
        else:
            if until is None:
                stream.lake.clock.sleep(every)
            elif until.wait(every):
                return
            state = followed.newest()
        lineage = _same(lineage, state)


def _same(lineage: str | None, state: Manifest) -> str | None:
    """The lineage of a state, which is ``lineage``, or the first one that the stream has. Raises
    ``LineageChangedError``."""
    if lineage is not None and state.lineage != lineage:
        raise LineageChangedError(
            "the stream was rebuilt or dropped, so its offsets mean other messages",
            hint="follow it again, from an offset of its new lineage",
            tap=state.tap,
            stream=state.stream,
        )
    return state.lineage
