"""The commit of an atomic run in the store ``log``: every stream prepared, one decision, every stream settled.
Section 11.6 of ``shared/docs/format``."""

from __future__ import annotations

import msgspec

from singerlake.clock import timestamp
from singerlake.errors import SingerlakeError, TooManyConflictsError
from singerlake.format.decision import Brought, Decision, aborted
from singerlake.format.state.additions import Conflict
from singerlake.format.state.model import Manifest
from singerlake.format.state.prepared import brought
from singerlake.format.state.transactions import PrepareFiles, Transaction
from singerlake.stores.atomic.parts import AtomicRun, Part, catch_up, not_shown, refused
from singerlake.stores.commit import commit_transaction
from singerlake.stores.port import Loaded
from singerlake.stores.writing.bounded_map import for_each

ATTEMPTS = 20


class LogCommit:
    """Commits one run to all its streams, each with a log of its own. The run has a part at least."""

    def __init__(self, run: AtomicRun) -> None:
        self._run = run

    def commit(self) -> dict[str, Manifest]:
        """As ``commit_run``."""
        for attempt in range(ATTEMPTS):
            decision = self._attempt(waiting=attempt > 0)
            if decision.committed:
                try:
                    return self._settle(decision)
                except SingerlakeError as error:
                    raise not_shown(self._run.parts[0], error) from error
            for part in self._run.parts:
                catch_up(part.writer)
        raise TooManyConflictsError(
            f"other atomic runs came first {ATTEMPTS} times in a row",
            hint="run again, with fewer writers on these streams",
            tap=self._run.parts[0].writer.tap,
        )

    def _attempt(self, *, waiting: bool) -> Decision:
        """What was decided of one try, under a name of its own. ``waiting``: for the runs that are in its way, stream
        by stream, since somebody was."""
        name = self._run.new_name()
        try:
            streams = self._prepare(name, waiting=waiting)
            if streams is None:
                return self._run.decisions.decide(self._against(name))
            for part in self._run.parts:
                part.writer.confirm(part.files)
            return self._run.decisions.decide(self._run.committed(name, streams))
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

        for_each(self._run.parts, prepare, None if waiting else self._run.pool)
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
            transaction = Transaction(id=self._run.ids(), at=timestamp(self._run.clock.now()), change=change)
            outcome = commit_transaction(writer.store, writer.loaded, transaction, clock=self._run.clock)
            if isinstance(outcome, Loaded):
                writer.accept(outcome)
                return outcome
            assert isinstance(outcome, Conflict)
            if outcome.undecided is None:
                self._refuse(part, outcome, name)
                return None
            if not waiting:
                return None
            self._run.decisions.await_or_abort(outcome.undecided, writer=self._run.writer_id, clock=self._run.clock)
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

        for_each(self._run.parts, settle, self._run.pool)
        self._run.decisions.say_shown(decision.id)
        return {part.writer.stream: part.writer.loaded.manifest for part in self._run.parts}

    def _against(self, name: str) -> Decision:
        return aborted(name, at=self._run.clock.now(), writer=self._run.writer_id, run=self._run.run_id)

    def _given_up(self, name: str) -> Decision | None:
        """After an error: decide against the run, so that nobody waits for it; None where that failed, too."""
        try:
            return self._run.decisions.decide(self._against(name))
        except SingerlakeError:
            return None
