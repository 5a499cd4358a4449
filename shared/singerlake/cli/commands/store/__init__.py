"""``singerlake store``: which manifest store keeps each stream, and looking after it; one module a subcommand."""

from __future__ import annotations

import click

from singerlake.cli.commands.store.create import create
from singerlake.cli.commands.store.identify import identify
from singerlake.cli.commands.store.ls import ls
from singerlake.cli.commands.store.migrate import migrate
from singerlake.cli.commands.store.trim import trim


@click.group()
def store() -> None:
    """Show, make, change and trim manifest stores."""


for command in (ls, trim, create, identify, migrate):
    store.add_command(command)
