"""What examples/rebuild.mjs makes of data files is what Singerlake makes of them, whatever they are."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from singerlake.errors import LostStateError
from singerlake.format.extra_fields import empty_member
from singerlake.format.lines.holes import HOLE
from singerlake.format.state.manifest import to_json
from singerlake.format.state.model import Manifest
from singerlake.lake import Lake
from singerlake.singer_file import compress_member
from tests.upkeep.attached.data_files import digest
from tests.upkeep.rebuild.test_torn import some_files
from tests.upkeep.shelf import record, schema_line

DRIVER = Path(__file__).with_name("example_reader.mjs")
LAKES = 250
CREATED = ["2026-01-01T00:00:01.000000Z", "2026-01-01 01:00:01,0+01", "2025-12-31T23:59:60Z", "yesterday"]
SCHEMAS: list[Any] = [{"type": ["string", "null"]}, {"type": ["null", "string"]}, {"maximum": 2**64}, None]
FACTS = ("id", "path", "version", "offset", "messages", "records", "bytes", "sha256", "members", "attached", "erased")


@dataclass(frozen=True)
class Member:
    text: bytes
    said: Any = None

    @property
    def stored(self) -> bytes:
        extra = None if self.said is None else json.dumps(self.said).encode()
        return compress_member(self.text, 1, extra=extra) if self.text or extra is None else empty_member(extra)


class Folder:
    """Data files of one stream, of which many are odd."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._number = 0
        self.files: list[tuple[str, bytes]] = []
        if seed % 2:
            for made in some_files(seed):
                self._put(f"x/s-{len(self.files)}-{made.id:016}.singer.gz", made.body)
        originals = [self._original(number) for number in range(self._random.randint(1, 4))]
        for id, members in originals:
            self._put(self._path(id), b"".join(each.stored for each in members))
        for _ in range(self._random.randint(0, 4)):
            self._odd(*self._random.choice(originals), originals)
        if self._random.random() < 0.3:
            self._put(f"{self._random.choice('xyz')}/schema.json", self._schema_json())
        self.decisions = [self._random.random() < 0.5 for _ in range(self._random.randint(0, 2))]

    def _put(self, path: str, body: bytes) -> None:
        self.files.append((path, body))

    def _path(self, id: str) -> str:
        self._number += 1
        end = self._random.choice(
            [f"-{id}", f"-{id}", "-0000000000000009", "-w123456789abcdef", "", "-UPPER67890123456"]
        )
        return f"{self._random.choice('xyz')}/s-{self._number}{end}.singer.gz"

    def _original(self, number: int) -> tuple[str, list[Member]]:
        id = f"{number:016}"
        said: Any = {
            "id": id,
            "created": self._random.choice(CREATED),
            "run": self._random.choice(["r", "r\ue000", "r\U0001f600", "run0", "run1"]),
            "seq": self._random.randint(-1, 2),
            "lake_id": None,
        }
        if self._random.random() < 0.2:
            said["atomic"] = True
        if self._random.random() < 0.3:
            wrong = self._random.choice(
                [{"seq": 1.0}, {"id": ""}, {"created": None}, {"atomic": "x"}, {"lake_id": 1}, {}]
            )
            said = {**said, **wrong} if wrong else None
        keys = self._random.choice([{}, {"key_properties": "id"}, {"key_properties": ["id"]}])
        head = schema_line(self._random.choice(SCHEMAS), **keys)
        members = [Member(head, said)]
        count = self._random.randint(0, 5)
        lines = [record(1000 * number + each) for each in range(count)]
        lines = [line if self._random.random() < 0.9 else head + line for line in lines]
        while lines:
            taken, lines = lines[:2], lines[2:]
            text = b"".join(taken)
            if self._random.random() < 0.2:
                cut = self._random.randint(1, len(text) - 1)
                members += [Member(text[:cut]), Member(text[cut:])]
            else:
                members.append(Member(text, said if self._random.random() < 0.1 else None))
            if said and self._random.random() < 0.1:
                members.append(Member(b"", said))
            if self._random.random() < 0.4:
                members.append(self._rows())
        if self._random.random() < 0.2:
            members[:2] = [Member(b"".join(each.text for each in members[:2]), said)]
        if self._random.random() < 0.1:
            members.insert(0, Member(b"", self._random.choice([said, "x", {"attached": []}])))
        return id, members

    def _rows(self) -> Member:
        rows: list[Any] = []
        for _ in range(self._random.randint(1, 2)):
            sha256 = digest(self._random.choice("ab"))
            row = [self._random.randint(0, 3), "p", None, sha256, 1, "x", self._random.randint(1, 2)]
            if self._random.random() < 0.1:
                row[self._random.randrange(7)] = self._random.choice([None, -1, "x", 2.0])
            rows.append(row if self._random.random() < 0.9 else [*row, "more"])
        more = self._random.choice([{}, {}, {}, {"id": "i", "lineage": "l", "offset": 0, "replaces": []}])
        return Member(b"", {"attached": rows, **more})

    def _odd(self, id: str, members: list[Member], originals: list[tuple[str, list[Member]]]) -> None:
        body = b"".join(each.stored for each in members)
        kind = self._random.choice(["copy", "cut", "clash", "damaged", "joined", "joined", "line"])
        if kind == "cut":
            body = b"".join(each.stored for each in members[: self._random.randint(1, len(members))])
        if kind == "clash":
            body += Member(record(9000 + self._number)).stored
        if kind == "damaged":
            at = self._random.randrange(len(body))
            body = self._random.choice([body[:at], body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :], body + b"\0"])
        if kind == "line":
            lines = [
                b'{"type":"RECORD","stream":"s","record":{"x":NaN,"y":-Infinity,"y":1e999}} \r\n',
                b'{"\\u0074ype":"RECORD","stream":"s","record":{"x":"\\ud800"}}\n',
                b'{"type":"RECORD","stream":"s","record":{"x":%s}}\n' % (500 * b"[" + 500 * b"]"),
                b'{"type":"ACTIVATE_VERSION","stream":"s","version":1}\n',
                b'{"type":"RECORD","stream":"s","record":[]}\n',
                b'{"type":"RECORD","stream":"S","record":{}}\n',
                b'{"type":"RECORD","stream":"s","record":{"x":"\xff"}}\n',
                b'{"type":"RECORD","stream":"s","record":{"x":"\x01"}}\n',
                b'{"type":"RECORD","stream":"s","record":{"x":01}}\n',
                b'{"type":"STATE","stream":"s","value":{}}\n',
                b'{"type":"SCHEMA","stream":"S","schema":{}}\n',
                HOLE,
                b"\n",
                b'{"type":"RECORD","stream":"s","record":{}}',
            ]
            body += Member(self._random.choice(lines)).stored
        if kind == "joined":
            body, id = self._joined(originals), f"{100 + self._number:016}"
        self._put(self._path(id), body)

    def _joined(self, originals: list[tuple[str, list[Member]]]) -> bytes:
        chosen = self._random.sample(originals, self._random.randint(1, len(originals)))
        if self._random.random() < 0.7:
            # Only files with the same SCHEMA message are joined.
            chosen = [each for each in chosen if each[1][0].text == chosen[0][1][0].text]
        replaces, erased, bodies = [], [], []
        for id, members in chosen:
            holes, texts = 0, []
            for each in members:
                lines = each.text.splitlines(keepends=True)
                if each.text.endswith(b"\n") and self._random.random() < 0.3:
                    kept = [HOLE if b'"RECORD"' in line and b'"SCHEMA"' not in line else line for line in lines]
                    holes += kept.count(HOLE)
                    lines = kept
                texts.append(Member(b"".join(lines), each.said))
            count = b"".join(each.text for each in members).count(b'"RECORD"')
            replaces.append([id, count + (self._random.random() < 0.1)])
            if holes:
                erased.append([id, holes, "2026", "ada"])
            bodies += texts
        said: Any = {
            "id": f"{100 + self._number:016}",
            "lineage": "l",
            "offset": 0,
            "replaces": replaces,
            "lake_id": None,
        }
        if erased and self._random.random() < 0.9:
            said["erased"] = erased
        if self._random.random() < 0.1:
            said |= self._random.choice(
                [{"id": ""}, {"offset": "0"}, {"through": [["x"]]}, {"run": "r", "created": "c", "seq": 1}]
            )
        front = [Member(b"", said)]
        if len(replaces) > 1 and self._random.random() < 0.5:
            rest = {**said, "id": "other", "replaces": replaces[1:], "erased": []}
            front = [Member(b"", {**said, "replaces": replaces[:1]}), Member(b""), Member(b"", rest)]
        return b"".join(each.stored for each in [*front, *bodies])

    def _schema_json(self) -> bytes:
        said = {
            "format": 1,
            "tap": "t",
            "stream": self._random.choice("ssss?"),
            "created": self._random.choice(CREATED),
            "run": "r",
            "schema": self._random.choice([*SCHEMAS, {"title": "alone"}]),
            "key_properties": [],
            "bookmark_properties": [],
            "lake_id": None,
        }
        return json.dumps(said).encode()

    def write(self, root: Path) -> None:
        folder = root / "raw/t/s"
        for number, (path, body) in enumerate(self.files):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(body)
            second = 1_700_000_000 + number * 7 % 5
            os.utime(folder / path, (second, second))
        for number, committed in enumerate(self.decisions):
            name = f"20260101T000000.00000{number}Z-{number:016}"
            said = {"format": 1, "id": name, "at": CREATED[0], "run": f"run{number}", "writer": "w", "streams": {}}
            (root / "raw/t/_commits").mkdir(exist_ok=True)
            (root / "raw/t/_commits" / f"{name}.json").write_text(json.dumps({**said, "committed": committed}))


def told(state: Any) -> dict[str, Any]:
    schemas = {
        name: [each["schema"], each["key_properties"], each["bookmark_properties"], each["first_offset"]]
        for name, each in state["schemas"].items()
    }
    files = [[file.get(name) or 0 for name in FACTS] for file in state["files"]]
    return {"files": files, "schemas": schemas} | {name: state[name] for name in ("versions", "next_offset", "lineage")}


def lines_of(folder: Path, path: str) -> list[bytes]:
    lines = gzip.decompress((folder / path).read_bytes()).split(b"\n")[:-1]
    return [line for line in lines if b'"SCHEMA"' not in line and line != HOLE.rstrip()]


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, dict[str, Any]]]:
    """Lakes, each with what the example says of it."""
    roots = [tmp_path_factory.mktemp("lake") for _ in range(LAKES)]
    for seed, root in enumerate(roots):
        Folder(seed).write(root)
    asked = "".join(json.dumps({"root": str(root), "tap": "t", "stream": "s", "state": True}) + "\n" for root in roots)
    run = subprocess.run(["node", DRIVER], input=asked, capture_output=True, text=True, check=True)
    return list(zip(roots, map(json.loads, run.stdout.splitlines()), strict=True))


def test_it_makes_the_same_state(lakes: list[tuple[Path, dict[str, Any]]]) -> None:
    kinds = {"torn": 0, "none": 0, "same": 0}
    for root, theirs in lakes:
        try:
            mine: Manifest | None = Lake.open(str(root)).stream("t", "s").snapshot()
        except LostStateError:
            mine = None
        if mine is None:
            kinds["torn"] += 1
            assert "still holds what was erased" in theirs["error"], root
        elif not mine.versions:
            kinds["none"] += 1
            assert theirs["error"] == "there is no stream s of t", root
        else:
            state = json.loads(to_json(mine), parse_int=float) | {"lineage": None}
            assert theirs["error"] is None, (root, theirs["error"])
            given = json.loads(json.dumps(theirs["state"]), parse_int=float)
            if {file["id"] for file in given["files"]} == {file["id"] for file in state["files"]}:
                kinds["same"] += 1
                assert told(given) == told(state), root
            else:
                # Seldom. Where files hold what others hold, too, any that together hold all will do.
                folder = root / "raw/t/s"
                paths = [[file["path"] for file in each["files"]] for each in (given, state)]
                held = [{line for path in each for line in lines_of(folder, path)} for each in paths]
                assert held[0] == held[1], root
    assert kinds["same"] > LAKES / 2
    assert min(kinds.values()) > 0, kinds
