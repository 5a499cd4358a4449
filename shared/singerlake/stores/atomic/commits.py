"""The commits of a tap's atomic runs, for those who look at them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from singerlake.format.decision import Brought, Decision
from singerlake.stores.atomic.decisions import Decisions


@dataclass(frozen=True, slots=True)
class Commit:
    """The commit of one atomic run. ``name`` is what ``as_of`` and ``from_commit`` take, ``at`` when it was decided
    (RFC 3339 in UTC), ``run`` the id of the run where it is known, ``writer`` who decided. ``streams`` says of each
    stream by name what the run brought to it. Not ``committed``: the run was decided against, and nothing of it is in
    the lake."""

    name: str
    at: str
    run: str | None
    writer: str
    streams: Mapping[str, Brought]
    committed: bool = True

    @property
    def messages(self) -> int:
        """How many messages the run brought to all streams."""
        return sum(brought.messages for brought in self.streams.values())


def commits_of(decisions: Decisions, *, aborted: bool = False) -> list[Commit]:
    """The commits that took place, oldest first; with ``aborted`` also those that were decided against. Raises what
    storage raises, ``CorruptObjectError`` and ``UnsupportedFormatError``."""
    every = decisions.all_of(decisions.listed().names)
    return [_commit(decision) for decision in every if decision.committed or aborted]


def _commit(decision: Decision) -> Commit:
    return Commit(decision.id, decision.at, decision.run, decision.writer, decision.streams, decision.committed)
