"""Covering every source exactly once, or, where that cannot be, at least once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

Candidate = Mapping[str, int]
"""What one file holds: source -> messages of it."""

_STEPS = 100_000
"""Tries before the exact cover of one knot is given up. Real knots are runs of neighbouring files, which need one
try per source."""


def exact_cover(candidates: Sequence[Candidate], done: frozenset[str] = frozenset()) -> tuple[list[int], list[int]]:
    """The candidates, by index, that together hold every source once, and those of them that hold one which another
    holds too. Sources in ``done`` are held elsewhere.

    A candidate with fewer messages of a source than another has is cut there, so it is taken only for what no whole
    one has. Every source is held by the answer or in ``done``; larger candidates are preferred, then lower indexes.
    """
    chosen: list[int] = []
    for knot in _knots(candidates):
        chosen += _untie(candidates, knot, done)
    held = Counter(source for index in chosen for source in candidates[index])
    held.update(done)
    overlapping = [index for index in chosen if any(held[source] > 1 for source in candidates[index])]
    return sorted(chosen), sorted(overlapping)


def _knots(candidates: Sequence[Candidate]) -> list[list[int]]:
    """Candidates that share a source, directly or through others, together."""
    leader = list(range(len(candidates)))

    def find(index: int) -> int:
        while leader[index] != index:
            leader[index] = leader[leader[index]]
            index = leader[index]
        return index

    holder: dict[str, int] = {}
    for index, sources in enumerate(candidates):
        for source in sources:
            leader[find(index)] = find(holder.setdefault(source, index))
    knots: dict[int, list[int]] = defaultdict(list)
    for index in range(len(candidates)):
        knots[find(index)].append(index)
    return list(knots.values())


def _untie(candidates: Sequence[Candidate], knot: list[int], done: frozenset[str]) -> list[int]:
    most: dict[str, int] = {}
    for index in knot:
        for source, messages in candidates[index].items():
            most[source] = max(messages, most.get(source, messages))
    ranked = sorted(knot, key=lambda index: (-len(candidates[index]), index))
    full = {
        index: {source: messages for source, messages in candidates[index].items() if messages == most[source]}
        for index in ranked
    }
    whole = [index for index in ranked if full[index] == candidates[index] and done.isdisjoint(full[index])]
    sources = _sources(full, whole)
    chosen = _exactly([full[index] for index in whole], sources)
    picked = at_least_once(full, whole, sources) if chosen is None else [whole[at] for at in chosen]
    held = done.union(sources)
    return picked + at_least_once(full, ranked, [source for source in _sources(full, ranked) if source not in held])


def _sources(candidates: Mapping[int, Candidate], indexes: Iterable[int]) -> list[str]:
    """All sources of some candidates, neighbours together as far as the largest candidates have them so."""
    return list(dict.fromkeys(source for index in indexes for source in candidates[index]))


def _exactly(candidates: Sequence[Candidate], sources: Sequence[str]) -> list[int] | None:
    """Candidates that hold each source once; None where none do, or none were found in time.

    Depth first over sets of sources as bits: the first uncovered source is tried with each candidate that has it and
    nothing covered already, and a set that led nowhere is not tried again.
    """
    bit = {source: 1 << position for position, source in enumerate(sources)}
    masks = [sum(bit[source] for source in candidate) for candidate in candidates]
    holders: dict[int, list[int]] = defaultdict(list)
    for index, candidate in enumerate(candidates):
        for source in candidate:
            holders[bit[source]].append(index)
    left = sum(bit.values())
    path: list[tuple[int, int, Iterator[int]]] = []
    dead: set[int] = set()
    tries = iter(holders[left & -left])
    for _ in range(_STEPS):
        if not left:
            return [index for index, _, _ in path]
        fit = next((at for at in tries if masks[at] & ~left == 0 and left & ~masks[at] not in dead), None)
        if fit is not None:
            path.append((fit, left, tries))
            left &= ~masks[fit]
            tries = iter(holders[left & -left]) if left else iter(())
        elif path:
            dead.add(left)
            _, left, tries = path.pop()
        else:
            return None
    return None


def at_least_once(candidates: Mapping[int, Candidate], indexes: Sequence[int], sources: Iterable[str]) -> list[int]:
    """Candidates that hold each source at least once: always the one with most of what is missing, of those the one
    with least of what is not; then without those whose every source the others hold."""
    wanted = set(sources)
    left, picked = set(wanted), list[int]()
    while left:
        useful = (at for at in indexes if not left.isdisjoint(candidates[at]))
        best = max(useful, key=lambda at: (_weight(candidates[at], left), -sum(candidates[at].values())))
        picked.append(best)
        left -= candidates[best].keys()
    for index in sorted(picked, key=lambda at: sum(candidates[at].values())):
        others = set[str]().union(*(candidates[at].keys() for at in picked if at != index))
        if wanted & candidates[index].keys() <= others:
            picked.remove(index)
    return picked


def _weight(candidate: Candidate, left: set[str]) -> int:
    return sum(messages for source, messages in candidate.items() if source in left)
