"""Which manifest store keeps each stream, and how far its state is."""

from __future__ import annotations

from dataclasses import dataclass

from singerlake.errors import SingerlakeError
from singerlake.format import layout
from singerlake.glance import at_a_glance
from singerlake.stores.publish import published
from singerlake.upkeep.context import LakeContext
from singerlake.work.parallel import THREADS, in_parallel

_NO_STATE = "no state; run 'singerlake rebuild'"


@at_a_glance
@dataclass(frozen=True, slots=True)
class StreamStore:
    """Where a stream's state is. ``transaction`` is the newest, ``published`` the one in ``manifest.json``, ``tail``
    how many lie between; transactions up to ``floor`` were trimmed. ``moving_to``: it is on its way to that store.
    ``trouble`` says why figures are missing, ``error`` the error that it came from. ``dropped`` is as in
    ``Manifest.is_dropped``."""

    tap: str
    stream: str
    store: str | None = None
    transaction: int | None = None
    published: int | None = None
    tail: int | None = None
    floor: int | None = None
    moving_to: str | None = None
    trouble: str | None = None
    error: SingerlakeError | None = None
    dropped: bool = False


@at_a_glance
@dataclass(frozen=True, slots=True)
class StoreStatusResult:
    """The store of each stream. Streams that are not yet born get ``default``, None where no root metadata says it."""

    lake: str
    default: str | None
    streams: tuple[StreamStore, ...]


def store_status_of(lake: LakeContext, tap: str | None, stream: str | None) -> StoreStatusResult:
    """The stores of the streams that are meant."""
    kept = in_parallel(lambda pair: _kept(lake, *pair), lake.chosen(tap, stream), threads=THREADS)
    streams = tuple(kept)
    metadata = lake.root_metadata()
    return StoreStatusResult(lake.storage.url, metadata.manifest_store if metadata else None, streams)


def _kept(lake: LakeContext, tap: str, stream: str) -> StreamStore:
    """What is known of one stream. Its error or its database's is part of the answer: the others are listed."""
    there = lake.stream(tap, stream)
    kind = number = None
    try:
        manifest = published(lake.storage, layout.manifest_key(tap, stream))
        number = manifest.number if manifest else None
        kind = there.kind()
        if kind is None:
            return StreamStore(tap, stream, trouble=_NO_STATE)
        keeper = there.context(kind).store
        loaded = keeper.load()
        if loaded is None:
            return StreamStore(tap, stream, kind, published=number, trouble="its store has no state of it")
        newest = loaded.manifest.transaction.number
        floor = keeper.trim(keep=newest + 1, dry_run=True).floor
    except SingerlakeError as error:
        return StreamStore(tap, stream, kind, published=number, trouble=str(error), error=error)
    closed = loaded.manifest.closed
    going = f"is not yet moved to {closed}; run 'singerlake store migrate --to {closed}' again" if closed else None
    return StreamStore(
        tap=tap,
        stream=stream,
        store=kind,
        transaction=newest,
        published=number,
        tail=newest - (-1 if number is None else number),
        floor=None if floor < 0 else floor,
        moving_to=closed,
        trouble=going,
        dropped=loaded.manifest.is_dropped,
    )
