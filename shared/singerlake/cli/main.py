"""``singerlake``: looks at a lake, checks it and repairs it."""

from __future__ import annotations

import errno
import importlib
import importlib.metadata
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

import click

from singerlake.cli.exit_codes import CHANGES_NOTHING, ENDS_BY_SIGNAL, FAILED, exit_code
from singerlake.cli.help import ByTask
from singerlake.errors import SingerlakeError
from singerlake.interpreter.process import collector_paused

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes: 128 and the number of the signal, as shells have them."""
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


_TASKS: Mapping[str, tuple[str, ...]] = {
    "Look at a lake": ("ls", "status", "versions", "diff", "compare", "tail", "sql", "why", "export", "docs", "serve"),
    "Bring in and describe": ("put", "release", "annotate", "commit-worker"),
    "Make tables": ("project", "catalog"),
    "Check and repair": ("check", "doctor", "verify", "rebuild", "lock"),
    "Save space and time": ("vacuum", "gc", "policy", "expire"),
    "Remove": ("erase", "drop"),
    "Set up": ("init", "store"),
}
"""What the commands are for, in the order in which help lists them."""

_SYNONYMS = {
    **dict.fromkeys(("compact", "optimize", "merge"), "vacuum"),
    **dict.fromkeys(("delete", "forget"), "erase"),
    **dict.fromkeys(("rm", "remove"), "drop"),
    **dict.fromkeys(("list", "show", "streams", "taps"), "ls"),
    **dict.fromkeys(("run", "build"), "project run"),
    **dict.fromkeys(("repair", "restore"), "rebuild"),
    **dict.fromkeys(("select", "query"), "sql"),
    **dict.fromkeys(("trace", "explain", "blame"), "why"),
    **dict.fromkeys(("diagnose", "debug", "ping", "test"), "doctor"),
    **dict.fromkeys(("quarantine", "replay-quarantine", "requeue"), "release"),
    "tables": "project ls",
    "site": "docs build",
    "help": "--help",
}
_FOLDERS: Mapping[str, tuple[str, ...]] = {
    "reading": (
        "ls",
        "status",
        "check",
        "versions",
        "diff",
        "compare",
        "tail",
        "sql",
        "why",
        "export",
        "docs",
        "serve",
    ),
    "writing": ("init", "put", "release", "annotate", "commit-worker"),
    "upkeep": ("doctor", "verify", "rebuild", "vacuum", "gc", "lock"),
    "removing": ("erase", "drop", "expire", "policy"),
    "": ("store", "project", "catalog"),
}
"""The commands whose modules are in each folder below ``commands``. Those with subcommands have one of their own."""


class _Commands(ByTask):
    """Commands that return their exit codes, None for 0, and whose foreseen errors are one line on standard error, and
    an interruption, too. Each is imported when it is asked for: all of them take as long as a small lake to look at."""

    tasks = _TASKS
    synonyms = _SYNONYMS

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in _TASKS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        folder = next((each for each, names in _FOLDERS.items() if cmd_name in names), None)
        if folder is None:
            return None
        path = ("singerlake", "cli", "commands", folder, cmd_name.replace("-", "_"))
        with collector_paused():
            module = importlib.import_module(".".join(filter(None, path)))
        return next(each for each in vars(module).values() if isinstance(each, click.Command) and each.name == cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        given = [*ctx.args]
        try:
            with terminable():
                ctx.exit(super().invoke(ctx) or 0)
        except KeyboardInterrupt as interruption:
            if not ctx.meta.get(ENDS_BY_SIGNAL):
                left = (
                    "nothing was changed"
                    if ctx.meta.get(CHANGES_NOTHING)
                    else "what was done so far stays: run it again"
                )
                click.echo(f"interrupted; {left}", err=True)
            ctx.exit(TERMINATED if isinstance(interruption, Terminated) else INTERRUPTED)
        except click.UsageError as error:
            if "--json" in given:
                import json

                told = {"kind": "usage", "message": error.format_message(), "hint": "", "context": {}}
                click.echo(json.dumps({"error": told}, indent=2))
            raise
        except OSError as error:
            if error.errno not in _UNWRITABLE:
                raise
            # What is left of the output would be tried again at the very end, and fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            click.echo(f"error: the output cannot be written: {(error.strerror or '').lower()}", err=True)
            ctx.exit(FAILED)
        except SingerlakeError as error:
            if ctx.params.get("debug"):
                raise
            # A command that failed has loaded it; help and the version do without.
            from singerlake.cli.output import say_error

            say_error(error)
            ctx.exit(exit_code([error]))


class Terminated(KeyboardInterrupt):
    """SIGTERM came, as from a scheduler that stops a job."""


@contextmanager
def terminable() -> Iterator[None]:
    """Have SIGTERM end the block as Ctrl-C does, with ``Terminated``. Python takes signals on the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    # A second signal must not stop the cleanup that the first one began.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated


def _version() -> str:
    try:
        return importlib.metadata.version("singerlake")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="singerlake")
@click.option("--debug", is_flag=True, help="Show where in the program an error came from.")
def main(debug: bool) -> None:
    """Look after a Singerlake. LAKE is a path, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix. Left
    out, it is $SINGERLAKE_LAKE_ROOT, or what a projections.yml here names.

    Every option of a command about storage can be set in the environment too, as SINGERLAKE_S3_ENDPOINT_URL and so on;
    secrets only there. Exit codes: 0 all is well, 1 something was found or went wrong, 2 wrong usage or settings,
    130 and 143 it was interrupted (SIGINT, SIGTERM).

    Beside it, target-singerlake captures what a tap sends, and tap-singerlake replays a lake into any target, as one
    that writes CSV. A lake is copied by copying its folder.

    In bash, eval "$(_SINGERLAKE_COMPLETE=bash_source singerlake)" completes commands, taps, streams and tables; zsh and
    fish have zsh_source and fish_source.
    """
    # A reader that closed one of them expects nothing there.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, format="%(levelname)s: %(message)s")
    logging.getLogger("botocore").setLevel(logging.WARNING)
