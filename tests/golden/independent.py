"""A reader written from ``shared/docs/format.md`` alone: nothing of this project is imported, nor any other library.
Section 9, without a manifest, is in ``independent_rebuild``, transactions are in ``independent_log``.

It is what somebody would write in another language: plain, without care for speed. Numbers in comments are sections of
the document. It gives the messages of one stream, or raises ``Unreadable``.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.golden.independent_atomic import NoDecision, decision_of, settled_by
from tests.golden.independent_attached import is_row
from tests.golden.independent_log import applied
from tests.golden.independent_segments import NoSegment, with_all_files

STORES_WITH_A_LOG = ("log", "merge")
NAMES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
DATA = ("const", "default", "enum", "examples", "example")
HOLE = b'{"type":"ERASED"}'


class Unreadable(Exception):
    """The lake is not what the document says."""


# 2.1


def segment(name: str) -> str:
    """A name as a folder."""
    plain = re.compile(rb"[A-Za-z0-9]|(?<=.)[-_.]", re.DOTALL)
    data = name.encode("utf-8", "surrogatepass")
    made = "".join(
        chr(byte) if plain.fullmatch(data, at, at + 1) or (at and byte in b"-_.") else f"%{byte:02X}"
        for at, byte in enumerate(data)
    )
    return made.replace(".", "%2E") if made in ("catalogue.json", "singerlake.json") else made


def name_of(folder: str) -> str | None:
    """The name that a folder stands for; None where it stands for none."""
    data = re.sub(rb"%([0-9A-F]{2})", lambda found: bytes([int(found.group(1), 16)]), folder.encode())
    try:
        name = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return name if name and segment(name) == folder else None


# 3


def canonical(schema: Any) -> str:
    """The canonical text of a schema, whose sorted arrays are in order already."""
    if isinstance(schema, dict):
        members = (f"{canonical(key)}:{canonical(schema[key])}" for key in sorted(schema))
        return "{" + ",".join(members) + "}"
    if isinstance(schema, list):
        return "[" + ",".join(map(canonical, schema)) + "]"
    if isinstance(schema, float):
        return repr(schema) if schema - schema == 0 else "null"
    if isinstance(schema, str):
        return json.dumps(schema, ensure_ascii=False)
    return json.dumps(schema)


def in_order(schema: Any, kind: str = "schema") -> Any:
    """The same schema with its sets in order."""
    if isinstance(schema, list):
        items = [in_order(item) for item in schema]
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True)) if kind == "set" else items
    if not isinstance(schema, dict):
        return schema
    made = {}
    for key, value in schema.items():
        if kind == "names":
            made[key] = in_order(value)
        elif key in DATA:
            made[key] = value
        elif key in NAMES and isinstance(value, dict):
            made[key] = in_order(value, "names")
        else:
            made[key] = in_order(value, "set" if key in ("type", "required") else "schema")
    return made


def canonical_bytes(schema: Any) -> bytes:
    """What is hashed."""
    return canonical(in_order(schema)).encode("utf-8", "surrogatepass")


def hash_of(fingerprint: int) -> str:
    """The first seven characters; the fingerprint itself is FarmHash's."""
    return base64.b85encode(fingerprint.to_bytes(8, "big")).decode()[:7]


# 4


@dataclass
class Member:
    """A gzip member: where it starts, its text and what its ``SL`` says."""

    start: int
    text: bytes
    words: dict[str, Any]


def members_of(body: bytes, start: int = 0) -> list[Member]:
    """All members from a stored byte on."""
    found = []
    while start < len(body):
        inflater = zlib.decompressobj(31)
        try:
            text = inflater.decompress(body[start:])
        except zlib.error as error:
            raise Unreadable(str(error)) from error
        if not inflater.eof:
            raise Unreadable("cut")
        found.append(Member(start, text, words_of(body[start:])))
        start = len(body) - len(inflater.unused_data)
    return found


def words_of(member: bytes) -> dict[str, Any]:
    """The object in the subfield ``SL``; empty where there is none."""
    if not member[3] & 4:
        return {}
    end = 12 + int.from_bytes(member[10:12], "little")
    at = 12
    while at + 4 <= end:
        size = int.from_bytes(member[at + 2 : at + 4], "little")
        if member[at : at + 2] == b"SL":
            try:
                words = json.loads(member[at + 4 : at + 4 + size])
            except ValueError:
                return {}
            return words if isinstance(words, dict) else {}
        at += 4 + size
    return {}


def lines_of(members: Iterable[Member]) -> list[bytes]:
    """Whole lines without their newlines."""
    text = b"".join(member.text for member in members)
    if not text:
        return []
    if not text.endswith(b"\n"):
        raise Unreadable("ends in the middle of a line")
    return text[:-1].split(b"\n")


def is_schema(line: bytes) -> bool:
    return b'"SCHEMA"' in line and json.loads(line).get("type") == "SCHEMA"


@dataclass
class Origins:
    """What the leading empty members say: the file's id, and the lists."""

    own: str | None
    replaces: list[tuple[str, int]]
    through: list[tuple[str, int]]
    erased: list[tuple[str, int]]


def origins_of(members: Sequence[Member]) -> Origins:
    """What a vacuumed file was made of; nothing where it is none."""
    found = Origins(None, [], [], [])
    for member in members:
        if member.text:
            break
        if "replaces" in member.words:
            found.own = found.own or member.words["id"]
            found.replaces += [(id, count) for id, count in member.words["replaces"]]
            found.through += [(id, before) for id, before in member.words.get("through", ())]
            found.erased += [(id, records) for id, records, _, _ in member.words.get("erased", ())]
    return found


# 7


@dataclass
class Stream:
    """One stream of a lake in a folder."""

    root: Path
    tap: str
    name: str

    @property
    def folder(self) -> Path:
        return self.root / "raw" / segment(self.tap) / segment(self.name)

    def state(self) -> dict[str, Any]:
        """The newest state (7, step 1 and 2)."""
        path = self.folder / "manifest.json"
        state: dict[str, Any] | None = None
        if path.exists():
            state = checked(json.loads(path.read_bytes()), self)
        log = self.folder / "_log"
        followed = (
            self._followed(state)
            if log.exists() and (state is None or (state["store"] in STORES_WITH_A_LOG and not state["closed"]))
            else state
        )
        if followed is not None and (path.exists() or not followed["closed"]):
            return followed
        from tests.golden.independent_rebuild import Rebuild

        return Rebuild(self).state()

    # 11.2

    def _followed(self, state: dict[str, Any] | None) -> dict[str, Any] | None:
        log = self.folder / "_log"
        floor = json.loads((log / "floor.json").read_bytes()) if (log / "floor.json").exists() else None
        if floor is not None and (state is None or state["transaction"]["number"] < floor["floor"]):
            state = checked(json.loads((self.folder / floor["snapshot"]).read_bytes()), self)
        numbers = sorted(int(path.name[:20]) for path in log.iterdir() if re.fullmatch(r"\d{20}\.json", path.name))
        expected = state["transaction"]["number"] + 1 if state is not None else None
        for number in numbers:
            if expected is not None and number < expected:
                continue
            if expected is not None and number != expected:
                raise Unreadable(f"transaction {expected} is missing")
            state = self._after(state, json.loads((log / f"{number:020}.json").read_bytes()))
            if state["closed"]:
                break
            expected = number + 1
        return self._decided(state)

    # 11.6

    def _decided(self, state: dict[str, Any] | None) -> dict[str, Any] | None:
        """A state whose log was read to its end, with what is decided of it."""
        if state is None or "prepared" not in state:
            return state
        try:
            decision = decision_of(self.folder.parent, state["prepared"]["commit"])
        except NoDecision as error:
            raise Unreadable("a decision that cannot be read") from error
        if decision is None:
            return state
        made = settled_by(decision)
        return self._after(
            state,
            {"number": state["transaction"]["number"] + 1, "after": state["transaction"]["id"], "transaction": made},
        )

    def _after(self, state: dict[str, Any] | None, record: dict[str, Any]) -> dict[str, Any]:
        if state is None:
            born = checked(record["transaction"]["change"]["manifest"], self)
            return {**born, "transaction": {"number": record["number"], "id": record["transaction"]["id"]}}
        if record["after"] != state["transaction"]["id"]:
            raise Unreadable("a record that does not continue the log")
        for entry in record.get("entries", [record]):
            each = self._opened(entry)
            fits = each.get("after", state["transaction"]["id"]) == state["transaction"]["id"]
            after = applied(state, each["transaction"]) if fits or "entries" not in record else None
            if after is None and "entries" not in record:
                raise Unreadable("a transaction that does not fit")
            if after is not None:
                state = {**after, "transaction": {"number": record["number"], "id": each["transaction"]["id"]}}
        id = record["id"] if "entries" in record else record["transaction"]["id"]
        return {**state, "transaction": {"number": record["number"], "id": id}}

    def _opened(self, entry: dict[str, Any]) -> dict[str, Any]:
        """An entry or a record; a new state in segments (11.1) comes as one that has all files."""
        change = entry["transaction"]["change"]
        if change["kind"] != "rebase_segments":
            return entry
        whole = {"kind": "rebase", "manifest": checked(change["manifest"], self)}
        return {**entry, "transaction": {**entry["transaction"], "change": whole}}

    # 5

    def floor(self, state: dict[str, Any]) -> int:
        """The offset at which the stream begins."""
        if state.get("format", 1) < 2:
            return 0
        return int(state["files"][0]["offset"] if state["files"] else state["next_offset"])

    # 7, step 3

    def goes_on(self, state: dict[str, Any], bookmark: dict[str, Any]) -> int:
        """The offset at which to go on, where the messages from there on are there."""
        offset = self.resume(state, bookmark)
        if offset < self.floor(state):
            raise Unreadable("the next messages have expired")
        return offset

    # 7, steps 4 and 5

    def messages(self, state: dict[str, Any], offset: int = 0) -> Iterable[bytes]:
        """All messages from an offset on."""
        ends = [self.floor(state), *(file["offset"] + file["messages"] for file in state["files"])]
        if ends != [*(file["offset"] for file in state["files"]), state["next_offset"]]:
            raise Unreadable("offsets are left out, or there twice")
        for file in state["files"]:
            skip = max(0, offset - file["offset"])
            if skip < file["messages"]:
                yield from self._of(file, skip)

    def _of(self, file: dict[str, Any], skip: int) -> list[bytes]:
        path = self.folder / file["path"]
        if not path.exists():
            raise Unreadable("a listed file is not there")
        body = path.read_bytes()
        start, before = 0, 0
        for at, count in file["members"]:
            if before + count > skip:
                start = at if before else 0
                break
            before += count
        kept = [line for line in lines_of(members_of(body, start)) if not is_schema(line)]
        if len(kept) != file["messages"] - before or len(body) != file["bytes"]:
            raise Unreadable("the file is not what the manifest says")
        wanted = kept[skip - before :]
        return [line for line in wanted if line != HOLE] if file.get("erased") else wanted

    def ruling_schema(self, file: dict[str, Any]) -> dict[str, Any]:
        """The first line of the file."""
        made: dict[str, Any] = json.loads(lines_of(members_of((self.folder / file["path"]).read_bytes()))[0])
        return made

    # 7, step 6

    def resume(self, state: dict[str, Any], bookmark: dict[str, Any]) -> int:
        """The offset at which to go on."""
        listed = {file["id"]: file for file in state["files"]}
        file = listed.get(bookmark["file"])
        same = bookmark["lineage"] is not None and bookmark["lineage"] == state["lineage"]
        if same and (file is None or file["offset"] + bookmark["line"] == bookmark["offset"]):
            return int(bookmark["offset"])
        if bookmark["file"] is None and bookmark["offset"] == 0:
            return 0
        if file is not None:
            return int(file["offset"] + bookmark["line"])
        for file in state["files"]:
            origins = origins_of(members_of((self.folder / file["path"]).read_bytes()))
            if sum(count for _, count in origins.replaces) != file["messages"]:
                continue
            before = 0
            for id, count in origins.replaces:
                if id == bookmark["file"]:
                    return int(file["offset"] + before + bookmark["line"])
                before += count
            for id, at in origins.through:
                if id == bookmark["file"]:
                    return int(file["offset"] + at + bookmark["line"])
        raise Unreadable("nobody knows the bookmark's file")


def checked(state: dict[str, Any], stream: Stream) -> dict[str, Any]:
    """7, step 2. A state with segments comes as one that has all files in ``files``."""
    if type(state["format"]) is not int or not 1 <= state["format"] <= 5:
        raise Unreadable("a newer format")
    if (state["tap"], state["stream"]) != (stream.tap, stream.name):
        raise Unreadable("of another stream")
    try:
        state = with_all_files(state, stream.folder)
    except NoSegment as error:
        raise Unreadable(str(error)) from error
    if not all(is_row(row) for file in state["files"] for row in file.get("attached", ())):
        raise Unreadable("a row that is none")
    if not all(is_place(file["path"]) for file in state["files"]):
        raise Unreadable("a path that leads elsewhere")
    return state


def is_place(path: str) -> bool:
    """Whether a path leads to a place in the stream's folder."""
    return all(name not in ("", ".", "..") for name in path.split("/"))


# 5.1


def moment(text: str) -> datetime | None:
    """What a text names; None where it names no moment."""
    try:
        text = re.sub(r"\.(\d+)", lambda part: f".{part.group(1):0<6.6}", text)
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def may_hold(file: dict[str, Any], begin: datetime, end: datetime) -> bool:
    """Whether a file may hold a record of a span of time."""
    first, last = moment(file["first"]), moment(file["last"])
    if first is None or last is None or first > last:
        return True
    little = timedelta(microseconds=1)
    return first - little <= end and begin <= last + little
