"""A reader written from ``shared/docs/format`` alone: nothing of this project is imported, nor any other library.
Section 9, without a manifest, is in ``rebuild``, transactions are in ``log``.

It is what somebody would write in another language: plain, without care for speed. Numbers in comments are sections of
the document. It gives the messages of one stream, or raises ``Unreadable``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.golden.independent.atomic import NoDecision, decision_of, settled_by
from tests.golden.independent.attached import is_row
from tests.golden.independent.fields import is_file, wrong_in
from tests.golden.independent.log import applied
from tests.golden.independent.members import is_schema, lines_of, members_of, origins_of
from tests.golden.independent.names import is_place, segment
from tests.golden.independent.segments import NoSegment, with_all_files
from tests.golden.independent.unreadable import Unreadable

STORES_WITH_A_LOG = ("log", "merge")
HOLE = b'{"type":"ERASED"}'
FEATURES = {"atomic", "attached", "erased", "expired", "segments"}


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
        from tests.golden.independent.rebuild import Rebuild

        return Rebuild(self).state()

    # 11.2

    def _followed(self, state: dict[str, Any] | None) -> dict[str, Any] | None:
        log = self.folder / "_log"
        floor = json.loads((log / "floor.json").read_bytes()) if (log / "floor.json").exists() else None
        if floor is not None and (state is None or state["transaction"]["number"] < floor["floor"]):
            state = checked(json.loads((self.folder / floor["snapshot"]).read_bytes()), self)
        records = [
            json.loads(path.read_bytes())
            for path in sorted(log.iterdir())
            if re.fullmatch(r"\d{20}\.json", path.name)
            and (state is None or int(path.name[:20]) > state["transaction"]["number"])
        ]
        births = [at for at, record in enumerate(records) if record["after"] is None]
        if births:
            state, records = None, records[births[-1] :]
        for record in records:
            if state is not None and state["closed"]:
                break
            if state is not None and record["number"] != state["transaction"]["number"] + 1:
                raise Unreadable(f"a transaction before {record['number']} is missing")
            state = self._after(state, record)
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
        if change["kind"] != "rebase":
            return entry
        whole = {"kind": "rebase", "manifest": checked(change["manifest"], self)}
        return {**entry, "transaction": {**entry["transaction"], "change": whole}}

    # 5

    def floor(self, state: dict[str, Any]) -> int:
        """The offset at which the stream begins."""
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
            if origins.messages != file["messages"]:
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


def features_of(state: dict[str, Any], floor: int) -> list[str]:
    """5.5: the features that a state has something of, whose segments are read."""
    files, retired = state["files"], state.get("retired", ())
    has = {
        "atomic": "settled" in state,
        "attached": any(file.get("attached") for file in files)
        or any(file["path"].startswith("_files/") for file in retired),
        "erased": any(file.get("erased") for file in files),
        "expired": floor > 0,
    }
    return [name for name, there in has.items() if there]


def checked(state: dict[str, Any], stream: Stream) -> dict[str, Any]:
    """7, step 2. A state with segments comes as one that has all files in ``files``."""
    if type(state.get("format")) is not int or state["format"] != 1:
        raise Unreadable("another format")
    if wrong_in(state):
        raise Unreadable(f"fields are missing or not valid: {wrong_in(state)}")
    if not FEATURES.issuperset(state.get("features", ())):
        raise Unreadable("a feature that is not known")
    if (state["tap"], state["stream"]) != (stream.tap, stream.name):
        raise Unreadable("of another stream")
    try:
        state = with_all_files(state, stream.folder)
    except NoSegment as error:
        raise Unreadable(str(error)) from error
    if not all(is_file(file) for file in state["files"]):
        raise Unreadable("a field of a file is missing or not valid")
    rows = [(row, file["messages"]) for file in state["files"] for row in file.get("attached", ())]
    if not all(is_row(row) and row[0] < messages for row, messages in rows):
        raise Unreadable("a row that is none")
    if not all(is_place(file["path"]) for file in state["files"]):
        raise Unreadable("a path that leads elsewhere")
    return state
