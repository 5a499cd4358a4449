"""What all commands share: the lake, exit codes, errors in one line, names that cannot break out."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from singerlake.cli.help import Documented
from singerlake.cli.main import main
from singerlake.cli.options import size_within
from singerlake.cli.output import counted, shown, size
from singerlake.errors import AccessDeniedError, NotALakeError
from singerlake.format import layout
from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import build_stream, record_line
from tests.upkeep.shelf import SCHEMA

COMMANDS = (
    ("ls",),
    ("status",),
    ("verify",),
    ("rebuild",),
    ("lock", "ls"),
    ("store", "ls"),
    ("store", "migrate", "--to", "log"),
    ("store", "trim"),
)
STREAM_COMMANDS = [command for command in COMMANDS if command != ("ls",)]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_root_that_is_no_lake_is_a_usage_error_in_one_line(
    run: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    result = run(*command, tmp_path)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: nothing here is a lake")
    assert result.stderr.count("\n") == 1
    assert (result.stdout, list(tmp_path.iterdir())) == ("", [])


@pytest.mark.parametrize("command", COMMANDS)
def test_with_json_an_error_has_its_kind(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    result = run(*command, tmp_path, "--json")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    error = json.loads(result.stdout)["error"]
    assert (error["kind"], error["message"]) == ("not_a_lake", "nothing here is a lake")
    assert (error["context"], "raw" in error["hint"]) == ({"lake_root": str(tmp_path)}, True)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_tap_is_named_with_those_there_are(run: Run, lake: Lake, command: tuple[str, ...]) -> None:
    result = run(*command, lake.storage.url, "--tap", "nope")
    assert (result.exit_code, "it has: t, u" in result.stderr) == (2, True)


@pytest.mark.parametrize("command", STREAM_COMMANDS)
def test_an_unknown_stream_is_named_with_those_there_are(run: Run, lake: Lake, command: tuple[str, ...]) -> None:
    result = run(*command, lake.storage.url, "--tap", "t", "--stream", "nope")
    assert (result.exit_code, "it has: a/b, flights" in result.stderr) == (2, True)


@pytest.mark.parametrize("command", [*STREAM_COMMANDS, ("ls",), ("versions",), ("export",)])
def test_a_pattern_means_the_streams_and_taps_that_it_matches(run: Run, lake: Lake, command: tuple[str, ...]) -> None:
    told = run(*command, lake.storage.url, "--stream", "fl*", "--json")
    assert (told.exit_code, '"flights"' in told.stdout, '"a/b"' in told.stdout) == (0, command != ("lock", "ls"), False)
    assert run(*command, lake.storage.url, "--tap", "[tv]", "--stream", "x").exit_code == 2
    every = run(*command, lake.storage.url, "--tap", "*", "--json").stdout
    assert all(f'"{name}"' in every for name in ("flights", "a/b", "x")) is (command != ("lock", "ls"))


def test_a_name_that_is_there_is_no_pattern(run: Run, lake: Lake) -> None:
    for name in ("*", "[f]lights"):
        build_stream(lake, "t", name, SCHEMA, [record_line(name, {"n": 1})])
        told = json.loads(run("versions", lake.storage.url, "--stream", name, "--json").stdout)
        assert [each["stream"] for each in told["streams"]] == [name]


def test_what_is_a_lake_is_not_taken_for_a_name(
    run: Run, lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root.parent)
    elsewhere = {"SINGERLAKE_LAKE_ROOT": str(root)}
    build_stream(Lake.open("v1"), "t", "flights", SCHEMA, [record_line("flights", {"n": 1})])
    refused = run("diff", "v1", "v2", "--stream", "flights", env=elsewhere)
    assert refused.exit_code == 2
    assert "note: v1 is a lake, and taken for that, not for a name\n" in refused.stderr
    assert run("diff", root, "v1", "v2", "--stream", "flights", env=elsewhere).stderr == ""
    assert run("diff", root.name, "v1", "v2", "--stream", "flights", env=elsewhere).stderr == ""
    Path("v2/raw/photos").mkdir(parents=True)
    assert run("diff", "./v1", "v2", "v1", "--stream", "flights", env=elsewhere).stderr.startswith("error: stream")


@pytest.mark.parametrize(("text", "bytes"), [("10MB", 10**7), ("3 kb", 3000), ("1048576", 1 << 20), ("2g", 2 * 10**9)])
def test_a_size_is_read_as_people_write_it(text: str, bytes: int) -> None:
    assert size_within(1, 5 << 30)(text) == bytes


@pytest.mark.parametrize("text", ["", "0", "ten", "-1", "1.5MB", "10MiB", "9TB", "1" * 30])
def test_a_size_that_is_not_one_or_out_of_bounds_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="write 10000000 or 10MB"):
        size_within(1, 5 << 30)(text)


@pytest.mark.parametrize(("word", "meant"), [("compact", "vacuum"), ("tables", "project ls"), ("statuss", "status")])
def test_what_people_type_who_know_other_tools_is_answered(run: Run, word: str, meant: str) -> None:
    told = run(word, "lake")
    assert (told.exit_code, f"Did you mean '{meant}'?" in told.stderr) == (2, True)


def test_a_stream_behind_the_lake_is_answered_with_its_option(run: Run, lake: Lake) -> None:
    told = run("tail", lake.storage.url, "flights")
    assert (told.exit_code, "Streams are named by --stream" in told.stderr) == (2, True)


@pytest.mark.parametrize("word", ["", "\x1b[31m", "nul\0", "x" * 5000, "--", "~nobody/x"])
def test_a_word_that_is_no_lake_is_shown_as_text(run: Run, lake: Lake, word: str) -> None:
    told = run("diff", "--", word, "v2", env={"SINGERLAKE_LAKE_ROOT": lake.storage.url})
    assert (told.exit_code, "\x1b" in told.output, "\0" in told.output) == (2, False, False)


def test_a_file_of_tables_names_the_lake_for_every_command(
    run: Run, lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root.parent)
    monkeypatch.delenv("MELTANO_PROJECT_ROOT", raising=False)
    Path("projections.yml").write_text(f"lake_root: {root.name}\ntables: {{}}\n")
    assert "flights" in run("ls").stdout
    assert run("diff", "v1", "v2", "--tap", "t", "--stream", "flights").exit_code == 0
    other = run("ls", env={"SINGERLAKE_LAKE_ROOT": "elsewhere"})
    assert (other.exit_code, "elsewhere" in other.stderr) == (2, True)


def test_the_lake_may_come_from_the_environment(run: Run, lake: Lake) -> None:
    result = run("ls", env={"SINGERLAKE_LAKE_ROOT": lake.storage.url})
    assert (result.exit_code, "flights" in result.stdout) == (0, True)


@pytest.mark.parametrize(
    "words",
    [
        ("erase", "--where", "a = 1", "--delete", "--where", "b = 1"),
        ("verify", "--erased", "a = 1", "--erased", "b = 1"),
        ("ls", "--tap", "x", "--tap", "y"),
        ("tail", "-n", "1", "--lines=2"),
    ],
)
def test_an_option_of_one_value_is_refused_where_it_is_given_twice(
    run: Run, lake: Lake, words: tuple[str, ...]
) -> None:
    result = run(words[0], lake.storage.url, *words[1:])
    assert (result.exit_code, "is given more than once" in result.stderr) == (2, True)
    assert run("ls", lake.storage.url, "-q", "-q", "--json", "--json").exit_code == 0


@pytest.mark.parametrize("lake_root", ["", "s3://", "r2://bucket/x"])
def test_a_root_that_names_no_storage_is_a_usage_error(run: Run, lake: Lake, lake_root: str) -> None:
    for words in (("ls",), ("gc", lake.storage.url, "--batches")):
        result = run(*words, lake_root)
        assert (result.exit_code, result.stdout) == (2, "")


def test_an_unreadable_folder_is_named(run: Run, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, prefix: str) -> None:
        raise AccessDeniedError("not allowed to read", hint="check the permissions", key=prefix)

    monkeypatch.setattr(type(lake.storage), "list_folder", refuse)
    result = run("ls", lake.storage.url)
    assert (result.exit_code, result.stderr.startswith("error: not allowed to read")) == (2, True)


def test_debug_shows_where_an_error_came_from(run: Run, tmp_path: Path) -> None:
    with pytest.raises(NotALakeError):
        run("--debug", "ls", tmp_path)


def test_every_command_has_help_that_names_its_lake() -> None:
    def leaves(command: click.Command) -> list[click.Command]:
        if not isinstance(command, click.Group):
            return [command]
        context = click.Context(command)
        below = [command.get_command(context, name) for name in command.list_commands(context)]
        return [leaf for child in below if child for leaf in leaves(child)]

    found = leaves(main)
    assert {command.name for command in found} == {
        "ls",
        "check",
        "doctor",
        "release",
        "versions",
        "why",
        "diff",
        "compare",
        "as-of",
        "tail",
        "serve",
        "sql",
        "sync",
        "register",
        "annotate",
        "commit-worker",
        "init",
        "put",
        "export",
        "build",
        "status",
        "rebuild",
        "vacuum",
        "gc",
        "verify",
        "break",
        "create",
        "identify",
        "migrate",
        "trim",
        "plan",
        "run",
        "drop",
        "erase",
        "expire",
        "set",
        "unset",
    }
    for command in found:
        assert command.help
        assert command.get_short_help_str()
        assert any("LAKE" in param.human_readable_name for param in command.params)


SHOWS_FIRST = (
    ("gc", "--delete"),
    ("drop", "--delete"),
    ("erase", "--delete"),
    ("expire", "--delete"),
    ("project", "gc", "--delete"),
    ("project", "drop", "--delete"),
    ("vacuum", "--yes"),
    ("rebuild", "--yes"),
    ("store", "migrate", "--yes"),
    ("store", "trim", "--yes"),
    ("lock", "break", "--yes"),
)


@pytest.mark.parametrize("words", SHOWS_FIRST)
def test_what_changes_or_deletes_shows_first_by_one_rule(words: tuple[str, ...]) -> None:
    command: click.Command | None = main
    for word in words[:-1]:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    options = {name: param for param in command.params for name in param.opts}
    assert {words[-1], "--yes", "--dry-run"} <= options.keys()
    assert options[words[-1]] is options["--yes"]


def test_to_act_and_only_to_show_exclude_each_other(run: Run, lake: Lake) -> None:
    refused = run("gc", lake.storage.url, "--delete", "--dry-run")
    assert (refused.exit_code, "--delete and --dry-run exclude each other" in refused.stderr) == (2, True)
    assert run("gc", lake.storage.url, "--dry-run").stdout == run("gc", lake.storage.url).stdout


@pytest.mark.parametrize("words", [(), ("docs",), ("policy",), ("lock",), ("store",), ("project",)])
def test_the_list_of_commands_cuts_no_help(words: tuple[str, ...]) -> None:
    usage, *listed = CliRunner().invoke(main, [*words, "--help"]).output.splitlines()
    assert usage.startswith("Usage: ")
    assert len(listed) > 5
    assert not any("..." in line for line in listed)


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from leaves(child, (*path, name))


@pytest.mark.parametrize(("path", "command"), list(leaves(main)), ids=[" ".join(path) for path, _ in leaves(main)])
def test_help_begins_with_two_examples_and_ends_with_storage(path: tuple[str, ...], command: click.Command) -> None:
    assert isinstance(command, Documented)
    told = CliRunner().invoke(main, [*path, "--help"], terminal_width=80).output
    assert len(command.examples) == len(set(command.examples)) == 2
    for example in command.examples:
        words = shlex.split(example)
        assert tuple(words[: len(path) + 1]) == ("singerlake", *path)
        assert command.make_context(path[-1], words[len(path) + 1 :])
        assert f"  {example}\n" in told
    assert told.index("\nExamples:\n") < told.index("\nOptions:\n") < told.index("\nStorage options:\n")
    own, _, others = told.partition("\nStorage options:\n")
    assert ("--help" in own, "--s3-endpoint-url" in own, "--s3-endpoint-url" in others) == (True, False, True)


def test_help_lists_every_command_under_a_task() -> None:
    told = CliRunner().invoke(main, ["--help"]).output
    for name in main.list_commands(click.Context(main)):
        assert told.count(f"\n  {name} ") == 1
    assert told.index("Look at a lake:") < told.index("  ls ") < told.index("Remove:") < told.index("  erase ")


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        (("ls", "--dry-run"), None),
        (("gc", "--dryrun"), "--dry-run"),
        (("gc", "--deleet"), "--delete"),
        (("ls", "--delete"), None),
        (("verify", "--s3-endpoint"), "--s3-endpoint-url"),
        (("ls", "--\x1b[31m"), None),
    ],
)
def test_a_mistyped_option_suggests_options_of_that_command(
    run: Run, words: tuple[str, ...], suggested: str | None
) -> None:
    told = run(*words)
    assert (told.exit_code, "No such option" in told.stderr, "\x1b" in told.stderr) == (2, True, False)
    assert ("Did you mean" in told.stderr, (suggested or "") in told.stderr) == (suggested is not None, True)


@pytest.mark.parametrize("name", ["vacuum", "rebuild"])
def test_a_command_that_deletes_nothing_says_what_does_it(run: Run, name: str) -> None:
    told = run(name, "--delete")
    assert told.exit_code == 2
    assert "No such option '--delete'; --yes does what the command shows" in told.stderr


@pytest.mark.parametrize(
    "words", [("sql", "select 1"), ("sql", "SELECT * FROM 'x/y'"), ("diff", "v1"), ("catalog", "ls", "people")]
)
def test_the_one_word_of_a_command_without_a_lake_is_not_taken_for_a_lake_that_went(
    run: Run, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = run(*words)
    assert (told.exit_code, "\x1b" in told.stderr) == (2, False)
    assert "is not a lake, and no lake is named; give LAKE, set $SINGERLAKE_LAKE_ROOT" in told.stderr


def test_secrets_are_no_options() -> None:
    context = click.Context(main)
    store = main.get_command(context, "store")
    assert isinstance(store, click.Group)
    commands = [main.get_command(context, "ls"), main.get_command(context, "verify"), *store.commands.values()]
    options = {name for command in commands if command for param in command.params for name in param.opts}
    assert "--postgres-schema" in options
    assert not any(
        "secret" in name or "token" in name or "key-id" in name.replace("kms-key-id", "") or "postgres-url" in name
        for name in options
    )


def test_a_name_that_is_no_text_is_printed_as_an_escape(run: Run, lake: Lake) -> None:
    lake.storage.put(f"{layout.stream_prefix('t', chr(0xD800))}x/singerlake.lock", b"{}")
    assert "\\ud800" in run("ls", lake.storage.url).stdout
    assert "\\ud800" in run("ls", lake.storage.url, "--json").stdout
    assert "\\ud800: no data files" in run("rebuild", "--yes", lake.storage.url).stdout


@given(st.text(st.characters()))
def test_what_is_shown_is_printable_and_tells_names_apart(text: str) -> None:
    assert shown(text).isprintable()
    if text.isprintable():
        assert shown(text) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_949, "99.9 kB"),
        (99_950, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (17_600_000, "17.6 MB"),
        (5 * 10**12, "5.0 TB"),
        (10**19, "10000 PB"),
    ],
)
def test_sizes_for_the_eye(count: int, text: str) -> None:
    assert size(count) == text


def test_counts_for_the_eye() -> None:
    assert [counted(count, "file") for count in (0, 1, 1234)] == ["0 files", "1 file", "1,234 files"]


def process(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    code = "from singerlake.cli.main import main; main(prog_name='singerlake')"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **env},
        timeout=60,
    )


def test_the_process_ends_with_the_exit_code_and_no_traceback(tmp_path: Path, lake: Lake) -> None:
    assert process("--version").stdout.startswith("singerlake, version ")
    refused = process("verify", str(tmp_path / "elsewhere"))
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)
    assert process("verify", lake.storage.url).returncode == 0


@pytest.mark.parametrize(("encoding", "name"), [("ascii", "日"), ("latin-1", "\\u65e5"), ("utf-8", "日")])
def test_no_encoding_of_the_terminal_is_too_small_for_a_name(lake: Lake, encoding: str, name: str) -> None:
    lake.storage.put(layout.stream_prefix("t", "日") + "x/singerlake.lock", b"{}")
    listed = process("ls", lake.storage.url, PYTHONIOENCODING=encoding)
    assert (listed.returncode, name in listed.stdout) == (1, True)


@pytest.mark.parametrize(
    "words", [["vacuum"], ["rebuild"], ["gc"], ["store", "ls"], ["store", "migrate"], ["store", "trim"]]
)
def test_commands_that_reach_databases_name_their_options(words: list[str]) -> None:
    told = CliRunner().invoke(main, [*words, "--help"]).output
    for option in ("--dynamodb-table", "--dynamodb-endpoint-url", "--postgres-schema", "--merge-stale-seconds"):
        assert option in told


@pytest.mark.parametrize(("given", "near"), [("verifi", "verify"), ("stats", "status")])
def test_a_near_command_is_named(run: Run, given: str, near: str) -> None:
    result = run(given)
    assert (result.exit_code, f"No such command '{given}'. Did you mean '{near}'?" in result.stderr) == (2, True)
    assert "Did you mean" not in run("quite-another").stderr


def test_a_wrong_command_line_is_json_too_where_that_is_asked_for(run: Run) -> None:
    result = run("ls", "--bad", "--json")
    assert (result.exit_code, json.loads(result.stdout)["error"]["kind"]) == (2, "usage")
    assert "No such option" in json.loads(result.stdout)["error"]["message"]
    assert run("ls", "--bad").stdout == ""
