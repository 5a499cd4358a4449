"""What a survey has read so far: a line for each sound file, with what it says of itself, and one for each schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import msgspec

from singerlake.format.decoders import prepare_decoders
from singerlake.format.lines.messages import REFUSALS
from singerlake.format.state.model import StreamSchema
from singerlake.scratch import ScratchDatabase
from singerlake.storage.port import Entry
from singerlake.upkeep.rebuild.scanned_file import FileFacts, ScannedFile
from singerlake.work.journal_file import JournalFile, open_file, stamp

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
        """What an object below ``prefix`` said when it was as it is now; None where it was not read then, or was no
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
        """A sound file was read; one that says what is no Unicode is read again each time. Raises ``SettingError``
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
    """None for a key that is no Unicode, as a file of a local disk may have."""
    try:
        # What an earlier version read of a file may lack what this one asks of it.
        return stamp(entry, FileFacts.__struct_fields__)
    except UnicodeEncodeError:
        return None


prepare_decoders(_NotedSchema, _File)
