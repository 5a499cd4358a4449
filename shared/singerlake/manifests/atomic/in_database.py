"""The commit of an atomic run whose streams are all in one database: one transaction there, then the lake shows it.
Section 11.6 of ``shared/docs/format.md``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import cast

import msgspec

from singerlake.clock import Backoff, Clock, IdSource, timestamp
from singerlake.errors import RetryableError, TooManyConflictsError
from singerlake.format.decision import Brought, Decision, commit_name
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import CommitFiles, Transaction
from singerlake.manifests.atomic.decisions import Decisions
from singerlake.manifests.atomic.parts import Part, catch_up, not_shown, refused
from singerlake.manifests.atomic.together import CommittedTogether, RefusedShare, Share, TogetherStore
from singerlake.manifests.port import Outdated
from singerlake.manifests.writing.side_by_side import for_each

ATTEMPTS = 100
_FIRST_WAIT, _LONGEST_WAIT = 0.01, 5.0


class DatabaseCommit:
    """Commits one run to all its streams, which stores of one kind keep in one database. ``parts`` is not empty;
    ``pool`` publishes several streams at a time where storage is far; None: one after the other."""

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
        self._parts = parts
        self._decisions = decisions
        self._run_id = run_id
        self._writer_id = writer_id
        self._clock = clock
        self._ids = ids
        self._pool = pool

    def commit(self) -> dict[str, Manifest]:
        """As ``RunCommit.commit``."""
        for part in self._parts:
            part.writer.open()
            part.writer.confirm(part.files)
        backoff = Backoff(self._clock, first=_FIRST_WAIT, longest=_LONGEST_WAIT)
        for _ in range(ATTEMPTS):
            outcome = self._attempt()
            if isinstance(outcome, CommittedTogether):
                return self._shown(outcome)
            before = self._positions()
            if isinstance(outcome, Outdated):
                backoff.wait()
            for part in self._parts:
                catch_up(part.writer)
            if isinstance(outcome, RefusedShare) and self._positions() == before:
                raise refused(next(p for p in self._parts if p.writer.stream == outcome.stream), outcome.conflict)
        raise TooManyConflictsError(
            f"other writers came first {ATTEMPTS} times in a row",
            hint="run again, with fewer writers on these streams",
            tap=self._parts[0].writer.tap,
        )

    def _attempt(self) -> CommittedTogether | Outdated | RefusedShare:
        """One try, under a name of its own."""
        settled = (part.writer.loaded.manifest.settled for part in self._parts)
        now = self._clock.now()
        name = commit_name(now, self._ids(), after=[at for at in settled if at is not msgspec.UNSET])

        def decide(streams: Mapping[str, Brought]) -> Decision:
            return Decision(
                id=name,
                at=timestamp(now),
                run=self._run_id,
                writer=self._writer_id,
                committed=True,
                streams=dict(streams),
            )

        shares = [
            Share(
                part.writer.stream,
                part.writer.store,
                part.writer.loaded,
                Transaction(
                    id=self._ids(),
                    at=timestamp(now),
                    change=CommitFiles(commit=name, files=part.files, schemas=part.schemas, run=part.run),
                ),
            )
            for part in self._parts
        ]
        return _together(self._parts[0]).commit_together(name, shares, decide)

    def _shown(self, committed: CommittedTogether) -> dict[str, Manifest]:
        """The states with the run in them, once those who have the lake alone see it in all of its streams."""
        name = committed.decision.id
        for part, loaded in zip(self._parts, committed.states, strict=True):
            part.writer.accept(loaded)
        try:
            self._decisions.decide(committed.decision)
            for part in self._parts:
                _together(part).completion.done(name)
            for_each(self._parts, _publish, self._pool)
        except RetryableError as error:
            raise not_shown(self._parts[0]) from error
        self._decisions.say_shown(name)
        return {part.writer.stream: part.writer.loaded.manifest for part in self._parts}

    def _positions(self) -> list[object]:
        return [part.writer.loaded.manifest.transaction for part in self._parts]


def _publish(part: Part) -> None:
    part.writer.store.publish(part.writer.loaded, run_ended=True)


def _together(part: Part) -> TogetherStore:
    # Which ``require_one_way`` has found out.
    return cast(TogetherStore, part.writer.store)
