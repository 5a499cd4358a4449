"""Which data files make up a stream, and in which order, from what the files say: pure planning, no storage.

A vacuumed file holds the messages of others, which may still be there. Files are chosen so that each source is
covered exactly once; where no choice does that, so that each is covered at least once: repeated perhaps, lost never.
A message is erased where any file has a hole in its place, and no file is chosen that still has it. If such a file is
the only one with some other message, it is *torn*: it has to be written again without what is erased.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import msgspec

from singerlake.format import layout
from singerlake.format.state.files.data_file import DataFile
from singerlake.upkeep.result import Finding
from singerlake.upkeep.scanned_file import ScannedFile, content_id


@dataclass(frozen=True, slots=True)
class ChosenFiles:
    """The files of a stream in order; those whose messages all lie in them, each with the id of the chosen file that
    holds its first ones; what was odd; and what ``files`` lack."""

    files: list[ScannedFile]
    covered: tuple[tuple[ScannedFile, str], ...]
    findings: tuple[Finding, ...]
    torn: tuple[TornFile, ...] = ()


@dataclass(frozen=True, slots=True)
class TornFile:
    """A file that alone has some messages, and others that are erased in another file: ``erased`` says which of its
    messages, as bits; the lowest is the first message."""

    file: ScannedFile
    erased: int


def distinct(
    files: Sequence[ScannedFile],
    *,
    prefix: str,
    listed: Mapping[str, DataFile] | None = None,
    taken: Callable[[str], bool] = lambda _: False,
) -> tuple[list[ScannedFile], list[Finding]]:
    """``files`` with one file for each id. A copy adds nothing, whole or cut; other content under the same id is kept
    under an id of its own, since one of the two would be lost otherwise.

    ``listed`` are the files of a manifest by id, which say the content that it means by one; without that, it is the
    fullest. ``taken`` says which ids others than ``files`` have.
    """
    known = listed or {}
    repeated = _repeated(file.id for file in files)
    groups: dict[str, list[ScannedFile]] = defaultdict(list)
    kept: list[ScannedFile] = []
    for file in files:
        (groups[file.id] if file.id in repeated else kept).append(file)
    findings: list[Finding] = []
    used = {file.id for file in files} if groups else set()
    for own, group in groups.items():
        meant = known[own].sha256 if own in known else None
        group.sort(key=lambda file: (meant != file.facts.sha256, *_fullest(file)))
        kept += _without_copies(group, prefix, findings, used, taken)
    return kept, findings


def choose(
    files: Sequence[ScannedFile], *, prefix: str, done: frozenset[str] = frozenset(), listed: Sequence[ScannedFile] = ()
) -> ChosenFiles:
    """The files that make up the stream, of files with distinct ids. ``prefix`` is its folder's key, for the findings.
    Sources in ``done`` are held elsewhere; what is erased of them the holes of ``listed`` say alone. The answer depends
    on the set of files only, never on the order in which they are given."""
    if not done and not any(file.replaces for file in files) and len({file.id for file in files}) == len(files):
        # The commonest case by far: no file holds what another could hold.
        return ChosenFiles(_in_order(files), (), ())
    ranked = sorted(files, key=lambda file: (file.id, file.path))
    dropped, overlapping, torn = _covered(ranked, done, listed)
    findings = [
        Finding("repeated", prefix + ranked[at].path, "holds messages that another file holds too; both are needed")
        for at in overlapping
    ]
    findings += [
        Finding(
            "torn",
            prefix + each.file.path,
            f"holds {each.erased.bit_count()} messages that are erased in another file, beside some that no other file "
            "has; it has to be written again without those that are erased",
            problem=False,
        )
        for each in torn
    ]
    ordered = _in_order([file for at, file in enumerate(ranked) if at not in dropped])
    left = [ranked[at] for at in sorted(dropped)]
    asked = {file.sources[0][0] for file in left}
    holder = {source: file.id for file in reversed(ordered) for source, _ in file.sources if source in asked}
    covered = tuple((file, holder[file.sources[0][0]]) for file in left if file.sources[0][0] in holder)
    return ChosenFiles(ordered, covered, tuple(findings), torn)


def _in_order(files: Sequence[ScannedFile]) -> list[ScannedFile]:
    return sorted(files, key=attrgetter("order"))


def _covered(
    files: Sequence[ScannedFile], done: frozenset[str], listed: Sequence[ScannedFile]
) -> tuple[set[int], list[int], tuple[TornFile, ...]]:
    """Those that ``exact_cover`` leaves out, and those that hold what others hold, by index; and those that are torn.
    It is asked only about files that share a source with others or with ``done``: of a million there are few."""
    common = _repeated(source for file in files for source, _ in file.sources)
    tied = [
        at for at, file in enumerate(files) if any(source in common or source in done for source, _ in file.sources)
    ]
    gone = _erased((files[at] for at in tied), listed, done)
    clean = [at for at in tied if not _unerased(files[at], gone)]
    held = {at: _held(files[at]) for at in tied}
    chosen, overlapping = exact_cover([held[at] for at in clean], done)
    dropped = set(tied).difference(clean[at] for at in chosen)
    torn = _torn(held, clean, done) if len(clean) < len(tied) else []
    return (
        dropped,
        [clean[at] for at in overlapping],
        tuple(TornFile(files[at], _unerased(files[at], gone)) for at in torn),
    )


def _torn(held: Mapping[int, Mapping[str, int]], clean: Sequence[int], done: frozenset[str]) -> list[int]:
    """Files that have what those do not have which may be chosen (``clean``)."""
    most = _most(held.values())
    there = _most(held[at] for at in clean)
    short = {source for source, messages in most.items() if source not in done and there.get(source, 0) < messages}
    full = {
        at: {source: messages for source, messages in held[at].items() if messages == most[source]}
        for at in sorted(held)
    }
    return sorted(at_least_once(full, list(full), short))


def _most(held: Iterable[Mapping[str, int]]) -> dict[str, int]:
    most: dict[str, int] = {}
    for each in held:
        for source, messages in each.items():
            most[source] = max(messages, most.get(source, messages))
    return most


def _erased(files: Iterable[ScannedFile], listed: Iterable[ScannedFile], done: frozenset[str]) -> dict[str, int]:
    """Of each source the messages that any file has a hole for, as bits. Sources without any are not in it."""
    gone: dict[str, int] = defaultdict(int)
    for said, among in ((files, False), (listed, True)):
        for file in said:
            holes = file.holes
            for source, begin, before, mask in _stretches(file) if holes else ():
                if (source in done) == among and (holes >> begin) & mask:
                    gone[source] |= ((holes >> begin) & mask) << before
    return gone


def _unerased(file: ScannedFile, gone: Mapping[str, int]) -> int:
    """Which messages a file has that are erased elsewhere, as bits."""
    found = 0
    if any(source in gone for source, _ in file.sources):
        for source, begin, before, mask in _stretches(file):
            found |= ((gone.get(source, 0) >> before) & mask) << begin
    return found & ~file.holes if found else 0


def _stretches(file: ScannedFile) -> Iterator[tuple[str, int, int, int]]:
    """The sources of a file, each with the number of its first message in the file and in the source, and with as many
    bits as there are messages."""
    begin = 0
    seen: dict[str, int] = defaultdict(int)
    for source, messages in file.sources:
        yield source, begin, seen[source], (1 << max(messages, 0)) - 1
        begin += max(messages, 0)
        seen[source] += max(messages, 0)


def _repeated(texts: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    again: set[str] = set()
    for text in texts:
        (again if text in seen else seen).add(text)
    return again


def _held(file: ScannedFile) -> dict[str, int]:
    """What ``exact_cover`` compares: of each source its messages."""
    held: dict[str, int] = defaultdict(int)
    for source, messages in file.sources:
        held[source] += messages
    return dict(held)


def _fullest(file: ScannedFile) -> tuple[int, int, bool, str]:
    """By most messages, then rows of attached files; then one called by its id, and the one whose path comes first."""
    return -file.messages, -len(file.facts.attached), layout.file_id_in(file.path) != file.id, file.path


def own_ids(file: ScannedFile) -> Iterator[str]:
    """The ids under which a file may be kept whose own id is another's: the first one of them that is free."""
    own = content_id(file.facts.sha256)
    while True:
        yield own
        own = content_id(hashlib.sha256(own.encode()).hexdigest())


def _without_copies(
    group: Sequence[ScannedFile], prefix: str, findings: list[Finding], used: set[str], taken: Callable[[str], bool]
) -> list[ScannedFile]:
    kept: list[ScannedFile] = []
    for file in group:
        twin = next((known for known in kept if known.has_all_of(file)), None)
        if twin is not None:
            findings.append(Finding("duplicate", prefix + file.path, f"a copy of {twin.path}; left out"))
        elif not kept:
            kept.append(file)
        else:
            # Only a header that was made up for it says what another is called by its content.
            own = next(own for own in own_ids(file) if own not in used and not taken(own))
            used.add(own)
            kept.append(msgspec.structs.replace(file, id=own, replaces=()))
            findings.append(
                Finding("clash", prefix + file.path, f"other content than {kept[0].path} under its id; taken as {own}")
            )
    return kept


Candidate = Mapping[str, int]
"""What one file holds: source -> messages of it."""

_STEPS = 100_000
"""Tries before the exact cover of a knot is given up. Real ones are of neighbours, with one try per source."""


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
    most = _most(candidates[index] for index in knot)
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
    """Candidates that hold each source once; None where none do, or none were found in time. Depth first over sets of
    sources as bits: the first uncovered source is tried with each candidate that has it and nothing covered already,
    and a set that led nowhere is not tried again."""
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
