"""``docs/reference/commands.md`` names every command, every option, every setting and every kind of finding, and what
it shows of them is what they print."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from singerlake.cli.commands.reading import ls
from singerlake.cli.main import main
from singerlake.cli.options import variable
from singerlake.format.state.model import Run as TargetRun
from singerlake.format.state.transactions import Transaction
from singerlake.lake import Lake
from singerlake.settings import STORAGE_SETTINGS, STORE_SETTINGS
from singerlake.stores.port import Loaded
from singerlake.upkeep.result import KINDS
from tests.atomic.lakes import commit_together, numbers
from tests.cli.conftest import Run
from tests.docs.readme import assert_same, commands
from tests.format.state.test_fold import add, new_file
from tests.lakes import build_stream

TEXT = (Path(__file__).parents[2] / "docs/reference/commands.md").read_text()


def leaves(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from leaves(child, f"{path} {name}".strip())
    else:
        yield path, command


@pytest.mark.parametrize(("path", "command"), list(leaves(main)), ids=[path for path, _ in leaves(main)])
def test_every_command_and_option_is_documented(path: str, command: click.Command) -> None:
    assert f"| `{path}` |" in TEXT
    for param in command.params:
        if isinstance(param, click.Option):
            assert f"{param.opts[0]}" in TEXT


def test_every_option_that_is_documented_is_there() -> None:
    known = {option for _, command in leaves(main) for param in command.params for option in param.opts}
    known |= {option for param in main.params for option in param.opts}
    assert set(re.findall(r"--[a-z][a-z0-9-]+", TEXT)) <= known


def test_every_column_of_ls_is_explained() -> None:
    section = TEXT.partition("\n## ls\n")[2].partition("\n## ")[0]
    explained = ", ".join(re.findall(r"^\| ([A-Z]{2}[^|]*) \|", section, re.MULTILINE)).split(", ")
    assert {"TAP", "STREAM", *explained} == {column.removeprefix(">") for column in (*ls._COLUMNS, *ls._ATTACHED)}


def test_every_kind_of_finding_is_documented_and_no_other() -> None:
    table = TEXT.partition("## Findings")[2]
    assert tuple(re.findall(r"^\| `([a-z]+)`", table, re.MULTILINE)) == KINDS


def test_every_secret_has_its_variable() -> None:
    for name, kind in {**STORAGE_SETTINGS, **STORE_SETTINGS}.items():
        if kind.get("secret"):
            assert f"`{variable(name)}`" in TEXT


def a_lake_with_a_run() -> None:
    """Tap ``t`` with ``flights``: three files that one run brought."""
    lake = Lake.open("lake")
    writer = lake.stream("t", "flights").writer(writer_id="w")
    manifest = writer.open()
    for number, messages in enumerate((10, 10, 5)):
        run = TargetRun(
            id="9q2c1m5d0o8s4k7e",
            writer="worker-1-4711-9q2c1m5d0o8s4k7e",
            started="2026-01-01T03:00:00Z",
            updated="2026-01-01T03:04:10Z",
            status="finished",
        )
        base = writer.store.load()
        assert base is not None
        change = add(new_file(f"f{number}", messages), run=run)
        outcome = writer.store.commit(base, Transaction(id=f"t{number}", at="2026", change=change))
        assert isinstance(outcome, Loaded)
        manifest = outcome.manifest
    lake.announce(manifest)


def a_shop() -> None:
    """Tap ``t`` with ``users``, in two versions."""
    lake = Lake.open("shop")
    for name, kind in (("firstName", "integer"), ("first_name", "number")):
        properties = {"id": {"type": "integer"}, name: {"type": ["null", "string"]}, "age": {"type": kind}}
        records = [{"id": n, name: "x", "age": 5} for n in range(10)]
        build_stream(lake, "t", "users", {"properties": properties}, records, key_properties=("id",))


def an_archive() -> None:
    """Tap ``t`` with ``events``: twelve small files, one of another version, and another of the first."""
    lake = Lake.open("archive")
    for name, count in (("user", 60), ("account", 5), ("user", 5)):
        schema = {"properties": {"id": {"type": "integer"}, name: {"type": "string"}}}
        records = [{"id": n, name: f"{name} {n}"} for n in range(count)]
        build_stream(lake, "t", "events", schema, records, file_size=5, key_properties=("id",))


def a_till() -> None:
    """Tap ``shop`` with two atomic runs, the first of which brought something to two streams."""
    lake = Lake.open("till")
    commit_together(lake, "shop", {"orders": numbers(0, 2), "items": numbers(0, 4)}, run="9q2c1m5d0o8s4k7e")
    commit_together(lake, "shop", {"items": numbers(4, 6)}, run="4b1n7f0s2k9d5h3a")


def some_people() -> None:
    """Tap ``crm`` with ``contacts``: two files of three records, two of them of one person."""
    lake = Lake.open("people")
    schema = {"properties": {"id": {"type": "integer"}, "email": {"type": "string"}}}
    names = ("kim", "lee", "kim", "ana", "bo", "cy")
    records = [{"id": n, "email": f"{name}@example.com"} for n, name in enumerate(names)]
    build_stream(lake, "crm", "contacts", schema, records, file_size=3, key_properties=("id",))


def some_files() -> None:
    """A contract, and a folder of two photos, one of which is the contract."""
    Path("photos").mkdir()
    for name, body in (("contract.pdf", b"signed"), ("photos/a.jpg", b"a" * 1000), ("photos/b.jpg", b"signed")):
        Path(name).write_bytes(body)


def test_what_is_shown_of_commands_is_what_they_print(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # What stands in new files, and so in their sizes.
    monkeypatch.setattr("singerlake.upkeep.erase.erase.who_erases", lambda: "kim@desk")
    a_lake_with_a_run()
    a_shop()
    an_archive()
    a_till()
    some_people()
    some_files()
    blocks = re.findall(r"^```console\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    shown = [command for block in blocks for command in commands(block)]
    assert len(shown) >= 3
    for command in shown:
        program, *arguments = shlex.split(command.line)
        assert program == "singerlake"
        assert_same(run(*arguments).output, command.prints, command.line)
