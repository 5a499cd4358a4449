"""The store ``lockfile``, as ``singerlake.stores.lockfile`` and the commit loop go about it: the state is one
object, and a commit replaces it on condition. No lock is in it, since nothing rests on one. Every call is one step.

A network may lose a reply, let a request land late, or send one twice and pass on the refusal of the second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

History = tuple[str, ...]


class Writer(NamedTuple):
    """``at`` is its next call; ``held`` the state that it goes on from, ``left`` its commits to come."""

    at: str
    left: int
    held: History = ()


class State(NamedTuple):
    """``manifest`` is the object; ``flying`` a replacement that its sender gave up: what it replaces, and by what;
    ``faults`` those that may yet happen; ``shown`` the longest state that anybody was told is committed."""

    manifest: History
    flying: tuple[History, History] | None
    faults: int
    shown: History
    writers: tuple[Writer, ...]


Steps = Iterator[tuple[str, State]]


@dataclass(frozen=True, kw_only=True)
class Lockfile:
    """``writers`` of ``commits`` each, and ``faults`` of the network. ``fooled`` of them take the storage for one that
    ignores conditions: they look, write without one, and read back."""

    writers: int = 2
    commits: int = 1
    faults: int = 0
    fooled: int = 0

    def starts(self) -> Iterator[State]:
        yield State(("o0",), None, self.faults, ("o0",), (Writer("load", self.commits),) * self.writers)

    def steps(self, state: State) -> Steps:
        calls = {"load": self._load, "replace": self._replace, "look": self._look, "put": self._put, "read": self._read}
        for place, writer in enumerate(state.writers):
            if writer.at in calls:
                for label, after in calls[writer.at](state, place, writer):
                    yield f"{_name(place)} {label}", after
        if state.flying is not None:
            replaced, by = state.flying
            landed = by if state.manifest == replaced else state.manifest
            yield f"the replacement by {' '.join(by)} lands late", state._replace(manifest=landed, flying=None)

    def wrong(self, state: State) -> str | None:
        if state.manifest[: len(state.shown)] != state.shown:
            return f"{' '.join(state.shown)} was shown, and now it is {' '.join(state.manifest)}"
        return None

    def like(self, state: State) -> State:
        return state

    def _load(self, state: State, place: int, writer: Writer) -> Steps:
        """Also after a refusal, or without an answer: the writer looks for what is its own."""
        held = state.manifest
        if writer.left and self._own(place, writer.left) in held:
            yield "reads, and finds its own", self._told(state, place, writer, held)
            return
        following = "done" if not writer.left else "look" if place < self.fooled else "replace"
        yield f"reads {' '.join(held)}", _with(state, place, writer._replace(at=following, held=held))

    def _replace(self, state: State, place: int, writer: Writer) -> Steps:
        after = (*writer.held, self._own(place, writer.left))
        holds = state.manifest == writer.held
        label = f"replaces by {' '.join(after)}"
        kept = state._replace(manifest=after) if holds else state
        again = writer._replace(at="load")
        if holds:
            yield label, self._told(kept, place, writer, after)
        else:
            yield f"{label}: refused", _with(state, place, again)
        if state.faults:
            fewer = state.faults - 1
            if holds:
                yield (
                    f"{label}: done, no answer or a refusal of the same",
                    _with(kept._replace(faults=fewer), place, again),
                )
            yield f"{label}: not done, no answer", _with(state._replace(faults=fewer), place, again)
            if state.flying is None:
                flying = state._replace(faults=fewer, flying=(writer.held, after))
                yield f"{label}: no answer yet", _with(flying, place, again)

    def _look(self, state: State, place: int, writer: Writer) -> Steps:
        following = "put" if state.manifest == writer.held else "load"
        yield "looks", _with(state, place, writer._replace(at=following))

    def _put(self, state: State, place: int, writer: Writer) -> Steps:
        after = (*writer.held, self._own(place, writer.left))
        put = state._replace(manifest=after)
        yield f"puts {' '.join(after)}", _with(put, place, writer._replace(at="read", held=after))

    def _read(self, state: State, place: int, writer: Writer) -> Steps:
        if state.manifest == writer.held:
            yield "reads back", self._told(state, place, writer, writer.held)
        else:
            yield "reads back another's", _with(state, place, writer._replace(at="load"))

    def _own(self, place: int, left: int) -> str:
        return f"{_name(place)}{self.commits - left + 1}"

    def _told(self, state: State, place: int, writer: Writer, held: History) -> State:
        shown = held if len(held) > len(state.shown) else state.shown
        return _with(state._replace(shown=shown), place, Writer("load", writer.left - 1, held))


def _with(state: State, place: int, writer: Writer) -> State:
    return state._replace(writers=(*state.writers[:place], writer, *state.writers[place + 1 :]))


def _name(place: int) -> str:
    return "abcdefgh"[place]
