"""Segments with a known hole each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any, cast
from unittest import mock

from singerlake.format import layout
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.files.wanted_ids import IdRanges
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Refused, Storage, Written
from singerlake.stores import publish
from singerlake.stores.dynamodb.items import SegmentItems
from singerlake.stores.lockfile import LockfileStore
from singerlake.stores.numbered import NumberedStore
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.stores.segments.stored import names_of, to_stored
from singerlake.upkeep.gc import segments
from tests.simulation.jobs import Actor, CollectorJob, SweeperJob, VacuumJob
from tests.simulation.run import cast_of
from tests.simulation.stores import segmenting
from tests.simulation.stores.kinds import Kind
from tests.simulation.stores.segmenting import SEGMENTING, store_with_items
from tests.simulation.world.files import STREAM, TAP
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World


class _StateFirst:
    """A storage that gets segments only once a state was written."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._waiting: list[tuple[str, bytes]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        if layout.segment_name_in(key.rpartition("/")[2]) is not None:
            self._waiting.append((key, body))
            return Written("")
        answer = self._storage.put(key, body, if_absent=if_absent, if_match=if_match)
        while self._waiting:
            self._storage.put(*self._waiting.pop(0), if_absent=True)
        return answer


def _state_first(world: World, process: Process) -> LockfileStore:
    del process
    return LockfileStore(cast(Storage, _StateFirst(world.storage)), TAP, STREAM)


def _published_alone(storage: Storage, tap: str, stream: str) -> set[str]:
    """As if no snapshot named a segment."""
    return {segment.name for segment in names_of(storage, layout.manifest_key(tap, stream))}


def _nowhere(ranges: IdRanges, id: str) -> Iterator[Segment]:
    """Takes an id for one that no segment has, whatever was not read."""
    del ranges, id
    return iter(())


def _takes_over(segments: SegmentObjects, manifest: Manifest, usable: Iterable[Segment]) -> tuple[Manifest, bytes]:
    """Names the segments of the state in its hands, whatever it replaces."""
    return to_stored(segments, manifest, (*usable, *manifest.files.segments))


def _believing(world: World, process: Process) -> NumberedStore:
    return store_with_items(world, process, _Believing)


class _Believing(SegmentItems):
    """Takes what the table gives for all that was asked for."""

    def touching(self, segment: Segment, start: int, stop: int) -> Sequence[DataFile] | None:
        found = self._asked(lambda: list(self._range(segment, start, stop)), segment)
        return None if found is None else [file for _, file in found]


def _writing(world: World, kind: Kind) -> Iterator[Actor]:
    """Those who only add files."""
    maintaining = (VacuumJob, SweeperJob, CollectorJob)
    return (actor for actor in cast_of(world, kind) if not isinstance(actor, maintaining))


def _with(kind: Kind, name: str, patch: Callable[[], AbstractContextManager[object]]) -> Kind:
    @contextmanager
    def patched() -> Iterator[None]:
        with ExitStack() as patches:
            patches.enter_context(kind.patched())
            patches.enter_context(patch())
            yield

    return replace(kind, name=name, patched=patched)


_LOG, _LOCKFILE = SEGMENTING["segments-log"], SEGMENTING["segments-lockfile"]
SEGMENTS = (
    replace(_LOCKFILE, name="segments-later", store_of=_state_first),
    _with(_LOG, "segments-of-manifest", lambda: mock.patch.object(segments, "_named", _published_alone)),
    _with(_LOCKFILE, "segments-impatient", lambda: mock.patch.object(segmenting, "GRACE", 1.0)),
    _with(
        replace(_LOCKFILE, cast=_writing),
        "segments-not-read",
        lambda: mock.patch.object(IdRanges, "may_have", _nowhere),
    ),
    _with(_LOG, "segments-taken-over", lambda: mock.patch.object(publish, "to_stored", _takes_over)),
    replace(SEGMENTING["items-dynamodb"], name="items-believed", store_of=_believing),
)
