"""The commit of an atomic run: all of its streams at once, or none. Section 11.6 of ``shared/docs/format``.

In the store ``log`` every stream is prepared, one decision made, every stream settled. A database is one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import cast

import msgspec

from singerlake.clock import Clock, IdSource, timestamp
from singerlake.errors import (
    CommitRefusedError,
    SettingError,
    SingerlakeError,
    StreamClosedError,
    TooManyConflictsError,
    UnknownOutcomeError,
)
from singerlake.format.decision import Brought, Decision, aborted, commit_name
from singerlake.format.state.additions import Conflict
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Manifest, Run, StreamSchema
from singerlake.format.state.prepared import brought
from singerlake.format.state.transactions import CommitFiles, PrepareFiles, Transaction
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.atomic.together import CommittedTogether, RefusedShare, Share, TogetherStore
from singerlake.stores.commit import ATTEMPTS, between_tries, commit_transaction, state_lost
from singerlake.stores.port import Loaded, ManifestStore, Outdated
from singerlake.stores.writer import StreamWriter
from singerlake.work.bounded_map import for_each

_LOG_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class RunShare:
    """What a run brings to one stream: uploaded files, in their order, and the schemas of their versions."""

    writer: StreamWriter
    files: tuple[NewFile, ...]
    schemas: dict[str, StreamSchema]
    run: Run


@dataclass(frozen=True, slots=True)
class AtomicRun:
    """A run whose files are uploaded. ``pool`` works on several streams at a time; None: one after the other."""

    shares: Sequence[RunShare]
    decisions: Decisions
    _: KW_ONLY
    run_id: str
    writer_id: str
    clock: Clock
    ids: IdSource
    pool: Executor | None = None

    def __post_init__(self) -> None:
        # In one order for everybody: of two runs that wait for each other's streams, one always goes on.
        object.__setattr__(self, "shares", sorted(self.shares, key=lambda share: share.writer.stream))

    def new_name(self) -> str:
        """A name for its commit, greater than those that its streams have."""
        settled = (share.writer.loaded.manifest.settled for share in self.shares)
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


def require_one_way(shares: Sequence[RunShare]) -> None:
    """Raise ``SettingError`` where the streams of a run cannot all be committed together."""
    kinds: dict[str, str] = {}
    for share in shares:
        require_atomic(share.writer.store, tap=share.writer.tap, stream=share.writer.stream)
        kinds.setdefault(share.writer.store.kind, share.writer.stream)
    if len(kinds) > 1:
        where = ", ".join(f"{stream!r} is in {kind}" for kind, stream in kinds.items())
        raise SettingError(
            f"atomic_run needs all streams of a run in one manifest store, and {where}",
            hint="move all streams to one with 'singerlake store migrate', then run again; nothing of this run is "
            "visible",
            tap=shares[0].writer.tap,
        )
    if shares:
        require_room(shares[0].writer.store, len(shares), tap=shares[0].writer.tap)


def refused(share: RunShare, conflict: Conflict) -> SingerlakeError:
    """Why a run that does not fit one of its streams ends: ``StreamClosedError`` or ``CommitRefusedError``."""
    where = {"tap": share.writer.tap, "stream": share.writer.stream}
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
        raise state_lost("an atomic run was being committed", tap=writer.tap, stream=writer.stream)
    writer.accept(newest)


def not_shown(share: RunShare, error: SingerlakeError) -> UnknownOutcomeError:
    """What is raised where a run took place, and ``error`` kept its streams' readers from being told."""
    return UnknownOutcomeError(
        f"an atomic run is in the lake, and its streams could not be read or published afterwards: {error.message}",
        hint="; ".join(filter(None, (error.hint, "its STATE was held back, so its data will be sent again"))),
        **{**error.context, "tap": share.writer.tap},
    )


def commit_run(run: AtomicRun) -> dict[str, Manifest]:
    """The state of each stream with the run in it, which readers see in all of them by then. Raises ``SettingError``
    where the stores cannot do that, ``CommitRefusedError``, ``StreamClosedError``, ``TooManyConflictsError``,
    ``MissingFileError`` and what storage raises. Something may be visible only after ``UnknownOutcomeError``."""
    require_one_way(run.shares)
    if not run.shares:
        return {}
    together = run.shares[0].writer.store.abilities.together
    return (DatabaseCommit(run) if together else LogCommit(run)).commit()


class LogCommit:
    """Commits one run to all its streams, each with a log of its own. The run has a share at least."""

    def __init__(self, run: AtomicRun) -> None:
        self._run = run

    def commit(self) -> dict[str, Manifest]:
        for attempt in range(_LOG_ATTEMPTS):
            decision = self._attempt(waiting=attempt > 0)
            if decision.committed:
                try:
                    return self._settle(decision)
                except SingerlakeError as error:
                    raise not_shown(self._run.shares[0], error) from error
            for share in self._run.shares:
                catch_up(share.writer)
        raise TooManyConflictsError(
            f"other atomic runs came first {_LOG_ATTEMPTS} times in a row",
            hint="run again, with fewer writers on these streams",
            tap=self._run.shares[0].writer.tap,
        )

    def _attempt(self, *, waiting: bool) -> Decision:
        """The decision about one try, under a name of its own. ``waiting``: for runs in its way, stream by stream."""
        name = self._run.new_name()
        try:
            streams = self._prepare(name, waiting=waiting)
            if streams is None:
                return self._run.decisions.decide(self._against(name))
            for share in self._run.shares:
                share.writer.confirm(share.files)
            return self._run.decisions.decide(self._run.committed(name, streams))
        except BaseException as error:
            decision = self._given_up(name)
            if decision is not None and decision.committed and isinstance(error, SingerlakeError):
                return decision
            raise

    def _prepare(self, name: str, *, waiting: bool) -> dict[str, Brought] | None:
        """What the run brings to each stream, once it is in all their logs; None where another run is in the way."""
        prepared: dict[str, Loaded | None] = {}

        def prepare(share: RunShare) -> None:
            prepared[share.writer.stream] = self._prepared(share, name, waiting=waiting)

        for_each(self._run.shares, prepare, None if waiting else self._run.pool)
        streams: dict[str, Brought] = {}
        for stream, loaded in prepared.items():
            if loaded is None:
                return None
            if loaded.manifest.prepared is not msgspec.UNSET and (new := brought(loaded.manifest)) is not None:
                streams[stream] = new
        return streams

    def _prepared(self, share: RunShare, name: str, *, waiting: bool) -> Loaded | None:
        writer = share.writer
        change = PrepareFiles(commit=name, files=share.files, schemas=share.schemas, run=share.run)
        while True:
            transaction = Transaction(id=self._run.ids(), at=timestamp(self._run.clock.now()), change=change)
            outcome = commit_transaction(writer.store, writer.loaded, transaction, clock=self._run.clock)
            if isinstance(outcome, Loaded):
                writer.accept(outcome)
                return outcome
            assert isinstance(outcome, Conflict)
            if outcome.undecided is None:
                self._refuse(share, outcome, name)
                return None
            if not waiting:
                return None
            self._run.decisions.await_or_abort(outcome.undecided, writer=self._run.writer_id, clock=self._run.clock)
            catch_up(writer)

    def _refuse(self, share: RunShare, conflict: Conflict, name: str) -> None:
        """Raise why the run does not fit a stream, unless it only needs another name: a greater commit is there."""
        writer = share.writer
        catch_up(writer)
        manifest = writer.loaded.manifest
        if manifest.settled is not msgspec.UNSET and manifest.settled >= name:
            return
        raise refused(share, conflict)

    def _settle(self, decision: Decision) -> dict[str, Manifest]:
        """The states with the run in them, and logs that say so without a look at the decision."""

        def settle(share: RunShare) -> None:
            catch_up(share.writer)
            share.writer.store.publish(share.writer.loaded, run_ended=True)

        for_each(self._run.shares, settle, self._run.pool)
        self._run.decisions.say_shown(decision.id)
        return {share.writer.stream: share.writer.loaded.manifest for share in self._run.shares}

    def _against(self, name: str) -> Decision:
        return aborted(name, at=self._run.clock.now(), writer=self._run.writer_id, run=self._run.run_id)

    def _given_up(self, name: str) -> Decision | None:
        """After an error: decide against the run, so that nobody waits for it; None where that failed, too."""
        try:
            return self._run.decisions.decide(self._against(name))
        except SingerlakeError:
            return None


class DatabaseCommit:
    """Commits one run to all its streams, which one database keeps. The run has a share at least."""

    def __init__(self, run: AtomicRun) -> None:
        self._run = run

    def commit(self) -> dict[str, Manifest]:
        for share in self._run.shares:
            share.writer.open()
            share.writer.confirm(share.files)
        backoff = between_tries(self._run.clock)
        for _ in range(ATTEMPTS):
            outcome = self._attempt()
            if isinstance(outcome, CommittedTogether):
                return self._shown(outcome)
            before = self._positions()
            if isinstance(outcome, Outdated):
                backoff.wait()
            for share in self._run.shares:
                catch_up(share.writer)
            if isinstance(outcome, RefusedShare) and self._positions() == before:
                raise refused(next(p for p in self._run.shares if p.writer.stream == outcome.stream), outcome.conflict)
        raise TooManyConflictsError(
            f"other writers came first {ATTEMPTS} times in a row",
            hint="run again, with fewer writers on these streams",
            tap=self._run.shares[0].writer.tap,
        )

    def _attempt(self) -> CommittedTogether | Outdated | RefusedShare:
        """One try, under a name of its own."""
        name, at = self._run.new_name(), timestamp(self._run.clock.now())
        shares = [
            Share(
                share.writer.stream,
                share.writer.store,
                share.writer.loaded,
                Transaction(
                    id=self._run.ids(),
                    at=at,
                    change=CommitFiles(commit=name, files=share.files, schemas=share.schemas, run=share.run),
                ),
            )
            for share in self._run.shares
        ]
        return _together(self._run.shares[0]).commit_together(name, shares, partial(self._run.committed, name))

    def _shown(self, committed: CommittedTogether) -> dict[str, Manifest]:
        """The states with the run in them, once those who have the lake alone see it in all of its streams."""
        name = committed.decision.id
        for share, loaded in zip(self._run.shares, committed.states, strict=True):
            share.writer.accept(loaded)
        try:
            self._run.decisions.decide(committed.decision)
            for share in self._run.shares:
                _together(share).completion.done(name)
            for_each(self._run.shares, _publish, self._run.pool)
        except SingerlakeError as error:
            raise not_shown(self._run.shares[0], error) from error
        self._run.decisions.say_shown(name)
        return {share.writer.stream: share.writer.loaded.manifest for share in self._run.shares}

    def _positions(self) -> list[object]:
        return [share.writer.loaded.manifest.transaction for share in self._run.shares]


def _publish(share: RunShare) -> None:
    share.writer.store.publish(share.writer.loaded, run_ended=True)


def _together(share: RunShare) -> TogetherStore:
    # Which ``require_one_way`` has found out.
    return cast(TogetherStore, share.writer.store)
