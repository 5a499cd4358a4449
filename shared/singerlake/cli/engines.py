"""What ``--engine`` and ``--threads`` mean: what reads the files of a lake."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from typing import Any

import click

from singerlake.adapters import open_storage
from singerlake.cli.options import threads_option
from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.work.engine import Engine, Threads
from singerlake.work.processes import Processes

ENGINES = ("threads", "processes", "spark")
"""The first is the default."""


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take ``--engine`` and ``--threads``."""
    engine = click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default=ENGINES[0],
        show_default=True,
        help="What reads the files: threads of one process, several processes, or the tasks of a Spark session.",
    )
    return threads_option("Files read at once.")(engine(command))


def reader(
    engine: str, lake: Lake, threads: int, *, at_once: bool = False, **spark: str | None
) -> AbstractContextManager[Engine]:
    """The engine of that name, for as long as the block runs; ``master`` and ``remote`` say which Spark. ``at_once``:
    no answer is needed before the last one. Raises ``SettingError`` where it cannot be had."""
    url = lake.storage.url
    if engine == "spark":
        try:
            from singerlake.spark.tasks import ALL_AT_ONCE, spark_tasks
        except ImportError as error:
            raise SettingError("--engine spark needs pyspark", hint="run: pip install 'singerlake[spark]'") from error
        groups = ALL_AT_ONCE if at_once else None
        return spark_tasks(url, lake.settings, groups_per_core=groups, **spark)
    if engine == "processes":
        return closing(Processes(partial(open_storage, url, lake.settings), threads))
    return nullcontext(Threads(lake.storage, threads))
