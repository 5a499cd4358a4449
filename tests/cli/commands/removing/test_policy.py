"""``singerlake policy``, and ``singerlake gc`` that goes by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import StorageUnavailableError
from singerlake.format import layout
from singerlake.lake import Lake
from tests.cli.commands.removing.test_expire import aged
from tests.cli.commands.upkeep.test_gc import data_files
from tests.cli.commands.upkeep.test_vacuum import everything
from tests.cli.commands.writing.test_annotate import notes
from tests.cli.conftest import Run
from tests.lakes import build_stream
from tests.upkeep.shelf import SCHEMA

ROOT = layout.root_metadata_key()


def rules(lake: Lake, tap: str = "t") -> Any:
    return notes(lake)[tap].get("retention")  # type: ignore[attr-defined]


def test_what_is_set_is_shown_and_taken_away(run: Run, lake: Lake, root: Path) -> None:
    assert run("policy", "ls", root).stdout == "everything is kept for ever\n"
    told = run("policy", "set", root, "--tap", "t", "--older-than", "400d")
    assert told.stdout == "t, all other streams: what is older than 400d expires\n"
    told = run("policy", "set", root, "--tap", "t", "--stream", "a/b", "--older-than", "1h", "--keep-versions", 2)
    assert told.stdout.splitlines() == [
        "t, all other streams: what is older than 400d expires",
        "t/a/b: what is older than 1h expires, and what is before the youngest 2 versions expires",
    ]
    assert rules(lake) == {"": {"older_than": "400d"}, "a/b": {"older_than": "1h", "keep_versions": 2}}
    assert run("policy", "ls", root).stdout == told.stdout
    assert run("policy", "ls", root, "--tap", "u").stdout == "everything is kept for ever\n"
    # Setting it anew replaces both rules.
    run("policy", "set", root, "--tap", "t", "--stream", "a/b", "--keep-versions", 1)
    assert rules(lake)["a/b"] == {"keep_versions": 1}
    assert run("policy", "unset", root, "--tap", "t", "--stream", "a/b").exit_code == 0
    told = run("policy", "unset", root, "--tap", "t")
    assert (told.exit_code, told.stdout) == (0, "t: everything is kept for ever\n")
    assert rules(lake) is None


def test_json_says_the_same(run: Run, lake: Lake, root: Path) -> None:
    told = json.loads(run("policy", "set", root, "--tap", "t", "--keep-versions", 3, "--json").stdout)
    assert told == {"lake": lake.storage.url, "tap": "t", "retention": {"": {"keep_versions": 3}}}
    assert json.loads(run("policy", "ls", root, "--json").stdout) == {
        "lake": lake.storage.url,
        "taps": {"t": {"": {"keep_versions": 3}}, "u": {}},
    }
    told = json.loads(run("policy", "unset", root, "--tap", "t", "--json").stdout)
    assert told["retention"] == {}
    (exported, _) = json.loads(run("export", root).stdout)["taps"]
    assert exported["retention"] == {}


def test_setting_it_again_writes_nothing(run: Run, lake: Lake, root: Path) -> None:
    run("policy", "set", root, "--tap", "t", "--older-than", "400d")
    before = everything(root)
    assert run("policy", "set", root, "--tap", "t", "--older-than", "400d").exit_code == 0
    assert everything(root) == before


@pytest.mark.parametrize(
    "words",
    [
        ("set", "--tap", "t"),
        ("set", "--older-than", "1d"),
        ("set", "--tap", "t", "--older-than", "soon"),
        ("set", "--tap", "t", "--older-than", "400 d"),
        ("set", "--tap", "t", "--older-than", "99999d"),
        ("set", "--tap", "t", "--keep-versions", "0"),
        ("set", "--tap", "nobody", "--older-than", "1d"),
        ("set", "--tap", "t", "--stream", "nothing", "--older-than", "1d"),
        ("set", "--tap", "../t", "--older-than", "1d"),
        ("set", "--tap", "", "--older-than", "1d"),
        ("set", "--tap", "\x1b[31m", "--older-than", "1d"),
        ("unset", "--tap", "t"),
        ("unset", "--tap", "nobody"),
        ("unset", "--tap", "t", "--stream", "flights"),
        ("ls", "--tap", "nobody"),
    ],
)
def test_what_cannot_be_is_told_and_changes_nothing(run: Run, lake: Lake, root: Path, words: tuple[str, ...]) -> None:
    before = everything(root)
    command, *rest = words
    result = run("policy", command, root, *rest)
    assert result.exit_code == 2, result.output
    assert "\x1b" not in result.output
    assert everything(root) == before


def test_an_empty_name_is_not_that_of_all_other_streams(run: Run, lake: Lake, root: Path) -> None:
    run("policy", "set", root, "--tap", "t", "--older-than", "400d")
    for words in (("unset",), ("set", "--older-than", "1d")):
        assert run("policy", words[0], root, "--tap", "t", "--stream", "", *words[1:]).exit_code == 2
    assert rules(lake) == {"": {"older_than": "400d"}}


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({}, "everything is kept for ever"),
        ({"keep_versions": 0}, "everything is kept for ever"),
        ({"keep_versions": -1, "older_than": "9d"}, "what is older than 9d expires"),
        ({"older_than": "-1d"}, "not collected, since '-1d' is not a valid age"),
        ({"older_than": "\x1b[31m", "keep_versions": 1}, r"not collected, since '\x1b[31m' is not a valid age"),
    ],
)
def test_a_rule_that_a_hand_wrote_is_shown_as_a_collector_takes_it(
    run: Run, lake: Lake, root: Path, rule: Any, told: str
) -> None:
    stored = json.loads((root / ROOT).read_bytes())
    stored["taps"]["t"]["retention"] = {"a/b": rule}
    (root / ROOT).write_text(json.dumps(stored))
    assert run("policy", "ls", root).stdout == f"t/a/b: {told}\n"


@pytest.mark.parametrize("name", ["a/b", "..", "x\ny", "\x1b[31mred", "%41"])
def test_streams_of_any_name_may_have_one(run: Run, root: Path, name: str) -> None:
    lake = aged(root, 500, 10, stream=name)
    told = run("policy", "set", root, "--tap", "t", "--stream", name, "--older-than", "400d")
    assert (told.exit_code, len(told.stdout.splitlines())) == (0, 1)
    assert "\x1b" not in told.stdout
    assert rules(lake) == {name: {"older_than": "400d"}}
    assert run("gc", root, "--delete").exit_code == 0
    assert lake.stream("t", name).snapshot().floor == 2


def test_of_a_lake_without_root_metadata_nothing_is_said(run: Run, root: Path) -> None:
    lake = aged(root, 500, 10)
    (root / ROOT).unlink()
    assert run("policy", "ls", root).stdout == "everything is kept for ever\n"
    result = run("policy", "set", root, "--tap", "t", "--older-than", "400d")
    assert (result.exit_code, "run 'singerlake rebuild'" in result.stderr) == (1, True)
    assert run("gc", root, "--delete").exit_code == 0
    assert lake.stream("t", "s").snapshot().floor == 0
    assert run("rebuild", "--yes", root).exit_code == 0
    assert run("policy", "set", root, "--tap", "t", "--older-than", "400d").exit_code == 0


def test_a_policy_outlives_the_file_that_it_is_in(run: Run, root: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = aged(root, 500, 10)
    lake.lake_id()
    run("policy", "set", root, "--tap", "t", "--older-than", "400d")
    (root / ROOT).unlink()
    told = run("verify", root)
    assert (told.exit_code, "root: raw/singerlake.json: is missing" in told.stdout) == (1, True)
    assert run("policy", "ls", root).stdout == "t, all other streams: what is older than 400d expires\n"
    told = run("gc", root, "--delete")
    assert (told.exit_code, "root: raw/singerlake.json: is missing" in told.stdout) == (1, True)
    assert lake.stream("t", "s").snapshot().floor == 2
    told = run("rebuild", "--yes", root)
    assert (told.exit_code, "brought back from its copy" in caplog.text) == (0, True)
    assert rules(lake) == {"": {"older_than": "400d"}}
    assert run("verify", root).exit_code == 0


def test_a_lake_of_before_that_lost_its_policies_is_found(
    run: Run, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing but the streams says that there was one."""
    lake = aged(root, 500)
    key = layout.manifest_key("t", "s")
    stored = lake.storage.get(key)
    assert stored is not None
    lake.storage.put(key, json.dumps(json.loads(stored.body) | {"lake_id": "own"}).encode())
    (root / ROOT).unlink()
    told = run("verify", root)
    assert (told.exit_code, "what it said of tap 't' is gone" in told.stdout) == (1, True)
    told = run("rebuild", "--yes", root)
    assert (told.exit_code, "the policies and notes that it had are gone" in caplog.text) == (0, True)
    assert run("verify", root).exit_code == 0


def test_gc_brings_the_copy_up_to_what_was_written_by_hand(run: Run, lake: Lake, root: Path) -> None:
    run("policy", "set", root, "--tap", "t", "--older-than", "400d")
    stored = json.loads((root / ROOT).read_bytes())
    del stored["taps"]["t"]["retention"]
    (root / ROOT).write_text(json.dumps(stored))
    assert "raw/_singerlake.json: does not say" in run("verify", root).stdout
    assert run("gc", root, "--delete").exit_code == 0
    (root / ROOT).unlink()
    assert run("policy", "ls", root).stdout == "everything is kept for ever\n"


def test_notes_and_policies_keep_each_other_and_what_is_not_known(run: Run, lake: Lake, root: Path) -> None:
    stored = json.loads((root / ROOT).read_bytes())
    stored["later"] = [1.5]
    stored["taps"]["t"] |= {"cost": "low", "retention": {"a/b": {"older_than": "9d", "later": 1}}}
    (root / ROOT).write_text(json.dumps(stored))
    run("annotate", root, "--tap", "t", "--owner", "Ann", "--link", "w=https://x.org")
    run("policy", "set", root, "--tap", "t", "--older-than", "400d")
    run("policy", "set", root, "--tap", "t", "--stream", "a/b", "--keep-versions", 1)
    build_stream(lake, "t", "flights", SCHEMA, [{"n": 1}])
    build_stream(lake, "new", "s", SCHEMA, [{"n": 1}])
    assert run("rebuild", "--yes", root, "--discard-manifest").exit_code == 0
    after = json.loads((root / ROOT).read_bytes())
    assert after["later"] == [1.5]
    assert after["taps"]["t"] == {
        "owner": "Ann",
        "description": "",
        "links": {"w": "https://x.org"},
        "cost": "low",
        "retention": {"a/b": {"keep_versions": 1, "later": 1}, "": {"older_than": "400d"}},
    }
    run("policy", "unset", root, "--tap", "t")
    run("policy", "unset", root, "--tap", "t", "--stream", "a/b")
    assert "retention" not in json.loads((root / ROOT).read_bytes())["taps"]["t"]
    assert run("annotate", root, "--tap", "t").stdout.splitlines()[1] == "owner: Ann"


def test_a_collection_without_delete_shows_what_would_expire_and_changes_nothing(run: Run, root: Path) -> None:
    aged(root, 500, 450, 10)
    run("policy", "set", root, "--tap", "t", "--older-than", "400d")
    before = everything(root)
    result = run("gc", root)
    assert result.exit_code == 0
    assert "t/s: 2 files (" in result.stdout
    assert ") would expire, 4 records; the stream would begin at offset 4" in result.stdout
    (told,) = json.loads(run("gc", root, "--json").stdout)["streams"]
    assert (told["expired"]["files"], told["expired"]["records"]) == (2, 4)
    assert everything(root) == before


def test_a_collection_expires_and_the_next_ones_delete(run: Run, root: Path) -> None:
    lake = aged(root, 500, 450, 10)
    run("policy", "set", root, "--tap", "t", "--older-than", "400d")
    now = "gc", root, "--grace", "0s", "--delete"
    first = run(*now)
    assert ") expired, 4 records; the stream begins at offset 4" in first.stdout
    assert lake.stream("t", "s").snapshot().floor == 4
    assert len(data_files(root)) == 3
    assert "expire" not in run(*now).stdout
    run(*now)
    assert len(data_files(root)) == 1
    assert run("verify", root).exit_code == 0
    told = json.loads(run("status", root, "--json", "--runs", 9).stdout)["streams"][0]
    assert [each["kind"] for each in told["runs"] if each["kind"] == "expire"] == ["expire"]


def test_a_stream_that_is_named_has_its_own_policy_alone(run: Run, root: Path) -> None:
    lake = aged(root, 500, 450, 10)
    for stream in ("kept", "young"):
        aged(root, 500, 450, 10, stream=stream)
    run("policy", "set", root, "--tap", "t", "--older-than", "480d")
    run("policy", "set", root, "--tap", "t", "--stream", "kept", "--older-than", "3650d")
    run("policy", "set", root, "--tap", "t", "--stream", "young", "--older-than", "1d")
    assert run("gc", root, "--delete").exit_code == 0
    assert [lake.stream("t", name).snapshot().floor for name in ("s", "kept", "young")] == [2, 0, 6]


def test_versions_of_a_policy_go_when_a_new_one_comes(run: Run, lake: Lake, root: Path) -> None:
    run("policy", "set", root, "--tap", "t", "--keep-versions", 1)
    assert run("gc", root, "--delete").exit_code == 0
    assert lake.stream("t", "flights").snapshot().floor == 20
    assert lake.stream("t", "a/b").snapshot().floor == 0
    assert lake.stream("u", "x").snapshot().floor == 0


@pytest.mark.parametrize("text", ["soon", "400 d", "", "36501d", "-1d"])
def test_an_age_that_a_hand_wrote_wrong_stops_its_stream_alone_and_is_told(run: Run, root: Path, text: str) -> None:
    lake = aged(root, 500, 10)
    aged(root, 500, 10, stream="good")
    run("policy", "set", root, "--tap", "t", "--older-than", "400d")
    stored = json.loads((root / ROOT).read_bytes())
    stored["taps"]["t"]["retention"]["s"] = {"older_than": text}
    (root / ROOT).write_text(json.dumps(stored))
    for words in ((), ("--delete",)):
        result = run("gc", root, *words)
        assert result.exit_code == 1
        assert f"is not collected: {text!r} is" in result.stdout
    assert lake.stream("t", "s").snapshot().floor == 0
    assert lake.stream("t", "good").snapshot().floor == 2
    assert run("policy", "ls", root).exit_code == 0
    assert run("policy", "set", root, "--tap", "t", "--stream", "s", "--older-than", "400d").exit_code == 0
    assert run("gc", root, "--delete").exit_code == 0
    assert lake.stream("t", "s").snapshot().floor == 2


@pytest.mark.parametrize("rule", [{"keep_versions": 0}, {"keep_versions": -3}, {}])
def test_a_rule_that_says_nothing_expires_nothing(run: Run, lake: Lake, root: Path, rule: dict[str, Any]) -> None:
    stored = json.loads((root / ROOT).read_bytes())
    stored["taps"]["t"]["retention"] = {"": rule}
    (root / ROOT).write_text(json.dumps(stored))
    assert run("policy", "ls", root).exit_code == 0
    assert run("gc", root, "--delete").exit_code == 0
    assert lake.stream("t", "flights").snapshot().floor == 0


def write_retention(root: Path, retention: Any, tap: str = "t") -> None:
    stored = json.loads((root / ROOT).read_bytes())
    stored["taps"][tap]["retention"] = retention
    (root / ROOT).write_text(json.dumps(stored))


@pytest.mark.parametrize(
    ("retention", "whose"),
    [
        ("400d", "all other streams"),
        ({"": 400}, "all other streams"),
        ({"s": "400d"}, "stream 's'"),
        ({"s": {"older_than": 400}}, "stream 's'"),
        ({"s": {"keep_versions": "1"}}, "stream 's'"),
    ],
)
def test_a_policy_of_another_type_expires_nothing_and_is_told_and_kept(
    run: Run, root: Path, retention: Any, whose: str, caplog: pytest.LogCaptureFixture
) -> None:
    lake = aged(root, 500, 10)
    write_retention(root, retention)
    told = f"{ROOT}: the retention of tap 't', {whose}, is not read, and nothing expires by it: "
    for words in ((), ("--delete",), ("--delete", "--tap", "t", "--stream", "s")):
        result = run("gc", root, *words)
        assert (result.exit_code, f"root: {told}" in result.stdout) == (1, True)
        assert "t/s: " in result.stdout
    assert lake.stream("t", "s").snapshot().floor == 0
    found = json.loads(run("gc", root, "--json").stdout)["findings"]
    assert [(each["kind"], each["key"], each["problem"]) for each in found] == [("root", ROOT, True)]
    assert (run("verify", root).exit_code, f"root: {told}" in run("verify", root).stdout) == (1, True)
    caplog.clear()
    listed = run("ls", root)
    assert (listed.exit_code, "t    s" in listed.stdout) == (0, True)
    assert [record.getMessage() for record in caplog.records if record.getMessage().startswith(told)]
    assert run("ls", root, "--json").exit_code == 0
    assert rules(lake) == retention
    (exported,) = json.loads(run("export", root).stdout)["taps"]
    assert exported["retention"] == retention
    assert json.loads(run("policy", "ls", root, "--json").stdout)["taps"]["t"] == retention
    assert ": everything is kept for ever, since the retention is not read: " in run("policy", "ls", root).stdout
    build_stream(lake, "new", "s", SCHEMA, [{"n": 1}])
    assert rules(lake) == retention


def test_a_wrong_policy_of_other_streams_or_taps_does_not_concern_those_that_are_chosen(run: Run, root: Path) -> None:
    aged(root, 500, 10)
    aged(root, 500, 10, stream="other")
    build_stream(Lake.open(str(root)), "u", "s", SCHEMA, [{"n": 1}])
    write_retention(root, {"other": 3, "": 4, "s": {"older_than": "900d"}})
    assert run("gc", root, "--tap", "u").exit_code == 0
    assert run("gc", root, "--tap", "t", "--stream", "s").exit_code == 0
    told = run("gc", root, "--tap", "t", "--stream", "other")
    assert (told.exit_code, told.stdout.count("is not read")) == (1, 1)
    assert run("gc", root).stdout.count("is not read") == 2


def test_a_wrong_policy_is_set_anew_or_taken_away(run: Run, root: Path) -> None:
    lake = aged(root, 500, 10)
    write_retention(root, {"s": {"keep_versions": True, "since": "later"}, "other": 3})
    assert run("policy", "set", root, "--tap", "t", "--stream", "s", "--keep-versions", 1).exit_code == 0
    assert json.dumps(rules(lake)) == '{"other": 3, "s": {"since": "later", "keep_versions": 1}}'
    assert run("policy", "unset", root, "--tap", "t", "--stream", "other").exit_code == 0
    assert rules(lake) == {"s": {"since": "later", "keep_versions": 1}}
    write_retention(root, "400d")
    assert run("policy", "set", root, "--tap", "t", "--stream", "s", "--older-than", "400d").exit_code == 0
    assert rules(lake) == {"": "400d", "s": {"older_than": "400d"}}
    assert run("policy", "unset", root, "--tap", "t").exit_code == 0
    assert rules(lake) == {"s": {"older_than": "400d"}}
    assert run("gc", root, "--delete").exit_code == 0
    assert lake.stream("t", "s").snapshot().floor == 2


def test_less_than_one_version_is_a_note_of_the_collector(run: Run, root: Path) -> None:
    aged(root, 500, 10)
    write_retention(root, {"s": {"keep_versions": 0}})
    note = f"note: root: {ROOT}: the retention of tap 't', stream 's', has keep_versions 0, by which nothing expires"
    for command in ("gc", "verify"):
        result = run(command, root)
        assert (result.exit_code, note in result.stdout) == (0, True)
    run("policy", "set", root, "--tap", "t", "--stream", "s", "--keep-versions", 1)
    assert "keep_versions" not in run("gc", root).stdout


def test_an_expiry_is_noted_though_the_collection_behind_it_fails(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise StorageUnavailableError("storage is away", hint="wait")

    lake = aged(root, 500, 10)
    run("policy", "set", root, "--tap", "t", "--older-than", "400d")
    monkeypatch.setattr("singerlake.upkeep.gc.gc.collect_stream", away)
    result = run("gc", root, "--delete")
    assert (result.exit_code, "t/s: not collected: storage is away" in result.stdout) == (1, True)
    assert lake.stream("t", "s").snapshot().floor == 2
    noted = [each for each in lake.stream("t", "s").snapshot().runs if each.kind == "expire"]
    assert [(each.files, each.records) for each in noted] == [(1, 2)]


def test_files_that_a_vacuum_joined_before_they_expired_are_collected(run: Run, root: Path) -> None:
    aged(root, 500, 450, 480)
    aged(root, 500, 10, stream="other")
    assert run("vacuum", "--yes", root).exit_code == 0
    run("policy", "set", root, "--tap", "t", "--older-than", "400d")
    for _ in range(4):
        result = run("gc", root, "--grace", "0s", "--delete")
        assert result.exit_code == 0, result.stdout
    assert [path.parts[-3] for path in data_files(root)] == ["other"]
