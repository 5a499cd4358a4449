"""The pages are enough: the readers of examples/, which were written from them alone, read every case of the suite."""

from __future__ import annotations

import base64
import copy
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.golden.cases import EXPECTED, READABLE, REFUSED, SUITE, having
from tests.golden.independent.names import segment

DRIVER = Path(__file__).with_suffix("").with_name("example_reader.mjs")
EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = EXAMPLES / "reader.mjs"
LONGEST = {"reader.mjs": 250, "newest.mjs": 350, "rebuild.mjs": 350, "hash.mjs": 150}
"""Lines of each program: people read them to write their own."""
UNLISTED = "over HTTP nothing lists its files"


def folder_of(case: str) -> Path:
    expected = EXPECTED[case]
    return SUITE / case / "lake" / "raw" / segment(expected["tap"]) / segment(expected["stream"])


def manifest_of(case: str) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder_of(case) / "manifest.json").read_text())
    return manifest


def is_newest(case: str) -> bool:
    """Whether manifest.json is all that a reader needs, by what is on storage."""
    if not (folder_of(case) / "manifest.json").exists():
        return False
    manifest, log = manifest_of(case), folder_of(case) / "_log"
    if manifest["store"] not in ("log", "merge") or manifest.get("closed"):
        return True
    records = [int(path.stem) for path in log.glob("*.json") if path.stem.isdigit()]
    floor = json.loads((log / "floor.json").read_text())["floor"] if (log / "floor.json").exists() else 0
    return max([*records, floor]) <= manifest["transaction"]["number"]


NEWEST = [case for case in READABLE if is_newest(case)]
REBUILT = [case for case in READABLE if EXPECTED[case]["lineage"] is None]
"""Cases whose state is made from the data files, which a listing shows."""
LISTED = [case for case in READABLE if case not in REBUILT]


def has_gap(case: str) -> bool:
    """Whether a number is missing among the records of a log."""
    records = sorted(int(path.stem) for path in (folder_of(case) / "_log").glob("*.json") if path.stem.isdigit())
    return bool(records) and records != list(range(records[0], records[-1] + 1))


GAPS = [case for case in REFUSED if has_gap(case)]
WITHOUT_RANGES = ["erased-at-the-borders-of-members", "lockfile", "segments", "shapes"]
"""Cases that are read from a server without ranges, too."""


UNGUARDED = "merge-with-attached-files-ahead-of-its-manifest"


def record_of(case: str) -> Path:
    """The first record behind manifest.json."""
    return folder_of(case) / "_log" / f"{manifest_of(case)['transaction']['number'] + 1:020}.json"


def manifest_segments(case: str) -> bool:
    """Whether reading lists files that the state itself does not."""
    return case in NEWEST and "segments" in manifest_of(case)


def attached_path(sha256: str | None, copy: int) -> str | None:
    return sha256 and f"_files/{sha256[:2]}/{sha256}" + (f".{copy}" if copy > 1 else "")


def changed(case: str, change: Callable[[dict[str, Any]], None]) -> bytes:
    manifest = manifest_of(case)
    change(manifest)
    return json.dumps(manifest).encode()


def lose_the_last_file(manifest: dict[str, Any]) -> None:
    manifest["files"][-1]["path"] = "gone.singer.gz"


def lose_the_last_segment(manifest: dict[str, Any]) -> None:
    manifest["segments"][-1]["name"] = manifest["segments"][-1]["name"][:-16] + 16 * "0"


def have_another_lineage(manifest: dict[str, Any]) -> None:
    manifest["lineage"] = "another"


def have_expired(manifest: dict[str, Any]) -> None:
    manifest.pop("segments", None)
    manifest |= {"files": [], "features": ["expired"]}


def spelled(name: str, text: str) -> Callable[[dict[str, Any]], bytes]:
    """A manifest with a field as text, for what ``json`` writes otherwise."""
    return lambda manifest: json.dumps({**manifest, name: "HERE"}).replace('"HERE"', text).encode()


def with_state(**fields: Any) -> Callable[[dict[str, Any]], bytes]:
    return lambda manifest: json.dumps({**manifest, **fields}).encode()


def with_file(**fields: Any) -> Callable[[dict[str, Any]], bytes]:
    """The last file has these fields."""

    def change(manifest: dict[str, Any]) -> bytes:
        files = copy.deepcopy(manifest["files"])
        files[-1] |= fields
        return json.dumps({**manifest, "files": files}).encode()

    return change


def with_row(*row: object) -> Callable[[dict[str, Any]], bytes]:
    """One row of attached files."""
    return lambda manifest: with_file(attached=[list(row)])({**manifest, "features": ["attached"]})


SUM = 64 * "a"
REFUSALS: dict[str, tuple[Callable[[dict[str, Any]], bytes], str]] = {
    "an integer spelled as a float": (spelled("format", "1.0"), "format"),
    "a float where an integer stands": (spelled("next_offset", "7.0"), "next_offset"),
    "an exponent": (spelled("next_offset", "7e0"), "next_offset"),
    "a field is null": (with_state(versions=None), "versions"),
    "a lineage that is none": (with_state(lineage=None), "lineage"),
    "features are null": (with_state(features=None), "features"),
    "a field of another kind": (with_file(bytes="1"), "bytes"),
    "a checksum that is none": (with_file(sha256=SUM.upper()), "sha256"),
    "a path that is absolute": (with_file(path="/x.singer.gz"), "path"),
    "a path that leads up": (with_file(path="x/../../y"), "path"),
    "a path with an empty name": (with_file(path="x//y"), "path"),
    "a path with a dot": (with_file(path="./x"), "path"),
    "members that are out of order": (with_file(members=[[9, 1], [8, 0]]), "members are not valid"),
    "a member behind the end": (
        lambda m: with_file(members=[[m["files"][-1]["bytes"], 1]])(m),
        "members are not valid",
    ),
    "members that are too few": (with_file(members=[]), "members"),
    "the last file ends too early": (with_state(next_offset=8), "do not end at 8"),
    "another tap": (with_state(tap="T"), "is of the stream s of T"),
    "holes without the feature": (with_file(erased=1), "feature erased"),
    "rows without the feature": (with_file(attached=[[0, "p", None, None, None, None, 1]]), "feature attached"),
    "a floor without the feature": (lambda m: with_state(files=m["files"][1:])(m), "feature expired"),
    "a run without the feature": (with_state(settled="x"), "feature atomic"),
    "retired objects without the feature": (with_state(retired=[{"path": "_files/aa/x"}]), "feature attached"),
    "a row without a message": (with_row(None, "p", None, None, None, None, 1), "attached"),
    "a row of a message that is not in the file": (with_row(99, "p", None, None, None, None, 1), "attached is beyond"),
    "a row with half of an object": (with_row(0, "p", None, SUM, None, None, 1), "attached"),
    "a row with a copy 0": (with_row(0, "p", None, SUM, 1, "", 0), "attached"),
    "a row with a copy of ten digits": (with_row(0, "p", None, SUM, 1, "", 10**9), "attached"),
    "a row that is too short": (with_row(0, "p", None, SUM, 1, ""), "attached"),
    "a row with a path for a checksum": (with_row(0, "p", None, "../x", 1, "", 1), "attached"),
}
"""Manifests that no case of the suite has, by what is wrong, each with words of the error."""


SCHEMA = b'{"type":"SCHEMA","stream":"s","schema":{"minimum":NaN,"maximum":-Infinity},"key_properties":[]}\n'
RECORD = b'{"type":"RECORD","stream":"s","record":{"n":1}}\n'
ODD_SCHEMA = b' {"\\u0074ype": 7, "\\u0074ype": "SCHEMA", "stream": "s"} \r\n'
ODD_RECORDS = (
    b'{"type":"RECORD","stream":"s","record":{"type":"SCHEMA","x":%s}}\n' % (3000 * b"[" + 3000 * b"]"),
    b' {"type":"RECORD","stream":"s","record":{"type":"SCHEMA","x":-Infinity}}\t\r\n',
    b'{"type":"RECORD","stream":"s","record":{"x":"\r\xc2\x85\xe2\x80\xa8"}}\n',
    b'["SCHEMA"]\n',
    b'{"type":"ERASED"}\n',
)
DATA: dict[str, tuple[list[tuple[bytes, int]], list[bytes] | str]] = {
    "a schema that shares its member": ([(SCHEMA + RECORD, 1)], [RECORD]),
    "a schema again": ([(SCHEMA, 0), (SCHEMA + RECORD, 1), (ODD_SCHEMA + RECORD + SCHEMA, 1)], [RECORD, RECORD]),
    "empty members": (
        [(b"", 0), (SCHEMA, 0), (b"", 0), (RECORD, 1), (b"", 0), (RECORD, 1), (b"", 0)],
        [RECORD, RECORD],
    ),
    "odd lines": ([(SCHEMA, 0), (b"".join(ODD_RECORDS), 5)], [*ODD_RECORDS]),
    "no end of the last line": ([(SCHEMA, 0), (RECORD[:-1], 1)], "the last line has no end"),
    "fewer messages": ([(SCHEMA, 0), (RECORD, 2)], "has 1 messages from byte"),
    "more messages": ([(SCHEMA, 0), (RECORD + RECORD, 1)], "has 2 messages from byte"),
}
"""Data files that no case of the suite has: the text of each member, and how many messages the manifest says it has."""


def write_data(folder: Path, members: list[tuple[bytes, int]]) -> None:
    """A stream of one data file."""
    manifest = manifest_of("lockfile")
    stored = [gzip.compress(text) for text, _ in members]
    starts = accumulate((len(each) for each in stored), initial=0)
    data = b"".join(stored)
    file = manifest["files"][0] | {
        "path": "x.singer.gz",
        "messages": sum(count for _, count in members),
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "members": [[start, count] for start, (_, count) in zip(starts, members, strict=False) if count],
    }
    schemas = {name: each | {"schema": {"minimum": float("nan")}} for name, each in manifest["schemas"].items()}
    folder.mkdir(parents=True)
    (folder / "x.singer.gz").write_bytes(data)
    (folder / "manifest.json").write_text(
        json.dumps(manifest | {"files": [file], "next_offset": file["messages"], "schemas": schemas})
    )


def shorten_the_first_segment(folder: Path) -> None:
    """It ends before the offset that the manifest says, and has the checksum of the manifest."""
    manifest = json.loads((folder / "manifest.json").read_text())
    path = folder / "_segments" / f"{manifest['segments'][0]['name']}.json.gz"
    text = json.dumps(json.loads(gzip.decompress(path.read_bytes()))[:-1]).encode()
    path.write_bytes(gzip.compress(text))
    manifest["segments"][0]["sha256"] = hashlib.sha256(text).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


@dataclass(frozen=True)
class Get:
    key: str
    range: str | None
    encoding: str | None
    sent: int


@dataclass
class Server:
    """The suite over HTTP, below a name of each question, by which it knows what was asked for which."""

    url: str = ""
    asked: dict[str, list[Get]] = field(default_factory=dict)
    firsts: dict[tuple[str, str], list[bytes | None]] = field(default_factory=dict)
    """What a question gets for an object of a name at first, before what is there."""
    ages: dict[str, int] = field(default_factory=dict)
    """How many seconds old all objects are for a question."""
    without_ranges: set[str] = field(default_factory=set)
    failing: set[str] = field(default_factory=set)

    def answer(self, target: str, asked: str | None) -> tuple[str, str, int, bytes, int]:
        """Name of the question, key, status, body, and at which byte it begins."""
        name, _, rest = target.lstrip("/").partition("/")
        path = SUITE / unquote(rest)
        key = str(path.relative_to(SUITE))
        if name in self.failing:
            return name, key, 503, b"", 0
        first = self.firsts[name, path.name].pop(0) if self.firsts.get((name, path.name)) else b""
        if first:
            return name, key, 200, first, 0
        if first is None or not path.is_file():
            return name, key, 404, b"no such object", 0
        if asked is None or name in self.without_ranges:
            return name, key, 200, path.read_bytes(), 0
        start = int(asked.removeprefix("bytes=").removesuffix("-"))
        return name, key, 206, path.read_bytes()[start:], start


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    served = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            asked = self.headers["Range"]
            name, key, status, body, start = served.answer(self.path, asked)
            served.asked.setdefault(name, []).append(Get(key, asked, self.headers["Accept-Encoding"], len(body)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if status == 206:
                self.send_header("Content-Range", f"bytes {start}-{start + len(body) - 1}/{start + len(body)}")
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self) -> None:
            name = self.path.split("/")[1]
            self.send_response(200)
            if name in served.ages:
                self.send_header("Last-Modified", self.date_time_string(int(time.time()) - served.ages[name]))
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        served.url = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield served
        running.shutdown()
        thread.join()


def offsets(case: str) -> list[int | None]:
    """Where reads of a case begin: at the beginning, at each offset, and beyond the last."""
    return [None, *range(len(EXPECTED[case]["messages"]) + 2)] if case in READABLE else [None, 0]


SCHEMAS = json.loads((SUITE / "schema-hashes.json").read_text())["schemas"]
NAMES = {
    "public-flights": "public-flights",
    "_a b/ü": "%5Fa%20b%2F%C3%BC",
    "3)vD5#h": "3%29vD5%23h",
    "catalogue.json": "catalogue%2Ejson",
    "singerlake.json": "singerlake%2Ejson",
    "-.": "%2D.",
    "a-_.": "a-_.",
    "\ud800x": "%ED%A0%80x",
    "x\udfff": "x%ED%BF%BF",
    "\U0001f600": "%F0%9F%98%80",
}
NO_SEGMENTS = ["_commits", "a b", "%41", "%2f", "catalogue.json", "%C3", "%ED%A0%BD%ED%B8%80", "%"]
"""Folders that are not the segments of the names that they decode to."""


@pytest.fixture(scope="module")
def answers(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """All that the tests ask, by names; one process answers it."""
    questions: dict[str, dict[str, Any]] = {
        "names": {"names": list(NAMES), "segments": [*NAMES.values(), *NO_SEGMENTS]},
        "hashes": {"schemas": [each["schema"] for each in SCHEMAS]},
    }

    def ask(name: str, case: str, root: Path | None = None, **options: Any) -> None:
        where = f"{server.url}/{name}/{case}/lake" if root is None else str(root)
        about = {"root": where, "tap": EXPECTED[case]["tap"], "stream": EXPECTED[case]["stream"]}
        questions[name] = about | {key: value for key, value in options.items() if value is not None}

    for case in EXPECTED:
        lake = SUITE / case / "lake"
        ask(f"state-{case}", case, lake, state=True)
        for offset in offsets(case):
            ask(f"folder-{case}-{offset}", case, lake, **{"from": offset})
            if offset is None or case not in REBUILT:
                ask(f"web-{case}-{offset}", case, **{"from": offset})
            if case in WITHOUT_RANGES:
                ask(f"whole-{case}-{offset}", case, **{"from": offset})
                server.without_ranges.add(f"whole-{case}-{offset}")
        for label in EXPECTED[case].get("versions", {}):
            ask(f"version-{case}-{label}", case, lake, version=label)
    ask("version-none", "lockfile", SUITE / "lockfile/lake", version="v99")
    for number, (change, _) in enumerate(REFUSALS.values()):
        root = tmp_path_factory.mktemp("refused")
        shutil.copytree(SUITE / "lockfile/lake", root, dirs_exist_ok=True)
        (root / "raw/t/s/manifest.json").write_bytes(change(manifest_of("lockfile")))
        ask(f"refused-{number}", "lockfile", root)
    for name, (members, _) in DATA.items():
        root = tmp_path_factory.mktemp("data") / "lake"
        write_data(root / "raw/t/s", members)
        ask(f"data-{name}", "lockfile", root)
    for case, name, fields in (
        ("log", "prepared", {"prepared": {}, "features": ["atomic"]}),
        ("log-ahead-of-its-manifest", "closed", {"closed": "postgres"}),
    ):
        root = tmp_path_factory.mktemp(name)
        shutil.copytree(SUITE / case / "lake", root, dirs_exist_ok=True)
        (root / "raw/t/s/manifest.json").write_bytes(with_state(**fields)(manifest_of(case)))
        ask(name, case, root)
    shortened = tmp_path_factory.mktemp("shortened")
    shutil.copytree(SUITE / "segments/lake", shortened, dirs_exist_ok=True)
    shorten_the_first_segment(shortened / "raw/t/s")
    ask("shortened", "segments", shortened)
    for case, lose in (("lockfile", lose_the_last_file), ("segments", lose_the_last_segment)):
        older, replaced, expired = (changed(case, each) for each in (lose, have_another_lineage, have_expired))
        later = {"joined": [], "lost": [older], "replaced": [replaced], "expired": [expired]}
        for name, manifests in later.items():
            ask(f"{name}-{case}", case)
            server.firsts[f"{name}-{case}", "manifest.json"] = [older, *manifests]
    # It is trimmed behind the first look at its floor.
    ask("trimmed", "log-trimmed-below-an-older-manifest")
    server.firsts["trimmed", "floor.json"] = [None]
    # Nobody knows when the question comes, so what is young is written later than now.
    for name, age in (("young", -3600), ("old", 60), ("undated", None)):
        record = record_of(UNGUARDED)
        unguarded = json.dumps({**json.loads(record.read_bytes()), "unguarded": True}).encode()
        ask(f"unguarded-{name}", UNGUARDED)
        server.firsts[f"unguarded-{name}", record.name] = [unguarded]
        if age is not None:
            server.ages[f"unguarded-{name}"] = age
            root = tmp_path_factory.mktemp(name)
            shutil.copytree(SUITE / UNGUARDED / "lake", root, dirs_exist_ok=True)
            written = root / record.relative_to(SUITE / UNGUARDED / "lake")
            written.write_bytes(unguarded)
            os.utime(written, (time.time() - age, time.time() - age))
            ask(f"unguarded-{name}-folder", UNGUARDED, root)
    ask("failing", "lockfile")
    server.failing.add("failing")

    asked = "".join(json.dumps(question) + "\n" for question in questions.values())
    run = subprocess.run(["node", DRIVER], input=asked, stdout=subprocess.PIPE, text=True, check=True)
    given = [json.loads(line) for line in run.stdout.splitlines()]
    return dict(zip(questions, given, strict=True))


def messages(answer: dict[str, Any]) -> list[tuple[int, str]]:
    return [(offset, base64.b64decode(line).decode()) for offset, line in answer["messages"]]


def expected_messages(case: str, offset: int | None) -> list[tuple[int, str]]:
    every = enumerate(EXPECTED[case]["messages"])
    return [(at, message) for at, message in every if at >= (offset or 0) and message is not None]


def listed(case: str, offset: int = 0) -> tuple[list[str], list[dict[str, Any]]]:
    """The segments, and the files that hold something from this offset on."""
    manifest = manifest_of(case)
    segments = [f"_segments/{each['name']}.json.gz" for each in manifest.get("segments", []) if each["end"] > offset]
    files = [file for name in segments for file in json.loads(gzip.decompress((folder_of(case) / name).read_bytes()))]
    return segments, [file for file in files + manifest["files"] if file["offset"] + file["messages"] > offset]


@pytest.mark.parametrize("name", list(LONGEST))
def test_it_is_short_and_needs_no_package(name: str) -> None:
    lines = (EXAMPLES / name).read_text().splitlines()
    assert len(lines) <= LONGEST[name]
    imported = [line.rpartition(" ")[2].rstrip(";") for line in lines if line.startswith(("import ", "} from "))]
    own = {f"'./{each}'" for each in LONGEST}
    assert {each for each in imported if each != "{" and not each.startswith("'node:")} <= own
    assert name != "reader.mjs" or own.isdisjoint(imported)


def test_these_are_all_examples() -> None:
    assert {path.name for path in EXAMPLES.iterdir()} == set(LONGEST)


@pytest.mark.parametrize(
    ("where", "case"),
    [("folder", case) for case in READABLE]
    + [("web", case) for case in LISTED]
    + [("whole", case) for case in WITHOUT_RANGES],
)
def test_it_reads_from_every_offset(answers: dict[str, dict[str, Any]], where: str, case: str) -> None:
    floor = EXPECTED[case].get("floor", 0)
    for offset in offsets(case):
        answer = answers[f"{where}-{case}-{offset}"]
        if offset is not None and offset < floor:
            assert f"it begins at {floor}" in answer["error"]
            assert answer["messages"] == []
        else:
            assert answer["error"] is None
            assert messages(answer) == expected_messages(case, offset)


@pytest.mark.parametrize("case", REBUILT)
def test_over_http_it_cannot_find_files_that_no_state_lists(answers: dict[str, dict[str, Any]], case: str) -> None:
    assert UNLISTED in answers[f"web-{case}-None"]["error"]
    assert answers[f"web-{case}-None"]["messages"] == []


@pytest.mark.parametrize("case", READABLE)
def test_it_gives_the_state(answers: dict[str, dict[str, Any]], case: str) -> None:
    state, expected = answers[f"state-{case}"]["state"], EXPECTED[case]
    assert state["floor"] == expected.get("floor", 0)
    features = expected.get("features", [])
    if case not in NEWEST and "segments" not in state["features"]:
        # What a log says of files in segments was applied to a list of all files.
        features = [name for name in features if name != "segments"]
    assert state["features"] == features
    assert state["lineage"] == expected["lineage"]
    assert state["next_offset"] == len(expected["messages"])
    firsts = {
        label: {"hash": name, "first_offset": state["schemas"][name]["first_offset"]}
        for name, label in state["versions"].items()
    }
    assert firsts == expected.get("versions", firsts)


@pytest.mark.parametrize("case", [case for case in READABLE if not manifest_segments(case)])
def test_it_gives_rows_and_paths(answers: dict[str, dict[str, Any]], case: str) -> None:
    files, expected = answers[f"state-{case}"]["state"]["files"], EXPECTED[case]
    rows = [
        [file["offset"] + message, *rest, attached_path(sha256, copy)]
        for file in files
        for message, *rest, copy in file.get("attached", [])
        for sha256 in [rest[2]]
    ]
    assert rows == expected.get("attached", [])
    assert [file["path"] for file in files] == expected.get("paths", [file["path"] for file in files])


@pytest.mark.parametrize("case", having("versions"))
def test_it_reads_from_every_version(answers: dict[str, dict[str, Any]], case: str) -> None:
    for label, version in EXPECTED[case]["versions"].items():
        answer = answers[f"version-{case}-{label}"]
        assert answer["error"] is None
        assert messages(answer) == expected_messages(case, version["first_offset"])


def test_it_refuses_a_version_that_is_not_there(answers: dict[str, dict[str, Any]]) -> None:
    assert answers["version-none"]["error"] == "there is no version v99"


@pytest.mark.parametrize(
    ("case", "where"),
    [(case, "folder") for case in REFUSED] + [(case, "web") for case in REFUSED if case not in GAPS],
)
def test_it_ends_in_an_error(answers: dict[str, dict[str, Any]], case: str, where: str) -> None:
    for offset in (None, 0):
        answer = answers[f"{where}-{case}-{offset}"]
        assert answer["error"]
        given = messages(answer)
        assert given == list(enumerate(EXPECTED[case].get("messages", [])))[: len(given)]


@pytest.mark.parametrize("case", GAPS)
def test_over_http_a_log_seems_to_end_where_a_number_is_missing(answers: dict[str, dict[str, Any]], case: str) -> None:
    answer = answers[f"web-{case}-0"]
    assert answer["error"] is None
    assert len(answer["messages"]) >= manifest_of(case)["next_offset"]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("newer-format", "format 99 is not known"),
        ("older-format", "format 2 is not known"),
        ("unknown-feature", "the feature unheard is not known"),
        ("segments-and-an-unknown-feature", "the feature unheard is not known"),
        ("manifest-of-another-stream", "manifest.json is of the stream S of t"),
        ("attached-row-that-is-none", "attached is missing or not valid"),
        ("file-with-a-flipped-bit", ".singer.gz: the checksum is not that of the manifest"),
        ("file-cut-between-two-members", "bytes and not"),
        ("file-that-is-gone", "is listed, but there is no such object"),
        ("segment-that-is-gone", "is listed, but there is no such object"),
        ("segment-with-another-checksum", ".json.gz: the checksum is not that of the manifest"),
    ],
)
def test_it_says_what_is_wrong(answers: dict[str, dict[str, Any]], case: str, words: str) -> None:
    assert words in answers[f"folder-{case}-None"]["error"]
    assert words in answers[f"web-{case}-None"]["error"]


@pytest.mark.parametrize("number", range(len(REFUSALS)), ids=list(REFUSALS))
def test_it_refuses_a_manifest(answers: dict[str, dict[str, Any]], number: int) -> None:
    _, words = list(REFUSALS.values())[number]
    answer = answers[f"refused-{number}"]
    assert words in answer["error"]
    assert answer["messages"] == []


@pytest.mark.parametrize("name", list(DATA))
def test_it_takes_a_data_file_apart(answers: dict[str, dict[str, Any]], name: str) -> None:
    answer, (_, expected) = answers[f"data-{name}"], DATA[name]
    if isinstance(expected, str):
        assert expected in answer["error"]
        assert answer["messages"] == []
    else:
        assert answer["error"] is None
        assert [base64.b64decode(line) + b"\n" for _, line in answer["messages"]] == expected


def test_it_refuses_a_segment_that_ends_elsewhere(answers: dict[str, dict[str, Any]]) -> None:
    assert ".json.gz does not end at" in answers["shortened"]["error"]
    assert answers["shortened"]["messages"] == []


def test_a_run_that_is_prepared_has_a_commit(answers: dict[str, dict[str, Any]]) -> None:
    assert answers["prepared"]["error"] == "prepared is not valid"


def test_a_log_that_is_trimmed_meanwhile_is_read_from_its_floor(answers: dict[str, dict[str, Any]]) -> None:
    case = "log-trimmed-below-an-older-manifest"
    assert answers["trimmed"]["error"] is None
    assert messages(answers["trimmed"]) == expected_messages(case, 0)


def test_a_record_that_nothing_guards_counts_once_it_is_old(answers: dict[str, dict[str, Any]]) -> None:
    for name in ("unguarded-old", "unguarded-old-folder"):
        assert messages(answers[name]) == expected_messages(UNGUARDED, 0)
    for name in ("unguarded-young", "unguarded-young-folder", "unguarded-undated"):
        assert answers[name]["error"] is None
        before = manifest_of(UNGUARDED)["next_offset"]
        assert messages(answers[name]) == expected_messages(UNGUARDED, 0)[:before]


def test_a_closed_manifest_is_the_end_of_its_log(answers: dict[str, dict[str, Any]]) -> None:
    assert messages(answers["closed"]) == expected_messages("log-ahead-of-its-manifest", 0)[:2]


@pytest.mark.parametrize("case", NEWEST)
def test_over_http_it_asks_for_what_it_needs_alone(
    answers: dict[str, dict[str, Any]], server: Server, case: str
) -> None:
    folder = str(folder_of(case).relative_to(SUITE))
    for offset in offsets(case):
        if offset is not None and offset < EXPECTED[case].get("floor", 0):
            continue
        segments, files = listed(case, offset or 0)
        wanted: list[tuple[str, str | None]] = [(f"{folder}/manifest.json", None)]
        wanted += [(f"{folder}/{name}", None) for name in segments]
        wanted += [(f"{folder}/{file['path']}", first_byte(file, offset or 0)) for file in files]
        asked = [get for get in server.asked[f"web-{case}-{offset}"] if "/_log/" not in get.key]
        assert sorted(wanted, key=str) == sorted([(get.key, get.range) for get in asked], key=str)
        assert {get.encoding for get in asked} == {"identity"}


def first_byte(file: dict[str, Any], offset: int) -> str | None:
    """The header for a read of this file from an offset on: none where it is read whole."""
    if offset <= file["offset"]:
        return None
    firsts = accumulate((messages for _, messages in file["members"]), initial=file["offset"])
    start = [start for (start, _), first in zip(file["members"], firsts, strict=False) if first <= offset][-1]
    return f"bytes={start}-" if start else None


def test_a_late_offset_costs_a_range(answers: dict[str, dict[str, Any]], server: Server) -> None:
    """The same by bytes: of a file with several members, the last message comes with the last of them."""
    case, file = max(
        ((case, listed(case)[1][-1]) for case in NEWEST if listed(case)[1]), key=lambda pair: len(pair[1]["members"])
    )
    assert len(file["members"]) > 1
    name = f"web-{case}-{file['offset'] + file['messages'] - 1}"
    (got,) = [get for get in server.asked[name] if get.key.endswith(file["path"])]
    assert got.sent == file["bytes"] - file["members"][-1][0] < file["bytes"]
    assert answers[name]["error"] is None


@pytest.mark.parametrize("case", ["lockfile", "segments"])
def test_it_reads_on_where_a_listed_object_was_replaced(
    answers: dict[str, dict[str, Any]], server: Server, case: str
) -> None:
    def manifests(name: str) -> int:
        return sum(get.key.endswith("/manifest.json") for get in server.asked[name])

    everything = expected_messages(case, 0)
    joined = answers[f"joined-{case}"]
    assert (joined["error"], messages(joined)) == (None, everything)
    assert manifests(f"joined-{case}") == 2

    wrong = {
        "lost": "is listed, but there is no such object",
        "replaced": "was replaced by another",
        "expired": "expired: it begins at",
    }
    for name, words in wrong.items():
        answer = answers[f"{name}-{case}"]
        given = messages(answer)
        assert words in answer["error"]
        assert 0 < len(given) < len(everything)
        assert given == everything[: len(given)]
        assert manifests(f"{name}-{case}") == 2


def test_a_server_that_fails_is_an_error(answers: dict[str, dict[str, Any]]) -> None:
    assert answers["failing"]["error"] == "raw/t/s/manifest.json: HTTP 503"


def test_it_makes_segments_of_names_and_names_of_segments(answers: dict[str, dict[str, Any]]) -> None:
    assert answers["names"]["segments"] == list(NAMES.values())
    assert answers["names"]["names"] == [*NAMES, *(None for _ in NO_SEGMENTS)]


def test_it_names_schemas(answers: dict[str, dict[str, Any]]) -> None:
    for schema, (text, number, name) in zip(SCHEMAS, answers["hashes"]["hashes"], strict=True):
        assert base64.b64decode(text) == schema["canonical"].encode("utf-8", "surrogatepass")
        assert (int(number), name) == (int(schema["fingerprint"], 16), schema["all_ten"])


def test_as_a_program_it_prints_messages() -> None:
    expected = EXPECTED["lines-of-every-kind"]
    lake = SUITE / "lines-of-every-kind/lake"
    every = [f"{message}\n".encode() for message in expected["messages"]]
    command = ["node", PROGRAM, lake, expected["tap"], expected["stream"]]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == b"".join(every)
    late = subprocess.run([*command, "--from", "3"], stdout=subprocess.PIPE, check=True)
    assert late.stdout == b"".join(every[3:])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([str(SUITE / "unknown-feature/lake"), "t", "s"], "the feature unheard is not known"),
        ([str(SUITE / "log-with-a-gap/lake"), "t", "s"], "raw/t/s/_log/00000000000000000003.json does not follow 1"),
        ([str(SUITE / "lockfile/lake"), "t", "s", "--from", "x"], "x is not a valid offset"),
        ([str(SUITE / "lockfile/lake"), "t"], "usage: "),
    ],
)
def test_as_a_program_it_fails(arguments: list[str], words: str) -> None:
    run = subprocess.run(["node", PROGRAM, *arguments], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith(words)
