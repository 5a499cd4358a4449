"""Which data files make up a stream, and in which order, from what the files say: pure planning, no storage.

A vacuumed file holds the messages of others, which may still be there. Files are chosen so that each source is
covered exactly once; where no choice does that, so that each is covered at least once: repeated perhaps, lost never.
A file from which more of a source was erased stands above the others that hold that source.
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
from singerlake.maintenance.rebuild.exact_cover import exact_cover
from singerlake.maintenance.rebuild.scanned_file import ScannedFile, content_id
from singerlake.maintenance.verify.findings import Finding

_ERASED = 1 << 48
"""More messages than a file holds."""


@dataclass(frozen=True, slots=True)
class ChosenFiles:
    """The files of a stream in order; those whose messages all lie in them, each with the id of the chosen file that
    holds its first ones; and what was odd."""

    files: list[ScannedFile]
    covered: tuple[tuple[ScannedFile, str], ...]
    findings: tuple[Finding, ...]


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


def choose(files: Sequence[ScannedFile], *, prefix: str, done: frozenset[str] = frozenset()) -> ChosenFiles:
    """The files that make up the stream, of files with distinct ids. ``prefix`` is its folder's key, for the findings.
    Sources in ``done`` are held elsewhere.

    The answer depends on the set of files only, never on the order in which they are given.
    """
    if not done and not any(file.replaces for file in files) and len({file.id for file in files}) == len(files):
        # The commonest case by far: no file holds what another could hold.
        return ChosenFiles(_in_order(files), (), ())
    ranked = sorted(files, key=lambda file: (file.id, file.path))
    dropped, overlapping = _covered(ranked, done)
    findings = [
        Finding("repeated", prefix + ranked[at].path, "holds messages that another file holds too; both are needed")
        for at in overlapping
    ]
    ordered = _in_order([file for at, file in enumerate(ranked) if at not in dropped])
    left = [ranked[at] for at in sorted(dropped)]
    asked = {file.sources[0][0] for file in left}
    holder = {source: file.id for file in reversed(ordered) for source, _ in file.sources if source in asked}
    covered = tuple((file, holder[file.sources[0][0]]) for file in left if file.sources[0][0] in holder)
    return ChosenFiles(ordered, covered, tuple(findings))


def _in_order(files: Sequence[ScannedFile]) -> list[ScannedFile]:
    """In the order of a rebuild."""
    return sorted(files, key=attrgetter("order"))


def _covered(files: Sequence[ScannedFile], done: frozenset[str]) -> tuple[set[int], list[int]]:
    """Those that ``cover`` leaves out, and those that hold what others hold, by index. It is asked only about files
    that have a source in common with others or with ``done``: of a million there are few."""
    common = _repeated(source for file in files for source, _ in file.sources)
    tied = [
        at for at, file in enumerate(files) if any(source in common or source in done for source, _ in file.sources)
    ]
    chosen, overlapping = exact_cover([_held(files[at]) for at in tied], done)
    dropped = set(tied).difference(tied[at] for at in chosen)
    return dropped, [tied[at] for at in overlapping]


def _repeated(texts: Iterable[str]) -> set[str]:
    """Those that come more than once."""
    seen: set[str] = set()
    again: set[str] = set()
    for text in texts:
        (again if text in seen else seen).add(text)
    return again


def _held(file: ScannedFile) -> dict[str, int]:
    """What ``exact_cover`` compares: of each source its messages, and far more for each that is erased."""
    held: dict[str, int] = defaultdict(int)
    for source, messages in file.sources:
        held[source] += messages
    for source, erased in file.erased:
        if source in held:
            held[source] += erased * _ERASED
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
            holes = tuple((own, records) for _, records in file.erased)
            kept.append(msgspec.structs.replace(file, id=own, replaces=(), erased=holes))
            findings.append(
                Finding("clash", prefix + file.path, f"other content than {kept[0].path} under its id; taken as {own}")
            )
    return kept
