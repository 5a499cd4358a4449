"""One view of several streams of a tap, in which no atomic run is half: section 11.6 of ``shared/docs/format``."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import msgspec

from singerlake.errors import LineageChangedError, RetryableError, UnknownNameError
from singerlake.format.decision import Decision
from singerlake.format.state.model import Manifest
from singerlake.interpreter.threads import side_by_side
from singerlake.storage.port import Storage
from singerlake.stores.atomic.decisions import AT_ONCE, Decisions, Listed

Means = Callable[[str], bool]
"""Whether a reader means to read a stream of this name."""


def only_what_is_loaded(stream: str) -> bool:
    """For a reader of streams that were named: of others it wants nothing."""
    return False


@dataclass(frozen=True, slots=True)
class StreamView:
    """A stream's state, and the offset before which the view ends; it is ``next_offset`` at most."""

    manifest: Manifest
    end: int


def take_view(
    storage: Storage,
    tap: str,
    loads: Mapping[str, Callable[[], Manifest]],
    as_of: str | None = None,
    means: Means = only_what_is_loaded,
) -> dict[str, StreamView]:
    """One view of the streams whose states ``loads`` give. Raises as ``view``, with ``as_of`` as ``view_as_of``."""
    decisions, load = Decisions(storage, tap), partial(load_each, loads, near=storage.near)
    return view(decisions, load) if as_of is None else view_as_of(decisions, as_of, load, means)


def view(
    decisions: Decisions, load: Callable[[], Mapping[str, Manifest]], before: Listed | None = None
) -> dict[str, StreamView]:
    """The streams that ``load`` gives, without what was decided meanwhile. ``before``: what was decided before, if
    known. Raises what storage and ``load`` raise, ``CorruptObjectError`` and ``UnsupportedFormatError``."""
    before = decisions.listed() if before is None else before
    states = load()
    ends = _ends(decisions, before, states, decisions.listed())
    return {stream: StreamView(state, ends[stream]) for stream, state in states.items()}


def view_as_of(
    decisions: Decisions,
    commit: str,
    load: Callable[[], Mapping[str, Manifest]],
    means: Means = only_what_is_loaded,
) -> dict[str, StreamView]:
    """The streams as they were after the atomic run of this commit. ``means`` is asked of streams that ``load`` does
    not give. Raises as ``view``, ``UnknownNameError`` where there is no such commit, ``LineageChangedError`` where a
    stream was rebuilt or dropped since, and ``RetryableError`` where one does not show the run yet."""
    before = decisions.listed()
    # A stream that is not there is told before a commit that is not there.
    states = load()
    require_commit(decisions, commit, before)
    after = decisions.listed()
    ends = _ends(decisions, before, states, after)
    every = taken_place(decisions, after.names)
    _require_every(states, every, commit, means)
    as_of = {stream: end_as_of(stream, state, every, commit, last=ends[stream]) for stream, state in states.items()}
    if any(decision.id == commit and _is_half(decision, states, ends) for decision in every):
        raise RetryableError(
            f"commit {commit} was decided, and not every stream shows it yet", hint="read again in a moment"
        )
    return {stream: StreamView(state, as_of[stream]) for stream, state in states.items()}


def offsets_behind(
    decisions: Decisions, commit: str, states: Mapping[str, Manifest], means: Means = only_what_is_loaded
) -> dict[str, int]:
    """For each stream the offset at which what came after a commit begins. Raises as ``view_as_of``."""
    listed = decisions.listed()
    require_commit(decisions, commit, listed)
    every = taken_place(decisions, listed.names)
    _require_every(states, every, commit, means)
    return {stream: end_as_of(stream, state, every, commit) for stream, state in states.items()}


def require_no_dropped(decisions: Decisions, commit: str, known: Container[str], means: Means) -> None:
    """Raise ``LineageChangedError`` where a commit up to ``commit`` brought messages to a stream that ``means`` says
    yes to and that is not ``known``: it was dropped. A commit that is not there is for others to refuse."""
    names = decisions.listed().names
    if commit in names:
        _require_every(known, taken_place(decisions, names), commit, means)


def _require_every(known: Container[str], every: Iterable[Decision], commit: str, means: Means) -> None:
    upto = {stream: decision.id for decision in every if decision.id <= commit for stream in decision.streams}
    for stream, last in upto.items():
        if stream not in known and means(stream):
            raise _changed(stream, None, last, None)


def end_as_of(stream: str, state: Manifest, every: Iterable[Decision], commit: str, *, last: int | None = None) -> int:
    """The offset before which a stream ends as of a commit, and at which what came after it begins. Pure. ``every`` are
    the commits that took place, in their order; ``last`` is where a view ends that is of no commit, None: where
    ``state`` does, as does a stream of no commit. Raises ``LineageChangedError`` where the stream was rebuilt or
    dropped since."""
    last = state.next_offset if last is None else last
    end, foreign, again = None, None, None
    for decision in every:
        brought = decision.streams.get(stream)
        if brought is None:
            continue
        own = brought.lineage == state.lineage
        if decision.id <= commit:
            end, foreign = (brought.end, None) if own else (None, decision.id)
        elif own:
            end, again = brought.offset if end is None else end, decision.id
            break
    if foreign is not None:
        raise _changed(stream, state, foreign, again)
    return last if end is None else min(end, last)


def _changed(stream: str, state: Manifest | None, last: str, again: str | None) -> LineageChangedError:
    """``last`` is the commit up to which the stream had other messages, ``again`` the first that it has now, if any."""
    if state is None or (state.lineage is not None and not state.versions):
        what = "was dropped"
    elif state.lineage is None:
        what = "lost its manifest"
    elif [run.kind for run in state.runs if run.kind in ("drop", "rebuild")][-1:] == ["drop"]:
        what = "was dropped and captured anew"
    else:
        what = "was rebuilt or dropped"
    return LineageChangedError(
        f"stream {stream!r} {what} after commit {last}",
        hint="leave this stream out" + (f", or choose commit {again} or a later one" if again else ""),
        stream=stream,
    )


def require_commit(decisions: Decisions, commit: str, listed: Listed) -> None:
    """Raise ``UnknownNameError`` where a commit is not among those listed, or was decided against."""
    if commit not in listed.names:
        some = f"the newest is {listed.names[-1]}" if listed.names else "this tap has none"
        raise UnknownNameError(
            f"there is no commit {commit!r}", hint=f"'singerlake ls --commits' lists them; {some}", tap=decisions.tap
        )
    decision = decisions.get(commit)
    if decision is None or not decision.committed:
        raise UnknownNameError(
            f"commit {commit!r} was decided against: nothing of it is in the lake",
            hint="'singerlake ls --commits' lists those that took place",
            tap=decisions.tap,
        )


def _ends(decisions: Decisions, before: Listed, states: Mapping[str, Manifest], after: Listed) -> dict[str, int]:
    """The offset before which each stream ends, so that each run is in all of its streams or in none."""
    known, read = frozenset(before.names), set[str]()
    cut: list[Decision] = []
    whole: list[Decision] = []
    ends = {stream: state.next_offset for stream, state in states.items()}
    # What was shown later may have been so between two loads.
    names = [name for name in after.names if name not in known or name not in before.shown]
    while names:
        read.update(names)
        for decision in taken_place(decisions, names):
            (whole if decision.id in known else cut).append(decision)
        while True:
            ends = {stream: _end(stream, state, cut) for stream, state in states.items()}
            half = [decision for decision in whole if _is_half(decision, states, ends)]
            if not half:
                break
            cut += half
            whole = [decision for decision in whole if decision not in half]
        names = [name for name in _behind(cut, states, ends, after) if name not in read]
    return ends


def _behind(cut: list[Decision], states: Mapping[str, Manifest], ends: Mapping[str, int], after: Listed) -> list[str]:
    """The commits whose messages may lie behind a cut. In each stream, names ascend. A listing in several requests may
    have one of these, and not the one before it."""
    oldest = min((decision.id for decision in cut), default="")
    shorter = [state.settled for stream, state in states.items() if ends[stream] < state.next_offset]
    newest = max((name for name in shorter if name is not msgspec.UNSET), default="")
    return [name for name in after.names if oldest < name <= newest]


def taken_place(decisions: Decisions, names: Iterable[str]) -> list[Decision]:
    """Those of these commits that took place, in their order. Raises as ``Decisions.get``."""
    return [decision for decision in decisions.all_of(names) if decision.committed]


def load_each(loads: Mapping[str, Callable[[], Manifest]], *, near: bool) -> dict[str, Manifest]:
    """The states that ``loads`` give: one after the other where storage is ``near``, else several at a time."""
    threads = 1 if near else AT_ONCE
    states = side_by_side(lambda load: load(), list(loads.values()), threads=threads, name="streams")
    return dict(zip(loads, states, strict=True))


def _is_half(decision: Decision, states: Mapping[str, Manifest], ends: Mapping[str, int]) -> bool:
    """Whether a stream ends before the run's messages do; a stream of another lineage never has them."""
    return any(
        stream in states and states[stream].lineage == brought.lineage and ends[stream] < brought.end
        for stream, brought in decision.streams.items()
    )


def _end(stream: str, state: Manifest, cut: Iterable[Decision]) -> int:
    brought = (decision.streams.get(stream) for decision in cut)
    offsets = (each.offset for each in brought if each is not None and each.lineage == state.lineage)
    return min((*offsets, state.next_offset))
