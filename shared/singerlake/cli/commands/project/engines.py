"""What ``--engine``, ``--threads``, ``--master`` and ``--remote`` mean for tables: what does the work of a run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import click

from singerlake.cli.engines import ENGINES, reader
from singerlake.errors import UnexpectedError
from singerlake.lake import Lake
from singerlake.tables.run.sql_engine import KnowsSql, SqlEngine, without_spark
from singerlake.upkeep.result import Progress
from singerlake.work.engine import Answering, Engine, Watched
from singerlake.work.machine import processors

AUTO = "auto"
PROCESSES_FROM = 256 << 20
"""Raw bytes: what several processes take to start has to be worth it. On two cores threads are as fast with half as
many, in two thirds of the memory."""


def table_engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take ``--engine``, ``--threads``, ``--master`` and ``--remote``, as one ``EngineChoice``."""

    @functools.wraps(command)
    def chosen(
        *given: Any, engine: str, threads: int | None, master: str | None, remote: str | None, **arguments: Any
    ) -> Any:
        return command(*given, engines=EngineChoice(engine, threads or processors(), master, remote), **arguments)

    options = (
        click.option(
            "--engine",
            type=click.Choice((AUTO, *ENGINES)),
            default=AUTO,
            show_default=True,
            help="What does the work: threads of one process, several processes, or the tasks of a Spark session. "
            "auto: threads for little, processes for more; Spark with --master or --remote.",
        ),
        click.option(
            "--threads",
            type=click.IntRange(1, 64),
            default=None,
            show_default="the cores",
            help="Tasks at once, without Spark.",
        ),
        click.option("--master", metavar="URL", help="Do the work on the Spark at this master, such as local[4]."),
        click.option("--remote", metavar="URL", help="Do the work through Spark Connect, such as sc://host:15002."),
    )
    made: Callable[..., Any] = chosen
    for option in reversed(options):
        made = option(made)
    return made


@dataclass(frozen=True)
class EngineChoice:
    """What the options say."""

    engine: str
    threads: int
    master: str | None
    remote: str | None

    def __post_init__(self) -> None:
        spark = "--master" if self.master else "--remote" if self.remote else None
        if self.master and self.remote:
            raise click.UsageError("--master and --remote exclude each other")
        if spark and self.engine not in (AUTO, "spark"):
            raise click.UsageError(f"{spark} is for --engine spark")

    @property
    def may_be_here(self) -> bool:
        """Whether threads of this process may do the work of small tables."""
        return self.kind(0) == "threads"

    def kind(self, size: int) -> str:
        """The engine for that many raw bytes."""
        if self.engine != AUTO:
            return self.engine
        if self.master or self.remote:
            return "spark"
        return "threads" if size < PROCESSES_FROM else "processes"


@dataclass
class Engines:
    """Opens an engine when it is first needed, and keeps it while ``held`` is open. ``bar`` is told of what is done."""

    choice: EngineChoice
    lake: Lake
    held: ExitStack
    bar: Progress | None = None
    _open: dict[str, Engine] = field(default_factory=dict)

    def __call__(self, size: int) -> Engine:
        """The engine for tasks on that many raw bytes. Raises ``SettingError`` where it cannot be had."""
        if self.bar is not None:
            self.bar.sized(size)
        return Watched(self._opened(self.choice.kind(size)), self._done)

    def check(self) -> None:
        """Raise ``UnexpectedError`` where an engine that is open answers no more, as a Spark whose Java has ended."""
        for kind, engine in self._open.items():
            try:
                list(engine(Answering(), [0]))
            except Exception as error:
                raise UnexpectedError(
                    f"engine {kind!r} does not answer any more", hint="run it again, which starts another one"
                ) from error

    def _opened(self, kind: str) -> Engine:
        if kind not in self._open:
            choice = self.choice
            opening = reader(kind, self.lake, choice.threads, master=choice.master, remote=choice.remote, at_once=True)
            self._open[kind] = self.held.enter_context(opening)
        return self._open[kind]

    def sql(self) -> SqlEngine:
        """What runs the statements of tables: Spark. Raises ``SettingError`` where it cannot be had."""
        if self.choice.engine not in (AUTO, "spark"):
            return without_spark()
        opened = self._opened("spark")
        return opened.sql() if isinstance(opened, KnowsSql) else without_spark()

    def _done(self, size: int) -> None:
        if self.bar is not None:
            self.bar.advance(size)
