"""An atomic run: what it brings to each of its streams, and whether their stores can commit it together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass

import msgspec

from singerlake.clock import Clock, IdSource, timestamp
from singerlake.errors import CommitRefusedError, SettingError, SingerlakeError, StreamClosedError, UnknownOutcomeError
from singerlake.format.decision import Brought, Decision, commit_name
from singerlake.format.state.additions import Conflict
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Run, StreamSchema
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.port import ManifestStore
from singerlake.stores.writing.writer import StreamWriter


@dataclass(frozen=True, slots=True)
class Part:
    """What a run brings to one stream: uploaded files, in their order, and the schemas of their versions."""

    writer: StreamWriter
    files: tuple[NewFile, ...]
    schemas: dict[str, StreamSchema]
    run: Run


@dataclass(frozen=True, slots=True)
class AtomicRun:
    """A run whose files are uploaded, and which is to be committed. ``pool`` works on several streams at a time where
    storage is far; None: one after the other."""

    parts: Sequence[Part]
    decisions: Decisions
    _: KW_ONLY
    run_id: str
    writer_id: str
    clock: Clock
    ids: IdSource
    pool: Executor | None = None

    def __post_init__(self) -> None:
        # In one order for everybody: of two runs that wait for each other's streams, one always goes on.
        object.__setattr__(self, "parts", sorted(self.parts, key=lambda part: part.writer.stream))

    def new_name(self) -> str:
        """A name for its commit, greater than those that its streams have."""
        settled = (part.writer.loaded.manifest.settled for part in self.parts)
        before = [name for name in settled if name is not msgspec.UNSET]
        return commit_name(self.clock.now(), self.ids(), after=before)

    def committed(self, name: str, streams: Mapping[str, Brought]) -> Decision:
        """The decision that it takes place, now."""
        at = timestamp(self.clock.now())
        return Decision(id=name, at=at, run=self.run_id, writer=self.writer_id, committed=True, streams=dict(streams))


def require_atomic(store: ManifestStore, *, tap: str, stream: str) -> None:
    """Raise ``SettingError`` where a stream cannot be committed together with others."""
    if not store.abilities.prepares and not store.abilities.together:
        raise SettingError(
            f"atomic_run needs a manifest store that commits several streams together, and {store.kind} does not",
            hint="unset atomic_run, or move the lake with 'singerlake store migrate LAKE --to log'",
            tap=tap,
            stream=stream,
        )


def require_room(store: ManifestStore, streams: int, *, tap: str) -> None:
    """Raise ``SettingError`` where one transaction of a store cannot hold this many streams."""
    most = store.abilities.most_together
    if most is not None and streams > most:
        raise SettingError(
            f"atomic_run commits at most {most} streams at once in {store.kind}, and this run brings messages to more",
            hint="select fewer streams for each run, or unset atomic_run, or move the lake with 'singerlake store "
            "migrate LAKE --to log'; nothing of this run is visible",
            tap=tap,
        )


def require_one_way(parts: Sequence[Part]) -> None:
    """Raise ``SettingError`` where the streams of a run cannot all be committed together."""
    kinds: dict[str, str] = {}
    for part in parts:
        require_atomic(part.writer.store, tap=part.writer.tap, stream=part.writer.stream)
        kinds.setdefault(part.writer.store.kind, part.writer.stream)
    if len(kinds) > 1:
        where = ", ".join(f"{stream!r} is in {kind}" for kind, stream in kinds.items())
        raise SettingError(
            f"atomic_run needs all streams of a run in one manifest store, and {where}",
            hint="move all streams to one with 'singerlake store migrate', then run again; nothing of this run is "
            "visible",
            tap=parts[0].writer.tap,
        )
    if parts:
        require_room(parts[0].writer.store, len(parts), tap=parts[0].writer.tap)


def refused(part: Part, conflict: Conflict) -> SingerlakeError:
    """Why a run that does not fit one of its streams ends: ``StreamClosedError`` or ``CommitRefusedError``."""
    where = {"tap": part.writer.tap, "stream": part.writer.stream}
    if conflict.successor is not None:
        return StreamClosedError(
            f"this stream moves to the manifest store {conflict.successor!r}",
            hint="finish 'singerlake store migrate', then run again; nothing of this run is visible",
            **where,
        )
    return CommitRefusedError(
        f"a finished file no longer fits its stream: {conflict.reason}",
        hint="run again; nothing of this run is visible",
        **where,
    )


def catch_up(writer: StreamWriter) -> None:
    """Have a writer know the newest state. Raises ``UnknownOutcomeError`` where there is none any more."""
    newest = writer.store.catch_up(writer.loaded)
    if newest is None:
        raise UnknownOutcomeError(
            "the stream's state disappeared while an atomic run was being committed",
            hint="run 'singerlake rebuild', then run again; no file was deleted",
            tap=writer.tap,
            stream=writer.stream,
        )
    writer.accept(newest)


def not_shown(part: Part, error: SingerlakeError) -> UnknownOutcomeError:
    """What is raised where a run took place, and ``error`` kept its streams' readers from being told."""
    return UnknownOutcomeError(
        f"an atomic run is in the lake, and its streams could not be read or published afterwards: {error.message}",
        hint="; ".join(filter(None, (error.hint, "its STATE was held back, so its data will be sent again"))),
        **{**error.context, "tap": part.writer.tap},
    )
