"""The rest of the reader written from ``shared/docs/format`` alone: section 9, a state from data files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.golden.independent.atomic import is_left_out
from tests.golden.independent.attached import is_row
from tests.golden.independent.members import Member, is_schema, lines_of, members_of, origins_of
from tests.golden.independent.names import name_of
from tests.golden.independent.reader import HOLE
from tests.golden.independent.times import moment
from tests.golden.independent.unreadable import Unreadable

if TYPE_CHECKING:
    from pathlib import Path

    from tests.golden.independent.reader import Stream


@dataclass
class Found:
    """A sound data file."""

    path: str
    id: str
    body: bytes
    members: list[Member]
    sources: dict[str, int]
    erased: Counter[str]
    stored: float
    header: dict[str, Any] | None
    messages: int
    holes: int

    @property
    def held(self) -> dict[str, tuple[int, int]]:
        """Of each original how much was erased of it, and how many messages are here: the greatest is to be taken."""
        return {id: (self.erased[id], count) for id, count in self.sources.items()}

    @property
    def text(self) -> bytes:
        return b"".join(member.text for member in self.members)

    @property
    def order(self) -> tuple[Any, ...]:
        stored = datetime.fromtimestamp(self.stored, UTC)
        if self.header is None:
            return (True, stored.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "", 0, self.id)
        created = (moment(self.header["created"]) or stored).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return (False, created, self.header["run"], self.header["seq"], self.id)

    def holds(self, other: Found) -> bool:
        """Whether the other's text is this one's, whole or cut at the end of a member."""
        ends, size = {0}, 0
        for member in self.members:
            size += len(member.text)
            ends.add(size)
        return self.text.startswith(other.text) and len(other.text) in ends


@dataclass
class Kept:
    """A ``schema.json``, which stands among the files as one without messages."""

    path: str
    created: str
    run: str

    @property
    def order(self) -> tuple[Any, ...]:
        return (False, self.created, self.run, 0, "")


@dataclass
class Rebuild:
    """A state from data files alone."""

    stream: Stream
    found: list[Found] = field(default_factory=list)

    def state(self) -> dict[str, Any]:
        for path in sorted(self.stream.folder.glob("*/*.singer.gz")):
            if path.name[0] in "._" or name_of(path.parent.name) is None:
                continue
            try:
                found = self._read(path)
            except (Unreadable, ValueError, KeyError):
                continue
            joined = found.sources.keys() != {found.id}
            left_out = not joined and is_left_out(self.stream.folder.parent, found.header)
            if found.messages and not left_out:
                self.found.append(found)
        files, offset = [], 0
        versions: dict[str, str] = {}
        schemas: dict[str, dict[str, Any]] = {}
        ordered: list[Found | Kept] = [*chosen(without_copies(self.found)), *self._kept()]
        for each in sorted(ordered, key=lambda each: each.order):
            version = name_of(each.path.partition("/")[0])
            assert version is not None
            versions.setdefault(version, f"v{len(versions) + 1}")
            schemas.setdefault(version, {"first_offset": offset})
            if isinstance(each, Kept):
                continue
            table = []
            for member in each.members:
                count = sum(not is_schema(line) for line in lines_of([member]))
                table += [[member.start, count]] if count else []
            files.append(
                {
                    "id": each.id,
                    "path": each.path,
                    "offset": offset,
                    "messages": each.messages,
                    "erased": each.holes,
                    "bytes": len(each.body),
                    "members": table,
                    "attached": rows_of(each.members, list(each.sources.values())),
                }
            )
            offset += each.messages
        made = {"lineage": None, "files": files, "retired": [], "next_offset": offset, "closed": None}
        return {**made, "versions": versions, "schemas": schemas}

    def _kept(self) -> list[Kept]:
        """The schemas that are of this stream (8.1)."""
        found = []
        for path in sorted(self.stream.folder.glob("*/schema.json")):
            kept = json.loads(path.read_bytes())
            if name_of(path.parent.name) is not None and (kept["tap"], kept["stream"]) == (
                self.stream.tap,
                self.stream.name,
            ):
                found.append(Kept(str(path.relative_to(self.stream.folder)), kept["created"], kept["run"]))
        return found

    def _read(self, path: Path) -> Found:
        body = path.read_bytes()
        members = members_of(body)
        lines = lines_of(members)
        if not lines or not is_schema(lines[0]) or "schema" not in json.loads(lines[0]):
            raise Unreadable("no SCHEMA message")
        messages = holes = 0
        for line in lines:
            if line == HOLE:
                messages, holes = messages + 1, holes + 1
                continue
            message = json.loads(line)
            if message["stream"] != self.stream.name or message["type"] not in ("SCHEMA", "RECORD", "ACTIVATE_VERSION"):
                raise Unreadable("no message of this stream")
            messages += message["type"] != "SCHEMA"
        origins = origins_of(members)
        if origins.own is not None and origins.messages != messages:
            raise Unreadable("holds other messages than it says")
        if sum(records for _, records in origins.erased) != holes:
            raise Unreadable("has other holes than it says")
        erased: Counter[str] = Counter()
        for id, records in origins.erased:
            erased[id] += records
        header = next((member.words for member in members if is_header(member.words)), None)
        in_name = re.search(r"-([0-9a-w][0-9a-v]{15})\.singer\.gz\Z", path.name)
        id = (header or {}).get("id") or (in_name.group(1) if in_name else by_content(body))
        id = id if origins.own is None else origins.own
        return Found(
            path=str(path.relative_to(self.stream.folder)),
            id=id,
            body=body,
            members=members,
            sources=dict(origins.replaces) or {id: messages},
            erased=erased,
            stored=path.stat().st_mtime,
            header=header,
            messages=messages,
            holes=holes,
        )


def is_header(words: dict[str, Any]) -> bool:
    """Whether an ``SL`` says all of what a writer begins a file with."""
    texts = [words.get(name) for name in ("id", "created", "run")]
    atomic = type(words.get("atomic", False)) is bool
    return all(isinstance(text, str) and text for text in texts) and type(words.get("seq")) is int and atomic


def by_content(body: bytes) -> str:
    """An id made of the content."""
    return base64.b32hexencode(hashlib.sha256(body).digest()[:10]).decode().lower()


def without_copies(found: Sequence[Found]) -> list[Found]:
    """9, step 3."""
    kept: list[Found] = []
    for each in sorted(found, key=fullness):
        twins = [known for known in kept if known.id == each.id]
        if any(twin.holds(each) for twin in twins):
            continue
        if twins:
            each.id = by_content(each.body)
            each.sources, each.erased = {each.id: each.messages}, Counter()
        kept.append(each)
    return kept


def fullness(each: Found) -> tuple[Any, ...]:
    rows = rows_of(each.members, list(each.sources.values()))
    return (-each.messages, -len(rows), f"-{each.id}.singer" not in each.path, each.path)


# 4.1


def rows_of(members: Sequence[Member], originals: Sequence[int]) -> list[list[Any]]:
    """The rows of attached files, counted from the file's first message. ``originals`` are the messages of each
    original of a vacuumed file."""
    found: list[list[Any]] = []
    messages = header = 0
    ends = [sum(originals[:count]) for count in range(len(originals))]
    for member in members:
        if is_header(member.words):
            header = messages
        elif not member.text and "replaces" not in member.words:
            begin = max([header, *(end for end in ends if end < messages)])
            rows = member.words.get("attached")
            if isinstance(rows, list) and all(is_row(row) and begin + row[0] < messages for row in rows):
                found += [[begin + row[0], *row[1:7]] for row in rows]
        messages += sum(not is_schema(line) for line in lines_of([member]))
    return sorted(found, key=lambda row: row[0])


def chosen(found: Sequence[Found]) -> list[Found]:
    """9, step 4: each original once where that can be, else at least once."""
    most: dict[str, tuple[int, int]] = {}
    for each in found:
        for id, held in each.held.items():
            most[id] = max(held, most.get(id, held))
    for id, (erased, _) in most.items():
        longest = max(each.sources[id] for each in found if id in each.sources)
        if erased and all(each.sources.get(id) != longest or each.erased[id] < erased for each in found):
            raise Unreadable("to take a file would bring back what was erased, or lose what no other has")
    whole = [each for each in found if all(most[id] == held for id, held in each.held.items())]
    return exactly(whole, set(most)) or at_least(whole, set(most)) or at_least(list(found), set(most)) or []


def exactly(found: Sequence[Found], wanted: set[str]) -> list[Found] | None:
    if not wanted:
        return []
    first = min(wanted)
    for each in sorted(found, key=lambda each: -len(each.sources)):
        if first in each.sources and wanted.issuperset(each.sources):
            rest = exactly(found, wanted.difference(each.sources))
            if rest is not None:
                return [each, *rest]
    return None


def at_least(found: Sequence[Found], wanted: set[str]) -> list[Found] | None:
    taken: list[Found] = []
    for each in sorted(found, key=lambda each: -len(each.sources)):
        if wanted.intersection(each.sources):
            taken.append(each)
            wanted = wanted.difference(each.sources)
    return None if wanted else taken
