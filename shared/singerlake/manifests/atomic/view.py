"""One view of several streams of a tap, in which no atomic run is half: section 11.6 of ``shared/docs/format.md``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

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
    after = decisions.listed()
    known = frozenset(before.names)
    to_cut = [
        decision
        for decision in _read(decisions, (name for name in after.names if name not in known or name not in after.shown))
        if decision.id not in known or _is_half(decision, states)
    ]
    return {stream: StreamView(state, _end(stream, state, to_cut)) for stream, state in states.items()}


def view_as_of(decisions: Decisions, commit: str, load: Callable[[], Mapping[str, Manifest]]) -> dict[str, StreamView]:
    """The streams as they were after the atomic run whose commit has this name. Raises as ``view``,
    ``UnknownNameError`` where there is no such commit, and ``LineageChangedError`` where a stream was rebuilt or
    dropped since then."""
    listed = decisions.listed()
    states = load()
    _require(listed, commit)
    every = _read(decisions, listed.names)
    if not any(decision.id == commit for decision in every):
        raise UnknownNameError(
            f"commit {commit!r} was decided against: nothing of it is in the lake",
            hint="'singerlake ls --commits' lists those that took place",
        )
    return {stream: StreamView(state, _end_as_of(stream, state, every, commit)) for stream, state in states.items()}


def _read(decisions: Decisions, names: Iterable[str]) -> list[Decision]:
    """Those of these commits that took place, in their order."""
    wanted = list(names)
    if len(wanted) < 2:
        found = [decisions.get(name) for name in wanted]
    else:
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="commits") as executor:
            found = list(executor.map(decisions.get, wanted))
    return [decision for decision in found if decision is not None and decision.committed]


def _is_half(decision: Decision, states: Mapping[str, Manifest]) -> bool:
    """Whether a stream does not show the run yet; a stream of another lineage never will."""
    ends = ((states.get(stream), brought) for stream, brought in decision.streams.items())
    return any(
        state is not None and state.lineage == brought.lineage and state.next_offset < brought.end
        for state, brought in ends
    )


def _end(stream: str, state: Manifest, to_cut: Iterable[Decision]) -> int:
    brought = (decision.streams.get(stream) for decision in to_cut)
    offsets = (each.offset for each in brought if each is not None and each.lineage == state.lineage)
    return min(offsets, default=state.next_offset) if state.next_offset else 0


def _end_as_of(stream: str, state: Manifest, every: Iterable[Decision], commit: str) -> int:
    end, begun = None, False
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
        elif end is None and not begun:
            end, begun = brought.offset, True
    return min(state.next_offset if end is None else end, state.next_offset)


def _require(listed: Listed, commit: str) -> None:
    if commit not in listed.names:
        some = f"the newest is {listed.names[-1]}" if listed.names else "this tap has none"
        raise UnknownNameError(f"there is no commit {commit!r}", hint=f"'singerlake ls --commits' lists them; {some}")
