"""Reading all data files of one stream for what they say of themselves. A journal keeps that, and each schema."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path

import msgspec

from singerlake.errors import BrokenFileError, LakeError, MissingFileError
from singerlake.format import kept_schema, layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.extra_fields import read_provenance
from singerlake.format.kept_schema import KeptSchema
from singerlake.format.lines.messages import REFUSALS
from singerlake.format.state.model import StreamSchema
from singerlake.scratch import ScratchDatabase
from singerlake.storage.port import Entry, Storage
from singerlake.upkeep.rebuild.on_disk import FoundFiles
from singerlake.upkeep.result import NONE, UNSEEN, Finding, Progress, Tally
from singerlake.upkeep.scan import scan, small_bodies
from singerlake.upkeep.scanned_file import FileFacts, ScannedFile, identify
from singerlake.work.engine import Engine, Threads
from singerlake.work.journal_file import JournalFile, open_file, stamp

_FRONT = 1 << 16
"""Of a damaged file, where it says what it was made of."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a stream's folder holds: the sound data files, the schemas kept beside them in the order of a rebuild, and
    findings about the others. ``read`` is what was read of it now, ``noted`` what a journal says was read before."""

    files: FoundFiles
    findings: tuple[Finding, ...]
    read: Tally = NONE
    noted: Tally = NONE
    kept: tuple[KeptSchema, ...] = ()


def read_kept(storage: Storage, entry: Entry, tap: str, stream: str) -> KeptSchema | Finding | None:
    """A schema that is kept in a stream's folder, or why it is none of this stream's; None where it is gone."""
    stored = storage.get(entry.key)
    if stored is None:
        return None
    try:
        kept = kept_schema.from_json(stored.body, key=entry.key)
    except LakeError as error:
        return Finding("broken", entry.key, f"{error.message}; left out")
    if (kept.tap, kept.stream) != (tap, stream):
        return Finding("misplaced", entry.key, f"is of stream {kept.stream!r} of tap {kept.tap!r}; left out")
    return kept


def survey(
    storage: Storage,
    tap: str,
    stream: str,
    entries: Iterable[Entry],
    *,
    engine: Engine | None = None,
    journal: SurveyJournal | None = None,
    progress: Progress = UNSEEN,
) -> Survey:
    """Read data files of one stream, and the kept schemas among ``entries``. ``engine`` is what reads the files,
    threads of this process by default. Files that ``journal`` says are as they were when they were found sound are not
    read again. Raises what storage raises, and what ``ScratchDatabase`` raises."""
    prefix = layout.stream_prefix(tap, stream)
    scanned = FoundFiles()
    findings: list[Finding] = []
    schemas = _Schemas()
    beside: list[Entry] = []
    noted = NONE
    files = stored = 0

    def data() -> Iterator[Entry]:
        for entry in entries:
            if layout.is_kept_schema(entry.key[len(prefix) :]):
                beside.append(entry)
            else:
                yield entry

    def unknown(journal: SurveyJournal) -> Iterator[Entry]:
        nonlocal noted
        for entry in data():
            known = journal.known(prefix, entry)
            if known is None:
                yield entry
            else:
                scanned.add(schemas.shared(known))
                noted += Tally(1, entry.size)
                progress.advance(entry.size)

    unread = data() if journal is None else unknown(journal)
    for entry, outcome in (engine or Threads(storage))(SurveyTask(stream, prefix), unread):
        if isinstance(outcome, Finding):
            findings.append(outcome)
        else:
            file = schemas.shared(outcome)
            if journal is not None:
                journal.note(entry, file)
            scanned.add(file)
        files += 1
        stored += entry.size
        progress.advance(entry.size)
    kept: list[KeptSchema] = []
    for entry in beside:
        held = read_kept(storage, entry, tap, stream)
        if isinstance(held, Finding):
            findings.append(held)
        elif held is not None:
            kept.append(held)
        progress.advance(entry.size)
    kept.sort(key=attrgetter("order"))
    return Survey(scanned, tuple(findings), Tally(files, stored), noted, tuple(kept))


@dataclass(frozen=True, slots=True)
class SurveyTask:
    """The task of a survey: what an object below ``prefix`` says, or why it cannot be a file of ``stream``."""

    stream: str
    prefix: str

    def size(self, entry: Entry) -> int:
        return entry.size

    def __call__(self, storage: Storage, entry: Entry) -> ScannedFile | Finding:
        return self._look(storage, entry, None)

    def together(self, storage: Storage, entries: Sequence[Entry]) -> Sequence[ScannedFile | Finding]:
        bodies = small_bodies(storage, [(entry.key, entry.size) for entry in entries])
        return [self._look(storage, entry, body) for entry, body in zip(entries, bodies, strict=True)]

    def _look(self, storage: Storage, entry: Entry, body: bytes | None) -> ScannedFile | Finding:
        key = entry.key
        try:
            with storage.open(key) if body is None else io.BytesIO(body) as stream:
                scanned = scan(stream, key=key)
        except BrokenFileError as error:
            return Finding("broken", key, f"{error.message}; left out{_erased_of(storage, key)}")
        except MissingFileError:
            return Finding("vanished", key, "was in the listing of the folder and is now gone")
        if scanned.stream != self.stream:
            return Finding("misplaced", key, f"holds messages of stream {scanned.stream!r}; left out")
        if not scanned.messages:
            return Finding("empty", key, "holds no message but its schema; left out", problem=False)
        return identify(key[len(self.prefix) :], entry.last_modified, scanned)


def _erased_of(storage: Storage, key: str) -> str:
    """What a person should know of the erasures that a damaged file speaks of; nothing where it speaks of none."""
    try:
        said = read_provenance(storage.beginning(key, _FRONT).data)
    except MissingFileError:
        return ""
    erased = sum(row[1] for row in said.erased) if said else 0
    if not erased:
        return ""
    return f"; it says that {erased} of its messages were erased; they may be back in the files that it was made of"


class _Schemas:
    """One object for all files whose SCHEMA messages say the same: there are few of them, and many files."""

    def __init__(self) -> None:
        self._by_text: dict[str, StreamSchema] = {}
        self._last: tuple[StreamSchema, StreamSchema] | None = None

    def shared(self, file: ScannedFile) -> ScannedFile:
        if self._last is None or self._last[0] is not file.schema:
            self._last = file.schema, self._by_text.setdefault(text_of(file.schema), file.schema)
        own, common = self._last
        return file if own is common else msgspec.structs.replace(file, schema=common)


_DIGEST_BYTES = 16
_ASKED = 1 << 14
"""Files that are between being asked for and being noted: those of a few batches, and those that are not sound."""


class _NotedSchema(msgspec.Struct, frozen=True, tag_field="line", tag="schema"):
    """The content of SCHEMA messages, before the first file that has it. It is JSON inside of a text, since it may hold
    what only some readers of JSON take, such as NaN."""

    id: str
    content: str


class _File(msgspec.Struct, frozen=True, gc=False, tag_field="line", tag="file"):
    """A sound file that was read whole: its key, its stamp in hexadecimal digits, its schema's id, and what else is
    found in it; ``said`` is a ``FileFacts``."""

    key: str
    stamp: str
    schema: str
    id: str
    messages: int
    said: msgspec.Raw
    replaces: tuple[tuple[str, int], ...] = ()


_SAID = msgspec.json.Decoder(FileFacts)
_LINE = msgspec.json.Decoder(_NotedSchema | _File)


class SurveyJournal:
    """The journal of one lake, open. Made by ``open_survey_journal``. ``begins`` says where the lines of files begin,
    by stamp."""

    def __init__(self, file: JournalFile, schemas: dict[str, StreamSchema], begins: ScratchDatabase) -> None:
        self._file = file
        self._schemas = schemas
        self._begins = begins
        self._ids: dict[int, tuple[StreamSchema, str]] = {}
        self._asked: dict[str, tuple[Entry, bytes]] = {}

    def known(self, prefix: str, entry: Entry) -> ScannedFile | None:
        """What an object below ``prefix`` said when it was as it is now; None where it was not read then, or was not a
        sound file. Raises ``SettingError`` where the journal cannot be read."""
        seen = _stamp(entry)
        if seen is None:
            return None
        # Of a file that was noted twice, the last line counts.
        begin = self._begins.first("SELECT begin FROM lines WHERE stamp = ? ORDER BY begin DESC LIMIT 1", (seen,))
        if begin is not None:
            line = _LINE.decode(self._file.line(begin[0]))
            assert isinstance(line, _File)
            path, schema = entry.key[len(prefix) :], self._schemas[line.schema]
            return ScannedFile(path, line.id, line.messages, schema, bytes(line.said), line.replaces)
        # It is read next, and noted: a stamp takes as long as the rest of both.
        self._asked[entry.key] = entry, seen
        if len(self._asked) > _ASKED:
            self._asked.clear()
        return None

    def note(self, entry: Entry, file: ScannedFile) -> None:
        """A sound file was read; one that says what is not Unicode is read again each time. Raises ``SettingError``
        where the journal cannot be written."""
        asked = self._asked.pop(entry.key, None)
        seen = asked[1] if asked is not None and asked[0] is entry else _stamp(entry)
        if seen is not None and _is_unicode(file.packed):
            schema, said = self._id(file.schema), msgspec.Raw(file.packed)
            line = _File(entry.key, seen.hex(), schema, file.id, file.messages, said, file.replaces)
            self._begins.add("lines", (seen, self._file.append(line)))

    def _id(self, schema: StreamSchema) -> str:
        """Cheap for an object that was asked for before."""
        known = self._ids.get(id(schema))
        if known is None:
            content = text_of(schema)
            known = schema, blake2b(content.encode(), digest_size=_DIGEST_BYTES).hexdigest()
            if known[1] not in self._schemas:
                self._file.append(_NotedSchema(known[1], content))
                self._schemas[known[1]] = schema
            self._ids[id(schema)] = known
        return known[1]


@contextmanager
def open_survey_journal(path: Path, lake: str) -> Iterator[SurveyJournal]:
    """The journal at ``path`` of the lake with the URL ``lake``, made where there is none, held as long as the block
    runs. Raises ``SettingError`` as ``open_file`` does."""
    schemas: dict[str, StreamSchema] = {}
    begins = ScratchDatabase(
        "the lines of a journal",
        ["CREATE TABLE lines (stamp BLOB, begin INTEGER)"],
        ["CREATE INDEX by_stamp ON lines (stamp, begin)"],
    )

    def take(line: bytes, begin: int) -> None:
        noted = _LINE.decode(line)
        if isinstance(noted, _NotedSchema):
            schemas[noted.id] = msgspec.convert(json.loads(noted.content), StreamSchema)
        elif noted.schema in schemas and _SAID.decode(noted.said):
            begins.add("lines", (bytes.fromhex(noted.stamp), begin))
        else:
            raise ValueError(noted.schema)

    with open_file(path, "singerlake rebuild", lake, take) as file:
        yield SurveyJournal(file, schemas, begins)


def text_of(schema: StreamSchema) -> str:
    """All of a SCHEMA message's content as JSON in ASCII: equal for what says the same in the same order."""
    return json.dumps(msgspec.structs.asdict(schema))


def _is_unicode(packed: bytes) -> bool:
    try:
        _SAID.decode(packed)
    except REFUSALS:
        return False
    return True


def _stamp(entry: Entry) -> bytes | None:
    """None for a key that is not Unicode, as a file of a local disk may have."""
    try:
        # What an earlier version read of a file may lack what this one asks of it.
        return stamp(entry, FileFacts.__struct_fields__)
    except UnicodeEncodeError:
        return None


prepare_decoders(_NotedSchema, _File)
