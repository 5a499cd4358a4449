"""Which data files make up a stream, and in which order, from what the files say: pure planning, no storage.

A vacuumed file holds the messages of others, which may still be there. Files are chosen so that each source is
covered exactly once; where no choice does that, so that each is covered at least once: repeated perhaps, lost never.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from singerlake.clock import parse_timestamp, timestamp
from singerlake.format import layout
from singerlake.maintenance.cover import cover
from singerlake.maintenance.findings import Finding
from singerlake.maintenance.scan import Scanned


@dataclass(frozen=True, slots=True)
class Found:
    """A sound data file of one stream. ``path`` is relative to the stream's folder, ``sources`` are the files whose
    messages it holds, ``(id, messages)``: itself alone unless it was vacuumed."""

    id: str
    path: str
    modified: datetime
    scanned: Scanned
    sources: tuple[tuple[str, int], ...]

    @property
    def created(self) -> str:
        """When its writer began it, RFC 3339 UTC; for a file without header, when it was stored."""
        header = self.scanned.header
        moment = parse_timestamp(header.created) if header else None
        return timestamp(moment or self.modified)

    @property
    def order(self) -> tuple[str, str, int, str, str]:
        """Its place among the files of a stream: the writers' clocks, then the run and the number in it."""
        header = self.scanned.header
        run, seq = (header.run, header.seq) if header else ("", 0)
        return self.created, run, seq, self.id, self.path


@dataclass(frozen=True, slots=True)
class Choice:
    """The files of a stream in order; those whose messages all lie in them, each with the id of the chosen file that
    holds its first ones; and what was odd."""

    files: tuple[Found, ...]
    covered: tuple[tuple[Found, str], ...]
    findings: tuple[Finding, ...]


def identify(path: str, modified: datetime, scanned: Scanned) -> Found:
    """A scanned file with its identity: its own header's, else its name's, else one derived from its content."""
    provenance, header = scanned.provenance, scanned.header
    if provenance is not None:
        return Found(provenance.id, path, modified, scanned, provenance.replaces)
    own = header.id if header else layout.file_id_in(path) or content_id(scanned.sha256)
    return Found(own, path, modified, scanned, ((own, scanned.messages),))


def content_id(sha256: str) -> str:
    """A file identity derived from content, the same for every copy: 16 characters of lower-case base32hex."""
    return base64.b32hexencode(bytes.fromhex(sha256)[:10]).decode("ascii").lower()


def distinct(
    found: Iterable[Found], *, prefix: str, listed: Mapping[str, str] | None = None
) -> tuple[list[Found], list[Finding]]:
    """``found`` with one file for each id. A copy adds nothing, whole or cut; other content under the same id is kept
    under an id of its own, since one of the two would be lost otherwise.

    ``listed`` says which content a manifest means by an id (id -> sha256); without that, it is the fullest.
    """
    known = listed or {}
    groups: dict[str, list[Found]] = defaultdict(list)
    for file in found:
        groups[file.id].append(file)
    kept: list[Found] = []
    findings: list[Finding] = []
    for own, group in groups.items():
        group.sort(key=lambda file: (known.get(own) != file.scanned.sha256, *_fullest(file)))
        kept += _without_copies(group, prefix, findings)
    return kept, findings


def choose(files: Sequence[Found], *, prefix: str, done: frozenset[str] = frozenset()) -> Choice:
    """The files that make up the stream, of files with distinct ids. ``prefix`` is its folder's key, for the findings.
    Sources in ``done`` are held elsewhere.

    The answer depends on the set of files only, never on the order in which they are given.
    """
    ranked = sorted(files, key=lambda file: (file.id, file.path))
    chosen, overlapping = cover([_held(file) for file in ranked], done)
    findings = [
        Finding("repeated", prefix + ranked[at].path, "holds messages that another file holds too; both are needed")
        for at in overlapping
    ]
    ordered = sorted((ranked[at] for at in chosen), key=lambda file: file.order)
    holder = {source: file.id for file in reversed(ordered) for source, _ in file.sources}
    taken = set(chosen)
    covered = tuple(
        (file, holder[file.sources[0][0]])
        for at, file in enumerate(ranked)
        if at not in taken and file.sources[0][0] in holder
    )
    return Choice(tuple(ordered), covered, tuple(findings))


def _held(file: Found) -> dict[str, int]:
    held: dict[str, int] = defaultdict(int)
    for source, messages in file.sources:
        held[source] += messages
    return dict(held)


def _fullest(file: Found) -> tuple[int, bool, str]:
    """The fullest first, then one that is called by its id, then the one whose path comes first."""
    return -file.scanned.messages, layout.file_id_in(file.path) != file.id, file.path


def _without_copies(group: Sequence[Found], prefix: str, findings: list[Finding]) -> list[Found]:
    kept: list[Found] = []
    for file in group:
        twin = next((known for known in kept if _has_all_of(known.scanned, file.scanned)), None)
        if twin is not None:
            findings.append(Finding("duplicate", prefix + file.path, f"a copy of {twin.path}; left out"))
        elif not kept:
            kept.append(file)
        else:
            own = content_id(file.scanned.sha256)
            kept.append(replace(file, id=own, sources=((own, file.scanned.messages),)))
            findings.append(
                Finding("clash", prefix + file.path, f"other content than {kept[0].path} under its id; taken as {own}")
            )
    return kept


def _has_all_of(whole: Scanned, part: Scanned) -> bool:
    return whole.content == part.content or part.content in whole.cuts
