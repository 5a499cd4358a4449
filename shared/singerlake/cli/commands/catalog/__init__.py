"""``singerlake catalog``: what describes tables to other engines; one module a subcommand."""

from __future__ import annotations

import click

from singerlake.cli.commands.catalog.ls import ls
from singerlake.cli.commands.catalog.register import register
from singerlake.cli.commands.catalog.serve import serve
from singerlake.cli.commands.catalog.sync import sync


@click.group()
def catalog() -> None:
    """Show tables to engines that read Delta and Iceberg."""


for command in (ls, sync, register, serve):
    catalog.add_command(command)
