"""Reading all data files of one stream for what they say of themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from singerlake.errors import BrokenFile, MissingFile
from singerlake.format import layout
from singerlake.format.model import StreamSchema
from singerlake.maintenance.engine import Engine, Threads
from singerlake.maintenance.findings import Finding
from singerlake.maintenance.found import Found, identify
from singerlake.maintenance.parallel import Progress
from singerlake.maintenance.scan import Scanned, scan
from singerlake.maintenance.scan_small import scan_small
from singerlake.maintenance.survey_journal import SurveyJournal, text_of
from singerlake.maintenance.tally import NONE, Tally
from singerlake.storage.port import Entry, Storage


@dataclass(frozen=True, slots=True)
class Survey:
    """What a stream's folder holds: the sound data files, and findings about the others. ``read`` is what was read of
    it now, ``noted`` what a journal says was read before."""

    found: list[Found]
    findings: tuple[Finding, ...]
    read: Tally = NONE
    noted: Tally = NONE


def data_files(storage: Storage, tap: str, stream: str) -> Iterator[Entry]:
    """Every object that lies where the data files of a stream lie, as the listing goes on."""
    prefix = layout.stream_prefix(tap, stream)
    return (entry for entry in storage.list(prefix) if layout.is_data_file(entry.key[len(prefix) :]))


def has_data_files(storage: Storage, tap: str, stream: str) -> bool:
    """Whether there is any."""
    return any(True for _ in data_files(storage, tap, stream))


def survey(
    storage: Storage,
    tap: str,
    stream: str,
    entries: Iterable[Entry],
    *,
    engine: Engine | None = None,
    journal: SurveyJournal | None = None,
    progress: Progress | None = None,
) -> Survey:
    """Read data files of one stream. ``engine`` is what reads, threads of this process by default. Files that
    ``journal`` says are as they were when they were found sound are not read again. Raises what storage raises."""
    prefix = layout.stream_prefix(tap, stream)
    found: list[Found] = []
    findings: list[Finding] = []
    schemas = _Schemas()
    noted = NONE
    files = stored = 0

    def unknown(journal: SurveyJournal) -> Iterator[Entry]:
        nonlocal noted
        for entry in entries:
            known = journal.known(prefix, entry)
            if known is None:
                yield entry
            else:
                found.append(schemas.shared(known))
                noted += Tally(1, entry.size)
                advanced(entry)

    def advanced(entry: Entry) -> None:
        if progress is not None:
            progress(entry.size)

    unread = entries if journal is None else unknown(journal)
    for entry, outcome in (engine or Threads(storage))(Look(stream, prefix), unread):
        if isinstance(outcome, Finding):
            findings.append(outcome)
        else:
            file = schemas.shared(outcome)
            if journal is not None:
                journal.note(entry, file)
            found.append(file)
        files += 1
        stored += entry.size
        advanced(entry)
    if journal is not None:
        # As a listing has them: what was noted came before what was read.
        found.sort(key=lambda file: file.path)
    return Survey(found, tuple(findings), Tally(files, stored), noted)


@dataclass(frozen=True, slots=True)
class Look:
    """The task of a survey: an object where the data files of ``stream`` lie, below ``prefix``, and what it says, or
    why it cannot be a file of the stream."""

    stream: str
    prefix: str

    def size(self, entry: Entry) -> int:
        """Its stored bytes."""
        return entry.size

    def __call__(self, storage: Storage, entry: Entry) -> Found | Finding:
        """Read it whole. Raises what storage raises."""
        key = entry.key
        try:
            with storage.open(key) as body:
                scanned = scan(body, key=key)
        except BrokenFile as error:
            return Finding("broken", key, f"{error.message}; left out")
        except MissingFile:
            return Finding("vanished", key, "was there when the folder was listed, and is not any more")
        return self._said(entry, scanned)

    def together(self, storage: Storage, entries: Sequence[Entry]) -> Sequence[Found | Finding]:
        """Read several. Raises what storage raises."""
        small = scan_small(storage, [(entry.key, entry.size) for entry in entries], self.stream, times=True)
        return [
            self(storage, entry) if scanned is None else self._said(entry, scanned)
            for entry, scanned in zip(entries, small, strict=True)
        ]

    def _said(self, entry: Entry, scanned: Scanned) -> Found | Finding:
        key = entry.key
        if scanned.stream != self.stream:
            return Finding("misplaced", key, f"holds messages of stream {scanned.stream!r}; left out")
        if not scanned.messages:
            return Finding("empty", key, "holds no message but its schema; left out", problem=False)
        return identify(key[len(self.prefix) :], entry.last_modified, scanned)


class _Schemas:
    """One object for all files whose SCHEMA messages say the same: there are few of them, and many files."""

    def __init__(self) -> None:
        self._by_text: dict[str, StreamSchema] = {}
        self._last: tuple[StreamSchema, StreamSchema] | None = None

    def shared(self, file: Found) -> Found:
        if self._last is None or self._last[0] is not file.schema:
            self._last = file.schema, self._by_text.setdefault(text_of(file.schema), file.schema)
        own, common = self._last
        return file if own is common else msgspec.structs.replace(file, schema=common)
