"""The document is enough: a reader that was written from it alone passes the suite."""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.golden.cases import EXPECTED, READABLE, REFUSED, SUITE, having
from tests.golden.independent.atomic import ends_as_of
from tests.golden.independent.attached import told
from tests.golden.independent.identity import lake_id_of
from tests.golden.independent.names import name_of, segment
from tests.golden.independent.reader import Stream, features_of
from tests.golden.independent.schemas import canonical_bytes, hash_of
from tests.golden.independent.segments import is_timed
from tests.golden.independent.times import may_hold, moment
from tests.golden.independent.unreadable import Unreadable


@pytest.fixture
def lake(case: str) -> Path:
    return SUITE / case / "lake"


@pytest.fixture
def expected(case: str) -> dict[str, Any]:
    return EXPECTED[case]


@pytest.fixture
def stream(lake: Path, expected: dict[str, Any]) -> Stream:
    return Stream(lake, expected["tap"], expected["stream"])


MODULES = sorted((Path(__file__).parent / "independent").glob("*.py"))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_it_is_independent(module: Path) -> None:
    tree = ast.parse(module.read_text())
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    own = {f"tests.golden.independent.{each.stem}" for each in MODULES}
    assert {name.partition(".")[0] for name in names if name not in own} <= sys.stdlib_module_names | {"__future__"}


@pytest.mark.parametrize("case", REFUSED)
def test_it_refuses_what_cannot_be_read(stream: Stream, expected: dict[str, Any]) -> None:
    given: list[str] = []

    def read() -> None:
        given.extend(line.decode() for line in stream.messages(stream.state()))

    with pytest.raises(Unreadable):
        read()
    assert given == expected.get("messages", [])[: len(given)]


@pytest.mark.parametrize("case", READABLE)
def test_it_gives_the_messages(stream: Stream, expected: dict[str, Any]) -> None:
    state = stream.state()
    assert stream.floor(state) == expected.get("floor", 0)
    for offset in range(state["next_offset"] + 1):
        wanted = [line for line in expected["messages"][offset:] if line is not None]
        assert [line.decode() for line in stream.messages(state, offset)] == wanted
    assert features_of(state, stream.floor(state)) == [
        name for name in expected.get("features", ()) if name != "segments"
    ]
    assert (state["lineage"], state["next_offset"]) == (expected["lineage"], len(expected["messages"]))
    assert all(stream.ruling_schema(file)["stream"] == stream.name for file in state["files"])
    if "versions" in expected:
        assert expected["versions"] == {
            label: {"hash": version, "first_offset": state["schemas"][version]["first_offset"]}
            for version, label in state["versions"].items()
        }


@pytest.mark.parametrize("case", READABLE)
def test_it_gives_the_attached_files(stream: Stream, expected: dict[str, Any]) -> None:
    rows = told(stream.state())
    assert rows == expected.get("attached", [])
    for *_, sha256, size, _, path in rows:
        if path is not None:
            body = (stream.folder / path).read_bytes()
            assert (hashlib.sha256(body).hexdigest(), len(body)) == (sha256, size)


@pytest.mark.parametrize("case", having("taps"))
def test_it_finds_the_names(lake: Path, expected: dict[str, Any]) -> None:
    found = {}
    for tap in (lake / "raw").iterdir():
        name = name_of(tap.name)
        if tap.is_dir() and name is not None:
            streams = [name_of(stream.name) for stream in tap.iterdir() if stream.is_dir()]
            found[name] = [stream for stream in streams if stream is not None]
    assert found == expected["taps"]


@pytest.mark.parametrize("case", having("lake_id"))
def test_it_finds_the_lake_s_id(lake: Path, expected: dict[str, Any]) -> None:
    if expected["lake_id"] is None:
        with pytest.raises(Unreadable):
            lake_id_of(lake)
    else:
        assert lake_id_of(lake) == expected["lake_id"]


@pytest.mark.parametrize("case", having("bookmarks"))
def test_it_goes_on_at_bookmarks(stream: Stream, expected: dict[str, Any]) -> None:
    for each in expected["bookmarks"]:
        if each["offset"] is None:
            with pytest.raises(Unreadable):
                stream.goes_on(stream.state(), each["bookmark"])
        else:
            assert stream.goes_on(stream.state(), each["bookmark"]) == each["offset"]


@pytest.mark.parametrize("case", having("as_of"))
def test_it_finds_the_ends_as_of_a_commit(lake: Path, expected: dict[str, Any]) -> None:
    tap = expected["tap"]
    states = {name: Stream(lake, tap, name).state() for name in expected["taps"][tap]}
    for each in expected["as_of"]:
        if each["ends"] is None:
            with pytest.raises(Unreadable):
                ends_as_of(lake / "raw" / segment(tap), each["commit"], states)
        else:
            assert ends_as_of(lake / "raw" / segment(tap), each["commit"], states) == each["ends"]


@pytest.mark.parametrize("case", having("paths"))
def test_it_takes_the_copies(stream: Stream, expected: dict[str, Any]) -> None:
    assert [file["path"] for file in stream.state()["files"]] == expected["paths"]


@pytest.mark.parametrize("case", having("runs"))
def test_it_merges_runs(stream: Stream, expected: dict[str, Any]) -> None:
    names = ("id", "writer", "status", "files", "records", "table_version", "activated")
    assert [[run.get(name) for name in names] for run in stream.state()["runs"]] == expected["runs"]


@pytest.mark.parametrize("case", having("unknown_times"))
def test_it_knows_which_times_are_unknown(stream: Stream, expected: dict[str, Any]) -> None:
    unknown = [file["id"] for file in stream.state()["files"] if not is_timed(file, moment)]
    assert unknown == expected["unknown_times"]


@pytest.mark.parametrize("case", having("between"))
def test_it_leaves_no_record_out_by_its_time(stream: Stream, expected: dict[str, Any]) -> None:
    for each in expected["between"]:
        bounds = moment(each["from"]), moment(each["to"])
        assert bounds[0] is not None
        assert bounds[1] is not None
        left = [file for file in stream.state()["files"] if may_hold(file, *bounds)]
        held = {offset for file in left for offset in range(file["offset"], file["offset"] + file["messages"])}
        assert held.issuperset(each["offsets"])


@pytest.mark.parametrize("vector", json.loads((SUITE / "schema-hashes.json").read_text())["schemas"])
def test_it_hashes_schemas(vector: dict[str, str]) -> None:
    assert canonical_bytes(json.loads(vector["schema"])) == vector["canonical"].encode("utf-8", "surrogatepass")
    assert hash_of(int(vector["fingerprint"], 16)) == vector["hash"]
    assert segment(vector["hash"]) == vector["segment"]
    assert name_of(vector["segment"]) == vector["hash"]
