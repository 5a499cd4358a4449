"""Which data files make up a stream, and in which order, from what the files say: pure planning, no storage.

A vacuumed file holds the messages of others, which may still be there. Files are chosen so that each source is
covered exactly once; where no choice does that, so that each is covered at least once: repeated perhaps, lost never.
A message is erased where any file has a hole in its place, and no file is chosen that still has it. If such a file is
the only one with some other message, it is *torn*: it has to be written again without what is erased.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import msgspec

from singerlake.format import layout
from singerlake.format.state.files.data_file import DataFile
from singerlake.upkeep.rebuild.exact_cover import at_least_once, exact_cover
from singerlake.upkeep.rebuild.scanned_file import ScannedFile, content_id
from singerlake.upkeep.verify.findings import Finding


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
    files: Sequence[ScannedFile],
    *,
    prefix: str,
    done: frozenset[str] = frozenset(),
    listed: Sequence[ScannedFile] = (),
) -> ChosenFiles:
    """The files that make up the stream, of files with distinct ids. ``prefix`` is its folder's key, for the findings.
    Sources in ``done`` are held elsewhere; what is erased of them the holes of ``listed`` say alone.

    The answer depends on the set of files only, never on the order in which they are given.
    """
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
    """In the order of a rebuild."""
    return sorted(files, key=attrgetter("order"))


def _covered(
    files: Sequence[ScannedFile], done: frozenset[str], listed: Sequence[ScannedFile]
) -> tuple[set[int], list[int], tuple[TornFile, ...]]:
    """Those that ``exact_cover`` leaves out, and those that hold what others hold, by index; and those that are torn.
    It is asked only about files that have a source in common with others or with ``done``: of a million there are
    few."""
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
    """The most messages of each source."""
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
    """Those that come more than once."""
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
    """The fullest first, by messages and then by rows of attached files, then one that is called by its id, then the
    one whose path comes first."""
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
