"""The commit of an atomic run: in a log every stream prepared, one decision, every stream settled; in a database one
transaction. Section 11.6 of ``shared/docs/format.md``."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

import msgspec

from singerlake.clock import Clock, IdSource, timestamp
from singerlake.errors import RetryableError, SingerlakeError, TooManyConflictsError
from singerlake.format.decision import Brought, Decision, aborted, commit_name
from singerlake.format.state.additions import Conflict
from singerlake.format.state.model import Manifest
from singerlake.format.state.prepared import brought
from singerlake.format.state.transactions import PrepareFiles, Transaction
from singerlake.manifests.atomic.decisions import Decisions
from singerlake.manifests.atomic.in_database import DatabaseCommit
from singerlake.manifests.atomic.parts import Part, catch_up, not_shown, refused, require_one_way
from singerlake.manifests.commit import commit_transaction
from singerlake.manifests.port import Loaded
from singerlake.manifests.writing.side_by_side import for_each

ATTEMPTS = 20


class RunCommit:
    """Commits one run to all its streams, at once or not at all. ``pool`` prepares or publishes several streams at a
    time where storage is far; None: one after the other."""

    def __init__(
        self,
        parts: Sequence[Part],
        decisions: Decisions,
        *,
        run_id: str,
        writer_id: str,
        clock: Clock,
        ids: IdSource,
        pool: Executor | None = None,
    ) -> None:
        # In one order for everybody: of two runs that wait for each other's streams, one always goes on.
        self._parts = sorted(parts, key=lambda part: part.writer.stream)
        self._decisions = decisions
        self._run_id = run_id
        self._writer_id = writer_id
        self._clock = clock
        self._ids = ids
        self._pool = pool

    def commit(self) -> dict[str, Manifest]:
        """The state of each stream with the run in it. When this returns, readers see it in all of them.

        Raises ``SettingError`` where the stores cannot do that, ``CommitRefusedError``, ``StreamClosedError``,
        ``TooManyConflictsError``, ``MissingFileError`` and what storage raises: nothing is visible then, but after
        ``UnknownOutcomeError`` it may be.
        """
        require_one_way(self._parts)
        if not self._parts:
            return {}
        if self._parts[0].writer.store.abilities.together:
            return self._in_database()
        for attempt in range(ATTEMPTS):
            decision = self._attempt(waiting=attempt > 0)
            if decision.committed:
                try:
                    return self._settle(decision)
                except RetryableError as error:
                    raise not_shown(self._parts[0]) from error
            self._catch_up()
        raise TooManyConflictsError(
            f"other atomic runs came first {ATTEMPTS} times in a row",
            hint="run again, with fewer writers on these streams",
            tap=self._parts[0].writer.tap,
        )

    def _in_database(self) -> dict[str, Manifest]:
        return DatabaseCommit(
            self._parts,
            self._decisions,
            run_id=self._run_id,
            writer_id=self._writer_id,
            clock=self._clock,
            ids=self._ids,
            pool=self._pool,
        ).commit()

    def _attempt(self, *, waiting: bool) -> Decision:
        """What was decided of one try, under a name of its own. ``waiting``: for the runs that are in its way, stream
        by stream, since somebody was."""
        settled = (part.writer.loaded.manifest.settled for part in self._parts)
        name = commit_name(self._clock.now(), self._ids(), after=[at for at in settled if at is not msgspec.UNSET])
        try:
            streams = self._prepare(name, waiting=waiting)
            if streams is None:
                return self._decisions.decide(self._against(name))
            for part in self._parts:
                part.writer.confirm(part.files)
            return self._decisions.decide(self._for(name, streams))
        except BaseException as error:
            decision = self._given_up(name)
            if decision is not None and decision.committed and isinstance(error, SingerlakeError):
                return decision
            raise

    def _prepare(self, name: str, *, waiting: bool) -> dict[str, Brought] | None:
        """What the run brings to each stream, once it is in all their logs; None where another run is in the way."""
        prepared: dict[str, Loaded | None] = {}

        def prepare(part: Part) -> None:
            prepared[part.writer.stream] = self._prepared(part, name, waiting=waiting)

        for_each(self._parts, prepare, None if waiting else self._pool)
        streams: dict[str, Brought] = {}
        for stream, loaded in prepared.items():
            if loaded is None:
                return None
            if loaded.manifest.prepared is not msgspec.UNSET and (new := brought(loaded.manifest)) is not None:
                streams[stream] = new
        return streams

    def _prepared(self, part: Part, name: str, *, waiting: bool) -> Loaded | None:
        writer = part.writer
        change = PrepareFiles(commit=name, files=part.files, schemas=part.schemas, run=part.run)
        while True:
            transaction = Transaction(id=self._ids(), at=timestamp(self._clock.now()), change=change)
            outcome = commit_transaction(writer.store, writer.loaded, transaction, clock=self._clock)
            if isinstance(outcome, Loaded):
                writer.accept(outcome)
                return outcome
            assert isinstance(outcome, Conflict)
            if outcome.undecided is None:
                self._refuse(part, outcome, name)
                return None
            if not waiting:
                return None
            self._decisions.await_or_abort(outcome.undecided, writer=self._writer_id, clock=self._clock)
            catch_up(writer)

    def _refuse(self, part: Part, conflict: Conflict, name: str) -> None:
        """Raise why the run does not fit a stream, unless it only needs another name: a greater commit is there."""
        writer = part.writer
        catch_up(writer)
        manifest = writer.loaded.manifest
        if manifest.settled is not msgspec.UNSET and manifest.settled >= name:
            return
        raise refused(part, conflict)

    def _settle(self, decision: Decision) -> dict[str, Manifest]:
        """The states with the run in them, and logs that say so without a look at the decision."""

        def settle(part: Part) -> None:
            catch_up(part.writer)
            part.writer.store.publish(part.writer.loaded, run_ended=True)

        for_each(self._parts, settle, self._pool)
        self._decisions.say_shown(decision.id)
        return {part.writer.stream: part.writer.loaded.manifest for part in self._parts}

    def _catch_up(self) -> None:
        for part in self._parts:
            catch_up(part.writer)

    def _for(self, name: str, streams: dict[str, Brought]) -> Decision:
        at = timestamp(self._clock.now())
        return Decision(id=name, at=at, run=self._run_id, writer=self._writer_id, committed=True, streams=streams)

    def _against(self, name: str) -> Decision:
        return aborted(name, at=self._clock.now(), writer=self._writer_id, run=self._run_id)

    def _given_up(self, name: str) -> Decision | None:
        """After an error: decide against the run, so that nobody waits for it; None where that failed, too."""
        try:
            return self._decisions.decide(self._against(name))
        except SingerlakeError:
            return None
