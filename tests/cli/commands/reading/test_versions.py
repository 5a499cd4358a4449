"""``singerlake versions`` and ``singerlake diff``."""

from __future__ import annotations

import json

import pytest

from singerlake.format import layout
from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import build_stream
from tests.upkeep.shelf import SCHEMA


def test_versions_are_listed_in_the_order_in_which_they_came(run: Run, lake: Lake) -> None:
    build_stream(lake, "t", "flights", SCHEMA, [{"n": n} for n in range(3)])
    result = run("versions", lake.storage.url, "--tap", "t", "--stream", "flights")
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert [(row[2], row[4], row[7], row[8]) for row in rows[1:3]] == [("v1", "0", "3", "23"), ("v2", "20", "1", "5")]
    assert rows[3][-4:] == ["1", "stream,", "2", "versions"]


def test_json_has_every_stream_and_exact_figures(run: Run, lake: Lake) -> None:
    found = json.loads(run("versions", lake.storage.url, "--json").stdout)
    manifest = lake.stream("t", "flights").snapshot()
    assert [(each["tap"], each["stream"]) for each in found["streams"]] == [("t", "a/b"), ("t", "flights"), ("u", "x")]
    assert (found["streams"][1]["lineage"], found["streams"][1]["next_offset"]) == (manifest.lineage, 25)
    flights = found["streams"][1]["versions"]
    assert [each["hash"] for each in flights] == list(manifest.versions)
    assert [(each["first_offset"], each["last_offset"]) for each in flights] == [(0, 19), (20, 24)]
    assert sum(each["bytes"] for each in flights) == sum(file.bytes for file in manifest.files)
    assert [each["properties"] for each in flights] == [1, 2]


def test_a_stream_without_data_has_none(run: Run, lake: Lake) -> None:
    lake.stream("t", "new").writer(writer_id="w").open()
    result = run("versions", lake.storage.url, "--tap", "t", "--stream", "new")
    assert (result.exit_code, result.stdout.splitlines()[-1].endswith("1 stream, 0 versions")) == (0, True)


def test_a_lost_manifest_is_read_from_the_files(run: Run, lake: Lake) -> None:
    lake.storage.delete(layout.manifest_key("t", "flights"))
    result = run("versions", lake.storage.url, "--tap", "t", "--stream", "flights")
    assert [line.split()[2] for line in result.stdout.splitlines()[1:3]] == ["v1", "v2"]


@pytest.mark.parametrize(("first", "second", "code"), [("v1", "v2", 0), ("v2", "v1", 1), ("v1", "v1", 0)])
def test_diff_says_what_changed_and_exits_with_1_where_readers_cannot_go_on(
    run: Run, lake: Lake, first: str, second: str, code: int
) -> None:
    result = run("diff", lake.storage.url, first, second, "--tap", "t", "--stream", "flights")
    assert result.exit_code == code
    lines = result.stdout.splitlines()
    if first == second:
        assert lines == ["t/flights v1 -> v1: compatible: no property differs"]
    else:
        assert lines[0].split() == ["+" if code == 0 else "-", "m", "string"]
        assert ("not compatible" in lines[1]) is (code == 1)


def test_versions_are_named_by_label_hash_or_segment(run: Run, lake: Lake) -> None:
    first, second = lake.stream("t", "flights").snapshot().versions
    words = ("diff", lake.storage.url, first, layout.to_segment(second), "--tap", "t", "--stream", "flights", "--json")
    found = json.loads(run(*words).stdout)
    assert (found["before"], found["after"]["version"]) == ({"version": "v1", "hash": first}, "v2")
    assert found["compatible"] is True
    assert [each["path"] for each in found["added"]] == ["m"]


def test_the_lake_may_be_left_out_where_the_environment_names_it(
    run: Run, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SINGERLAKE_LAKE_ROOT", lake.storage.url)
    assert run("diff", "v1", "v2", "--tap", "t", "--stream", "flights").exit_code == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("v1",), 2, "give FIRST and SECOND, behind LAKE where $SINGERLAKE_LAKE_ROOT is not set"),
        (("LAKE", "v1", "v2", "v3"), 2, "give no more than FIRST and SECOND"),
        (("v1", "v2"), 2, "give FIRST and SECOND, behind LAKE"),
        (("LAKE", "v1", "v2"), 2, "one stream is needed, and 3 match; name one: t/a/b, t/flights, u/x"),
        (("LAKE", "v1", "v2", "--tap", "t"), 2, "name one: t/a/b, t/flights"),
        (("LAKE", "v1", "v2", "--stream", "[fx]*"), 2, "name one: t/flights, u/x"),
        (("LAKE", "v1", "v9", "--tap", "t", "--stream", "flights"), 2, "it has: v1"),
        (("LAKE", "v1", "v2", "--tap", "t", "--stream", "none"), 2, "no stream 'none'"),
    ],
)
def test_wrong_usage_says_what_to_give(run: Run, lake: Lake, words: tuple[str, ...], code: int, said: str) -> None:
    result = run("diff", *(lake.storage.url if word == "LAKE" else word for word in words))
    assert (result.exit_code, said in result.stderr) == (code, True)


def test_names_of_properties_cannot_move_the_cursor(run: Run, lake: Lake) -> None:
    odd = {"properties": {"n": {"type": "integer"}, "\x1b[2J\n": {"type": "string"}}}
    build_stream(lake, "u", "x", odd, [{"n": 1}])
    result = run("diff", lake.storage.url, "v1", "v2", "--tap", "u", "--stream", "x")
    assert result.stdout.splitlines()[0] == r"+ \x1b[2J\n  string"
