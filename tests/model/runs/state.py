"""What the model of atomic runs is made of: the logs of some streams, the decisions of their tap, and everybody who
calls the storage.

A log is a tuple of texts. ``x1`` is the first plain message of writer ``x``. ``?0a1`` prepares a run of writer ``a``,
``+0a1`` settles it where it was decided for, ``-0a1`` where it was decided against. ``0a1`` is the name of the commit:
the time by which it was called, the writer, and which of the writer's attempts it is. Each run brings one message to
each of its streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

Log = tuple[str, ...]


class Decision(NamedTuple):
    """What was decided about a commit. ``brought`` has its streams, each with the offset of its message; ``changed``:
    it was decided another way before."""

    name: str
    committed: bool
    brought: tuple[tuple[int, int], ...] = ()
    changed: bool = False


class Part(NamedTuple):
    """Where somebody stands with one stream: at its next call, or ``ready``, ``in the way``, ``caught up``, ``settled``
    or ``loaded``. It holds the first ``held`` records of the log, and behind them ``settles``, which it knows of the
    decision alone."""

    at: str
    held: int = 0
    settles: str = ""


class Actor(NamedTuple):
    """One writer of runs, plain writer or reader. ``at`` is what it is about, or ``!`` and what went wrong; ``parts``
    are its streams; ``name`` its commit, ``left`` its attempts or messages to come. A reader has ``before`` and
    ``after``, the commits of its two listings, ``cursor``, the last name of the page before, and ``since``, how long
    each stream was known to be when it began."""

    at: str
    parts: tuple[Part, ...] = ()
    name: str = ""
    left: int = 0
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    cursor: str = ""
    since: tuple[int, ...] = ()


class Flying(NamedTuple):
    """A request whose sender gave it up: a record under a number of a log, or a decision."""

    stream: int
    number: int
    record: str
    decision: Decision | None = None


class State(NamedTuple):
    """The storage, the network, and everybody. ``lost`` requests may yet go without an answer; ``told`` is how many
    messages of each stream anybody was told of: committed, or in a view."""

    logs: tuple[Log, ...]
    decisions: tuple[Decision, ...]
    flying: Flying | None
    lost: int
    told: tuple[int, ...]
    actors: tuple[Actor, ...]


Steps = Iterator[tuple[str, State]]
PartSteps = Iterator[tuple[str, State, Part]]

DONE = Actor("done")
STOPPED = Actor("stopped")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The bounds, and the rules. With a rule off it is a faulty variant.

    ``runs``: the streams of each writer of atomic runs, ``clocks``: the time by the clock of each, which stands still.
    ``attempts``: names that each tries. ``plain``: the stream of each plain writer, which writes ``messages``.
    ``views``: of each reader, who reads all streams. ``lost``: how many requests may go without an answer: done, not
    done, or done at any later time. ``patience``: a writer may decide against a run in its way at any moment; else it
    waits for ever. ``pages``: a listing is one call for each name. ``born`` is what each log begins with.
    """

    streams: int = 2
    runs: tuple[tuple[int, ...], ...] = ((0, 1),)
    clocks: tuple[int, ...] = (0, 0, 0)
    attempts: int = 2
    plain: tuple[int, ...] = ()
    messages: int = 1
    readers: int = 0
    views: int = 1
    lost: int = 0
    patience: bool = True
    pages: bool = False
    all_prepared: bool = True
    create_if_absent: bool = True
    decision_read_back: bool = True
    undecided_left_out: bool = True
    decision_counts: bool = True
    settled_first: bool = True
    decision_read: bool = True
    listed_again: bool = True
    cut_behind: bool = True
    greater_names: bool = True
    as_of_cut: bool = True
    one_order: bool = True

    def streams_of(self, place: int) -> tuple[int, ...]:
        """The streams of an actor, in the order of its parts."""
        if place < len(self.runs):
            return self.runs[place]
        place -= len(self.runs)
        return (self.plain[place],) if place < len(self.plain) else tuple(range(self.streams))

    def called(self, place: int) -> str:
        """What an actor is called: ``a``, ``b`` are writers of runs, ``x``, ``y`` plain writers."""
        if place < len(self.runs):
            return "abcdef"[place]
        place -= len(self.runs)
        return "xyz"[place] if place < len(self.plain) else "reader"

    def writer_of(self, name: str) -> tuple[int, ...]:
        """The streams of the run that has a commit of this name."""
        return self.runs["abcdef".index(name[1])]


def with_actor(state: State, place: int, actor: Actor) -> State:
    """``state`` where one of them moved on."""
    return state._replace(actors=(*state.actors[:place], actor, *state.actors[place + 1 :]))


def with_part(actor: Actor, which: int, part: Part) -> Actor:
    """``actor`` where it moved on with one stream."""
    return actor._replace(parts=(*actor.parts[:which], part, *actor.parts[which + 1 :]))


def decision_of(state: State, name: str) -> Decision | None:
    """What was decided about a commit; None: nothing yet."""
    return next((each for each in state.decisions if each.name == name), None)


def appended(state: State, stream: int, number: int, record: str) -> State | None:
    """``state`` with a record created under a number; None where one is there."""
    if number < len(state.logs[stream]):
        return None
    assert number == len(state.logs[stream])
    log = (*state.logs[stream], record)
    return state._replace(logs=(*state.logs[:stream], log, *state.logs[stream + 1 :]))


def decided(state: State, decision: Decision) -> State | None:
    """``state`` with a decision created; None where there is one."""
    if decision_of(state, decision.name) is not None:
        return None
    return state._replace(decisions=tuple(sorted((*state.decisions, decision))))


def told(state: State, lengths: dict[int, int]) -> State:
    """``state`` where somebody was told how long streams are."""
    longest = tuple(max(known, lengths.get(stream, 0)) for stream, known in enumerate(state.told))
    return state._replace(told=longest)
