"""``shared/docs/cli.md`` names every command, every option, every setting and every kind of finding."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from singerlake.cli.main import main
from singerlake.cli.options import variable
from singerlake.maintenance.findings import KINDS
from singerlake.settings import S3_SETTINGS

TEXT = (Path(__file__).parents[2] / "shared/docs/cli.md").read_text()


def leaves(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
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


def test_every_kind_of_finding_is_documented_and_no_other() -> None:
    table = TEXT.partition("## Findings")[2]
    assert tuple(re.findall(r"^\| `([a-z]+)`", table, re.MULTILINE)) == KINDS


def test_every_secret_has_its_variable() -> None:
    for name, kind in S3_SETTINGS.items():
        if kind.get("secret"):
            assert f"`{variable(name)}`" in TEXT
