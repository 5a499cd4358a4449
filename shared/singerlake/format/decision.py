"""The decision about an atomic run, ``raw/<tap>/_commits/<name>.json``: section 11.6 of ``shared/docs/format``."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from singerlake.clock import parse_timestamp, timestamp
from singerlake.errors import CorruptObjectError
from singerlake.format import FORMAT, layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode, encode
from singerlake.format.state.manifest import check_format


class Brought(msgspec.Struct, frozen=True, kw_only=True):
    """The messages that a run brought to one stream: offsets ``offset`` to ``end - 1`` in a ``lineage``."""

    lineage: str
    offset: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.offset < self.end:
            raise ValueError("a run brings at least one message, and offsets count from 0")

    @property
    def messages(self) -> int:
        return self.end - self.offset


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a commit took place: a decision of section 11.6 of ``shared/docs/format``."""

    format: int = FORMAT
    id: str
    at: str
    run: str | None
    writer: str
    committed: bool
    streams: dict[str, Brought] = {}

    def __post_init__(self) -> None:
        if parse_timestamp(self.at) is None:
            raise ValueError("`at` is not a time")


def decision_to_json(decision: Decision) -> bytes:
    return encode(decision)


def decision_from_json(body: bytes, *, key: str) -> Decision:
    """Parse what is stored under ``key``. Raises ``CorruptObjectError``, ``UnsupportedFormatError``."""
    try:
        check_format(body, key=key)
        decision = decode(body, Decision)
    except (CorruptObjectError, msgspec.DecodeError) as error:
        # No rebuild makes it again, so that nobody should be told to delete it.
        said = error.message if isinstance(error, CorruptObjectError) else error
        raise CorruptObjectError(
            f"a decision about an atomic run cannot be read: {said}", hint="restore it from a backup", key=key
        ) from error
    if layout.commit_name_in(key.rpartition("/")[2]) != decision.id:
        raise CorruptObjectError(
            f"a decision about an atomic run says that it is of commit {decision.id!r}",
            hint="restore it from a backup",
            key=key,
        )
    return decision


def commit_name(now: datetime, id: str, after: Iterable[str] = ()) -> str:
    """A name for a commit at ``now``, greater than the names ``after`` it. ``id`` is a fresh identity."""
    newest = max(after, default=None)
    if newest is not None:
        now = max(now, layout.commit_time(newest) + timedelta(microseconds=1))
    return layout.commit_name(now, id)


def aborted(name: str, *, at: datetime, writer: str, run: str | None) -> Decision:
    """The decision that a commit never takes place."""
    return Decision(id=name, at=timestamp(at), run=run, writer=writer, committed=False)


prepare_decoders(Brought, Decision)
