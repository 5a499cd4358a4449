"""``singerlake project``: tables made from streams; one module a subcommand."""

from __future__ import annotations

import click

from singerlake.cli.commands.project.as_of import as_of
from singerlake.cli.commands.project.diff import diff
from singerlake.cli.commands.project.drop import drop
from singerlake.cli.commands.project.gc import gc
from singerlake.cli.commands.project.ls import ls
from singerlake.cli.commands.project.plan import plan
from singerlake.cli.commands.project.run import run
from singerlake.cli.commands.project.verify import verify


@click.group()
def project() -> None:
    """Make tables from streams, and look after them."""


for command in (plan, run, ls, as_of, diff, verify, gc, drop):
    project.add_command(command)
