"""Trimming the logs of a lake's streams: transactions that a snapshot covers go, but for the last ones."""

from __future__ import annotations

from dataclasses import dataclass

from singerlake.errors import LostStateError, SingerlakeError
from singerlake.format import layout
from singerlake.glance import at_a_glance
from singerlake.stores.publish import published
from singerlake.upkeep.context import LakeContext


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTrim:
    """What was removed of a stream, or would be: ``transactions`` up to the number ``floor``, which were kept in
    ``keys`` objects, rows or items."""

    tap: str
    stream: str
    floor: int
    transactions: int
    keys: int
    trouble: None = None
    error: None = None


@dataclass(frozen=True, slots=True)
class TrimFailure:
    """A stream that could not be trimmed, and why. ``trouble`` is the text of ``error``."""

    tap: str
    stream: str
    trouble: str
    error: SingerlakeError


@at_a_glance
@dataclass(frozen=True, slots=True)
class TrimResult:
    """What was done to each stream, or with ``dry_run`` would be, or why it could not be."""

    lake: str
    dry_run: bool
    streams: tuple[StreamTrim | TrimFailure, ...]

    @property
    def failed(self) -> tuple[TrimFailure, ...]:
        """The streams that could not be trimmed."""
        return tuple(each for each in self.streams if isinstance(each, TrimFailure))


def trim_lake(lake: LakeContext, tap: str | None, stream: str | None, *, keep: int, dry_run: bool) -> TrimResult:
    """Trim the streams that are meant. One that cannot be trimmed stops no other."""
    done = [_trim(lake, *pair, keep=keep, dry_run=dry_run) for pair in lake.chosen(tap, stream)]
    return TrimResult(lake.storage.url, dry_run, tuple(done))


def _trim(lake: LakeContext, tap: str, stream: str, *, keep: int, dry_run: bool) -> StreamTrim | TrimFailure:
    there = lake.stream(tap, stream)
    try:
        published(lake.storage, layout.manifest_key(tap, stream))
        kind = there.kind()
        if kind is None:
            raise LostStateError("no state", hint="run 'singerlake rebuild'")
        done = there.context(kind).store.trim(keep=keep, dry_run=dry_run)
    except SingerlakeError as error:
        return TrimFailure(tap, stream, str(error), error)
    return StreamTrim(tap=tap, stream=stream, floor=done.floor, transactions=done.transactions, keys=done.keys)
