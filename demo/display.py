"""How the demo shows itself: a moving bar, a line for each step, a log for each command, a reason on failure."""

from __future__ import annotations

import shlex
import subprocess
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

LINES_ON_FAILURE = 15
INDENT = " " * 4


class StepFailedError(Exception):
    """A command ended with an error; the message shows the end of its output and where all of it is."""


class Display:
    """The demo's screen while its context lasts."""

    def __init__(self, steps: int, console: Console) -> None:
        self.console = console
        self._progress = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("", total=steps)

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @contextmanager
    def step(self, title: str) -> Iterator[Callable[[RenderableType], None]]:
        """Show ``title`` as under way, then as done with the seconds it took and what the step said of its result."""
        notes: list[RenderableType] = []
        self._progress.update(self._task, description=title)
        started = time.monotonic()
        yield notes.append
        took = time.monotonic() - started
        self._progress.advance(self._task)
        self.console.print(f"[green]✓[/green] {title} [dim]({took:.1f} s)[/dim]", soft_wrap=True)
        for note in notes:
            whole = textwrap.indent(note, INDENT) if isinstance(note, str) else note
            self.console.print(whole, soft_wrap=True, highlight=False)


class Commands:
    """Runs commands with one environment; what each writes to standard error goes to a numbered log file."""

    def __init__(self, environment: Mapping[str, str], logs: Path) -> None:
        self._environment = environment
        self._logs = logs
        self._count = 0

    def run(self, *command: str, **settings: str) -> str:
        """Run a command, with ``settings`` added to the environment; what it wrote to standard output.

        Raises StepFailedError when it ends with an error.
        """
        self._count += 1
        log = self._logs / f"{self._count:02}-{command[0]}.log"
        shown = shlex.join(command)
        with log.open("w") as errors:
            errors.write(f"$ {shown}\n")
            errors.flush()
            environment = {**self._environment, **settings}
            ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        if ran.returncode:
            ends = [text.splitlines()[-LINES_ON_FAILURE:] for text in (ran.stdout, log.read_text())]
            why = "\n".join(line for end in ends for line in end)
            raise StepFailedError(f"{why}\n\n{shown} ended with {ran.returncode}; its log is {log}")
        return ran.stdout


def failure(error: StepFailedError) -> str:
    """What to print for a failed step."""
    return f"[red]✗[/red] {escape(str(error))}"
