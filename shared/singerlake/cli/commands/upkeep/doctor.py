"""``singerlake doctor``: whether this machine and the lake's storage give what is needed."""

from __future__ import annotations

from functools import partial

import click

from singerlake.cli.help import command, examples
from singerlake.cli.options import result_options, with_lake
from singerlake.cli.output import say, show
from singerlake.humanize import shown
from singerlake.lake import Lake
from singerlake.upkeep.doctor import DoctorResult

_CODES = {"ok": 0, "warning": 1, "critical": 2}


@examples("singerlake doctor lake", "singerlake doctor s3://bucket/lake --profile production")
@command("Try out what the lake needs: permissions, conditions of storage, clocks, room.")
@partial(with_lake, absent=True)
@result_options
def doctor(lake: Lake) -> int:
    """Try out what the lake needs of this machine and of its storage: where something fails, look here first.

    It lists and reads, writes a small object and removes it, asks whether conditional writes are honoured, and compares
    clocks. Of each manifest store it reads the state of one stream. What is denied names the commands that need it.
    Exits with 2 where something is critical, and with 1 where there are warnings.
    """
    result = lake.doctor()
    show(result, _say)
    return _CODES[result.level]


def _say(result: DoctorResult) -> None:
    for each in result.checks:
        say(f"{click.style(f'{each.level:<8}', bold=each.level != 'ok')}  {each.subject:<10}  {shown(each.message)}")
        if each.hint:
            say(f"{'':<22}{shown(each.hint)}")
