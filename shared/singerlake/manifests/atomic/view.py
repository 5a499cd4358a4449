"""One view of several streams of a tap, in which no atomic run is half: section 11.6 of ``shared/docs/format.md``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from singerlake.errors import LineageChangedError, UnknownNameError
from singerlake.format.decision import Decision
from singerlake.format.state.model import Manifest
from singerlake.manifests.atomic.decisions import Decisions, Listed

_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class StreamView:
    """A stream's state, and the offset before which the view ends; it is ``next_offset`` at most."""

    manifest: Manifest
    end: int


def view(decisions: Decisions, load: Callable[[], Mapping[str, Manifest]]) -> dict[str, StreamView]:
    """The streams that ``load`` gives, without what was decided while they were loaded. Raises what storage and
    ``load`` raise, ``CorruptObjectError`` and ``UnsupportedFormatError``."""
    before = decisions.listed()
    states = load()
    ends = _ends(decisions, before, states, decisions.listed())
    return {stream: StreamView(state, ends[stream]) for stream, state in states.items()}


def view_as_of(decisions: Decisions, commit: str, load: Callable[[], Mapping[str, Manifest]]) -> dict[str, StreamView]:
    """The streams as they were after the atomic run whose commit has this name. Raises as ``view``,
    ``UnknownNameError`` where there is no such commit, and ``LineageChangedError`` where a stream was rebuilt or
    dropped since then."""
    before = decisions.listed()
    _require(before, commit)
    states = load()
    after = decisions.listed()
    ends = _ends(decisions, before, states, after)
    every = _read(decisions, after.names)
    if not any(decision.id == commit for decision in every):
        raise UnknownNameError(
            f"commit {commit!r} was decided against: nothing of it is in the lake",
            hint="'singerlake ls --commits' lists those that took place",
        )
    return {
        stream: StreamView(state, _end_as_of(stream, state, every, commit, ends[stream]))
        for stream, state in states.items()
    }


def _ends(decisions: Decisions, before: Listed, states: Mapping[str, Manifest], after: Listed) -> dict[str, int]:
    """The offset before which each stream ends, so that each run is in all of its streams or in none."""
    known, read = frozenset(before.names), set[str]()
    cut: list[Decision] = []
    whole: list[Decision] = []
    ends = {stream: state.next_offset for stream, state in states.items()}
    names = [name for name in after.names if name not in known or name not in after.shown]
    while names:
        read.update(names)
        for decision in _read(decisions, names):
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


def _read(decisions: Decisions, names: Iterable[str]) -> list[Decision]:
    """Those of these commits that took place, in their order."""
    wanted = list(names)
    if len(wanted) < 2:
        found = [decisions.get(name) for name in wanted]
    else:
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="commits") as executor:
            found = list(executor.map(decisions.get, wanted))
    return [decision for decision in found if decision is not None and decision.committed]


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


def _end_as_of(stream: str, state: Manifest, every: Iterable[Decision], commit: str, last: int) -> int:
    """``last``: where a view ends that is of no commit."""
    end: int | None = None
    for decision in every:
        brought = decision.streams.get(stream)
        if brought is None:
            continue
        if brought.lineage != state.lineage:
            if decision.id <= commit:
                raise LineageChangedError(
                    f"stream {stream!r} was rebuilt or dropped after commit {decision.id}",
                    hint="leave this stream out, or choose a later commit",
                    stream=stream,
                )
            continue
        if decision.id <= commit:
            end = brought.end
        elif end is None:
            end = brought.offset
    return last if end is None else min(end, last)


def _require(listed: Listed, commit: str) -> None:
    if commit not in listed.names:
        some = f"the newest is {listed.names[-1]}" if listed.names else "this tap has none"
        raise UnknownNameError(f"there is no commit {commit!r}", hint=f"'singerlake ls --commits' lists them; {some}")
