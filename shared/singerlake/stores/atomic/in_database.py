"""The commit of an atomic run whose streams are all in one database: one transaction there, then the lake shows it.
Section 11.6 of ``shared/docs/format``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from singerlake.clock import timestamp
from singerlake.errors import SingerlakeError, TooManyConflictsError
from singerlake.format.decision import Brought, Decision
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import CommitFiles, Transaction
from singerlake.stores.atomic.parts import AtomicRun, Part, catch_up, not_shown, refused
from singerlake.stores.atomic.together import CommittedTogether, RefusedShare, Share, TogetherStore
from singerlake.stores.commit import ATTEMPTS, between_tries
from singerlake.stores.port import Outdated
from singerlake.stores.writing.bounded_map import for_each


class DatabaseCommit:
    """Commits one run to all its streams, which one database keeps. The run has a part at least."""

    def __init__(self, run: AtomicRun) -> None:
        self._run = run

    def commit(self) -> dict[str, Manifest]:
        """As ``commit_run``."""
        for part in self._run.parts:
            part.writer.open()
            part.writer.confirm(part.files)
        backoff = between_tries(self._run.clock)
        for _ in range(ATTEMPTS):
            outcome = self._attempt()
            if isinstance(outcome, CommittedTogether):
                return self._shown(outcome)
            before = self._positions()
            if isinstance(outcome, Outdated):
                backoff.wait()
            for part in self._run.parts:
                catch_up(part.writer)
            if isinstance(outcome, RefusedShare) and self._positions() == before:
                raise refused(next(p for p in self._run.parts if p.writer.stream == outcome.stream), outcome.conflict)
        raise TooManyConflictsError(
            f"other writers came first {ATTEMPTS} times in a row",
            hint="run again, with fewer writers on these streams",
            tap=self._run.parts[0].writer.tap,
        )

    def _attempt(self) -> CommittedTogether | Outdated | RefusedShare:
        """One try, under a name of its own."""
        name, at = self._run.new_name(), timestamp(self._run.clock.now())

        def decide(streams: Mapping[str, Brought]) -> Decision:
            return self._run.committed(name, streams)

        shares = [
            Share(
                part.writer.stream,
                part.writer.store,
                part.writer.loaded,
                Transaction(
                    id=self._run.ids(),
                    at=at,
                    change=CommitFiles(commit=name, files=part.files, schemas=part.schemas, run=part.run),
                ),
            )
            for part in self._run.parts
        ]
        return _together(self._run.parts[0]).commit_together(name, shares, decide)

    def _shown(self, committed: CommittedTogether) -> dict[str, Manifest]:
        """The states with the run in them, once those who have the lake alone see it in all of its streams."""
        name = committed.decision.id
        for part, loaded in zip(self._run.parts, committed.states, strict=True):
            part.writer.accept(loaded)
        try:
            self._run.decisions.decide(committed.decision)
            for part in self._run.parts:
                _together(part).completion.done(name)
            for_each(self._run.parts, _publish, self._run.pool)
        except SingerlakeError as error:
            raise not_shown(self._run.parts[0], error) from error
        self._run.decisions.say_shown(name)
        return {part.writer.stream: part.writer.loaded.manifest for part in self._run.parts}

    def _positions(self) -> list[object]:
        return [part.writer.loaded.manifest.transaction for part in self._run.parts]


def _publish(part: Part) -> None:
    part.writer.store.publish(part.writer.loaded, run_ended=True)


def _together(part: Part) -> TogetherStore:
    # Which ``require_one_way`` has found out.
    return cast(TogetherStore, part.writer.store)
