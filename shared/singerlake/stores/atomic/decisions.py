"""The decisions about a tap's atomic runs, each created once: section 11.6 of ``shared/docs/format``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from singerlake.clock import Backoff, Clock
from singerlake.errors import CorruptObjectError, SingerlakeError, StorageUnavailableError, UnknownOutcomeError
from singerlake.format import layout
from singerlake.format.decision import Brought, Decision, aborted, decision_from_json, decision_to_json
from singerlake.interpreter.threads import side_by_side
from singerlake.storage.port import Storage

PATIENCE = 60.0
"""Seconds that a writer waits for the decision about a run that is in its way, before it decides against it."""
AT_ONCE = 16
"""Requests under way, to read several."""
_FIRST_LOOK, _LONGEST_LOOK = 0.05, 2.0
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Listed:
    """The names of decided commits, in their order. Those in ``shown`` need no look at their streams."""

    names: tuple[str, ...]
    shown: frozenset[str]


class Decisions:
    """The decisions about one tap's runs. Every method raises what storage raises."""

    def __init__(self, storage: Storage, tap: str) -> None:
        self._storage = storage
        self.tap = tap
        self._prefix = layout.commits_prefix(tap)

    @property
    def near(self) -> bool:
        """Whether they are on near storage."""
        return self._storage.near

    def listed(self) -> Listed:
        """All commits that are decided, by one listing."""
        names: list[str] = []
        shown: set[str] = set()
        for entry in self._storage.list(self._prefix):
            object_name = entry.key.removeprefix(self._prefix)
            if (name := layout.commit_name_in(object_name)) is not None:
                names.append(name)
            elif (name := layout.shown_commit_in(object_name)) is not None:
                shown.add(name)
        return Listed(tuple(sorted(names)), frozenset(shown))

    def get(self, name: str) -> Decision | None:
        """What was decided; None: nothing yet. Raises ``CorruptObjectError``, ``UnsupportedFormatError``."""
        key = layout.commit_key(self.tap, name)
        stored = self._storage.get(key)
        return decision_from_json(stored.body, key=key) if stored else None

    def all_of(self, names: Iterable[str]) -> list[Decision]:
        """The decisions about these commits, in their order, without those that are not decided. Raises as ``get``."""
        found = side_by_side(self.get, list(names), threads=1 if self.near else AT_ONCE, name="commits")
        return [decision for decision in found if decision is not None]

    def decide(self, decision: Decision) -> Decision:
        """Decide, unless that was done before; gives the decision that counts. Raises ``UnknownOutcomeError`` where no
        answer came and reading back did not show one; it may still take effect then."""
        key, body = layout.commit_key(self.tap, decision.id), decision_to_json(decision)
        lost: UnknownOutcomeError | None = None
        for _ in range(_TRIES):
            try:
                # Written or refused: what lies there now counts, also where it is one's own by a request sent twice.
                self._storage.put(key, body, if_absent=True)
            except UnknownOutcomeError as error:
                lost = error
            except StorageUnavailableError:
                if lost is None:
                    raise
            there = self._read_back(decision.id)
            if there is not None:
                if not there.committed:
                    self.say_shown(decision.id)
                return there
            if lost is None:
                raise CorruptObjectError("a decision does not read back", hint="run again", key=key)
        assert lost is not None
        raise lost

    def _read_back(self, name: str) -> Decision | None:
        try:
            return self.get(name)
        except StorageUnavailableError as error:
            raise UnknownOutcomeError(
                "a decision about an atomic run was sent, and could not be read back",
                hint="run again; nothing is lost",
                key=layout.commit_key(self.tap, name),
            ) from error

    def is_shown(self, name: str) -> bool:
        """Whether it was noted that no stream has to be looked at any more for a commit."""
        return self._storage.head(layout.shown_commit_key(self.tap, name)) is not None

    def say_shown(self, name: str) -> None:
        """Note that no stream has to be looked at any more for a commit; it saves readers a look, so it may fail."""
        with suppress(SingerlakeError):
            self._storage.put(layout.shown_commit_key(self.tap, name), b"")

    def await_or_abort(self, name: str, *, writer: str, clock: Clock, patience: float = PATIENCE) -> Decision:
        """Wait for the decision about a run; where none comes, ``writer`` decides against it. Raises as ``decide``."""
        began, backoff = clock.monotonic(), Backoff(clock, first=_FIRST_LOOK, longest=_LONGEST_LOOK)
        while (decision := self.get(name)) is None and clock.monotonic() - began < patience:
            backoff.wait()
        return decision or self.decide(aborted(name, at=clock.now(), writer=writer, run=None))


@dataclass(frozen=True, slots=True)
class Commit:
    """The commit of one atomic run. ``name`` is what ``as_of`` and ``from_commit`` take, ``at`` its time (RFC 3339,
    UTC), ``run`` the run's id if known, ``writer`` who decided, ``streams`` what came to each stream by name. Not
    ``committed``: nothing of the run is in the lake."""

    name: str
    at: str
    run: str | None
    writer: str
    streams: Mapping[str, Brought]
    committed: bool = True

    @property
    def messages(self) -> int:
        return sum(brought.messages for brought in self.streams.values())


def commits_of(decisions: Decisions, *, aborted: bool = False) -> list[Commit]:
    """The commits that took place, oldest first, and with ``aborted`` the others. Raises as ``all_of``, and storage."""
    every = decisions.all_of(decisions.listed().names)
    return [
        Commit(each.id, each.at, each.run, each.writer, each.streams, each.committed)
        for each in every
        if each.committed or aborted
    ]
