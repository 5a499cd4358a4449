"""What all commands share: the lake they are about, how to reach it, and JSON instead of text."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import click

from singerlake.cli import completion
from singerlake.cli.exit_codes import changes_nothing
from singerlake.cli.help import SettingOption
from singerlake.cli.lakes import NO_LAKE, VARIABLE, find_lake
from singerlake.cli.output import is_asked, note, say
from singerlake.errors import LakeError, NotALakeError, SettingError
from singerlake.format import layout
from singerlake.format.metadata.retention import age_of
from singerlake.humanize import shown
from singerlake.lake import Lake
from singerlake.settings import STORAGE_SETTINGS, STORE_SETTINGS, storage_settings, store_settings
from singerlake.upkeep.defaults import GRACE
from singerlake.work.parallel import THREADS

_LEAST_INTERVAL = timedelta(seconds=1)
PREFIX = "SINGERLAKE"
"""Of environment variables: ``SINGERLAKE_LAKE_ROOT``, ``SINGERLAKE_S3_ENDPOINT_URL``, ... as Meltano sets them."""

_SETTINGS = {**STORAGE_SETTINGS, **STORE_SETTINGS}

Command = TypeVar("Command", bound=Callable[..., Any])


def with_lake(
    command: Callable[..., Any],
    *,
    damaged: bool = False,
    absent: bool = False,
    stores: bool = False,
    names: Names | None = None,
) -> Callable[..., Any]:
    """Give a command the argument LAKE and the settings of storage, and call it with the ``Lake`` that ``find_lake``
    finds. What it returns is the exit code. Options that it only gives on to a method of ``Lake``, by the names of its
    parameters, it may take as ``asked``. ``damaged``: also where the root metadata cannot be read, which is then the
    command's to report. ``absent``: also where there is none yet. ``stores``: the settings of manifest stores are
    options too; in the environment they are always looked for. ``names``: arguments that come after LAKE, or alone
    where LAKE is left out.

    Secrets are taken from the environment alone: a command line can be read by every process of the machine.
    """

    @functools.wraps(command)
    def opened(words: tuple[str, ...] | str | None, **arguments: Any) -> Any:
        given = words if isinstance(words, tuple) else () if words is None else (words,)
        meant = find_lake(given, takes_names=names is not None)
        if names is not None:
            arguments |= names.arguments(meant.names)
        config = settings_in(arguments)
        lake = Lake.open(meant.root, storage_settings(config), store_settings(config))
        try:
            if not absent:
                lake.require()
        except NotALakeError:
            if names is None or meant.names or os.path.exists(meant.root) or "://" in meant.root:
                raise
            # The one word may be what comes after LAKE.
            raise click.UsageError(f"'{shown(meant.root)}' is not a lake, and {NO_LAKE}") from None
        except LakeError:
            if not damaged:
                raise
        return command(lake, **arguments)

    wrapped = with_settings(opened, stores=stores)
    if names is not None:
        complete = completion.tables if names.many == "tables" or "table" in names.singles else None
        metavar = f"[LAKE] {names.metavar}"
        return click.argument("words", metavar=metavar, nargs=-1, shell_complete=complete)(wrapped)
    return click.argument("words", metavar="[LAKE]", required=False)(wrapped)


@dataclass(frozen=True)
class Names:
    """What follows LAKE: one argument for each of ``singles``, which may be left out if ``optional``; or ``many``."""

    singles: tuple[str, ...] = ()
    optional: bool = False
    many: str = ""

    @property
    def metavar(self) -> str:
        """As the usage shows them."""
        if self.many:
            return f"[{self.many.upper()}]..." if self.optional else f"{self.many.upper()}..."
        return " ".join(f"[{each}]" if self.optional else each for each in self.singles).upper()

    def arguments(self, given: Sequence[str]) -> dict[str, Any]:
        """The arguments by name. Raises ``UsageError`` where there are too few or too many."""
        if self.many and (given or self.optional):
            return {self.many: tuple(given)}
        if not self.many and (len(given) == len(self.singles) or (self.optional and not given)):
            return dict.fromkeys(self.singles) | dict(zip(self.singles, given, strict=False))
        what = self.many.upper() if self.many else " and ".join(each.upper() for each in self.singles)
        few = "no more than " if len(given) > len(self.singles) and not self.many else ""
        raise click.UsageError(f"give {few}{what}, behind LAKE where ${VARIABLE} is not set")


def with_settings(command: Callable[..., Any], *, stores: bool = False) -> Callable[..., Any]:
    """Give a command the settings that are not secrets as options; ``settings_in`` takes them out of its arguments.
    ``stores``: those of manifest stores, too."""
    for name, kind in reversed((_SETTINGS if stores else STORAGE_SETTINGS).items()):
        if not kind.get("secret"):
            about = "Storage options" if name in STORAGE_SETTINGS else "Manifest store options"
            command = _setting(name, kind, about)(command)
    return command


def settings_in(arguments: dict[str, Any]) -> dict[str, Any]:
    """The settings of a command's options, taken out of its arguments, and all others as the environment has them."""
    config = {name: _in_environment(name, kind) for name, kind in _SETTINGS.items() if name not in arguments}
    return config | {name: arguments.pop(name) for name in _SETTINGS if name in arguments}


def _in_environment(name: str, kind: dict[str, Any]) -> Any:
    text = os.environ.get(variable(name))
    if not text or "integer" not in kind["type"]:
        return text
    try:
        return _integer(kind)(text)
    except click.BadParameter as error:
        raise SettingError(f"${variable(name)}: {error.message}".lower(), hint="set it to a number") from None


def _integer(kind: dict[str, Any]) -> click.IntRange:
    return click.IntRange(kind.get("minimum"), kind.get("maximum"))


def variable(setting: str) -> str:
    """The environment variable of a setting."""
    return f"{PREFIX}_{setting.upper()}"


def _setting(name: str, kind: dict[str, Any], about: str) -> Callable[[Command], Command]:
    names = ["--" + name.replace("_", "-")]
    if name.startswith(("aws_", "s3_")):
        names.append("--" + name.partition("_")[2].replace("_", "-"))
    shape: dict[str, Any] = {"metavar": "TEXT"}
    if "boolean" in kind["type"]:
        shape = {"is_flag": True, "default": None}
    elif "integer" in kind["type"]:
        shape = {"type": _integer(kind), "metavar": "N"}
    return click.option(
        *names, name, cls=SettingOption, about=about, envvar=variable(name), help=kind["description"], **shape
    )


def tap_named(does: str, *, metavar: str = "GLOB", required: bool = False) -> Callable[[Command], Command]:
    """``--tap``; ``does`` is its help."""
    return click.option("--tap", metavar=metavar, required=required, shell_complete=completion.taps, help=does)


def stream_named(does: str) -> Callable[[Command], Command]:
    """``--stream``; ``does`` is its help."""
    return click.option("--stream", metavar="GLOB", shell_complete=completion.streams, help=does)


tap_option = tap_named("Only this tap, or those that a pattern such as 'pg_*' matches.")
stream_option = stream_named("Only streams of this name, or those that a pattern such as 'log_*' matches.")
_one_tap_option = tap_named("The tap. Not needed where the lake has one stream.")
_one_stream_option = stream_named("The stream. Not needed where the lake, or the tap, has one.")


def streams_options(command: Command) -> Command:
    """``--tap`` and ``--stream`` of a command about any number of streams."""
    return tap_option(stream_option(command))


def one_stream_options(command: Command) -> Command:
    """``--tap`` and ``--stream`` of a command about one stream."""
    return _one_tap_option(_one_stream_option(command))


quiet_option = click.option(
    "--quiet",
    "-q",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=note,
    help="Print only problems; show no progress.",
)
_note_option = click.option(
    "--quiet", "-q", is_flag=True, expose_value=False, is_eager=True, callback=note, help="Print no notes."
)
_json_option = click.option(
    "--json", is_flag=True, expose_value=False, callback=note, help="Write JSON to standard output, errors included."
)


def result_options(command: Command) -> Command:
    """``--json`` and ``--quiet``."""
    return _json_option(quiet_option(command))


def data_options(command: Command) -> Command:
    """The same of a command that prints data of the lake, which is never left out."""
    return _json_option(_note_option(command))


at_option = click.option("--at", metavar="TIME", help="The moment, as 2026-03-01T00:00Z; UTC where it names no zone.")
"""``--at`` of a command about the past; the other way to name when is ``commit_option``."""


def _commit(text: str) -> str:
    if layout.commit_name_in(f"{text}.json") is None:
        raise click.BadParameter(f"{text!r} is not the name of a commit; 'singerlake ls --commits' lists them")
    return text


commit_option = click.option(
    "--commit", type=_commit, metavar="NAME", help="Instead: after this atomic run, as ls --commits lists them."
)


def threads_option(does: str) -> Callable[[Command], Command]:
    """``--threads``; ``does`` is its help."""
    return click.option("--threads", type=click.IntRange(1, 64), default=THREADS, show_default=True, help=does)


def shows_first(flag: str, does: str, *, now: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a command show what it would do, and do it with ``flag`` or ``--yes``: it is called with ``dry_run``.
    ``does`` begins the help of the flag. ``now`` is the help of ``--now``, which goes with the flag alone."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def chosen(*given: Any, act: bool, asked: bool, **arguments: Any) -> Any:
            if act and asked:
                raise click.UsageError(f"{flag} and --dry-run exclude each other")
            if arguments.get("now") and not act:
                raise click.UsageError(f"--now needs {flag}")
            if not act:
                changes_nothing()
            result = command(*given, dry_run=not act, **arguments)
            if not act and not is_asked("json"):
                say(f"dry run: nothing changed; {flag} does it")
            return result

        made = click.option("--now", is_flag=True, help=now)(chosen) if now else chosen
        made = click.option("--dry-run", "asked", is_flag=True, help="Only show what would be done, as without it.")(
            made
        )
        names = dict.fromkeys((flag, "--yes"))
        return click.option(*names, "act", is_flag=True, help=f"{does}; otherwise only show what would be done.")(made)

    return decorate


DELETE_NOW = "With --delete: delete the files at once. Readers that still read them fail."


def follow_options(*flags: str, does: str, every: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a command take ``--follow`` and ``--every``, as one number of seconds; None: it is to end by itself. ``does``
    is the help of ``--follow``, and ``every`` the time by default."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def chosen(*given: Any, follow: bool, interval: timedelta | None, **arguments: Any) -> Any:
            if interval is not None and not follow:
                raise click.UsageError("--every is for --follow")
            if interval is not None and interval < _LEAST_INTERVAL:
                raise click.UsageError("--every is 1s at least")
            seconds = (interval or duration(every)).total_seconds() if follow else None
            return command(*given, follow=seconds, **arguments)

        text = f"How often --follow looks for what is new. Default: {every}."
        made = click.option("--every", "interval", type=duration, metavar="TIME", help=text)(chosen)
        return click.option(*flags, "follow", is_flag=True, help=does)(made)

    return decorate


undeclared_option = click.option(
    "--undeclared",
    is_flag=True,
    help="Take a condition on a property that no version declares, or on values of another type than declared.",
)


def duration(text: str) -> timedelta:
    """``90s``, ``30m``, ``12h``, ``7d``."""
    try:
        return age_of(text, "duration")
    except SettingError as error:
        raise click.BadParameter(f"{error.message}; write 90s, 30m, 12h or 7d") from None


_SIZE = re.compile(r"(\d{1,18})\s*(|k|M|G|T)B?", re.ASCII | re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def size_within(least: int, most: int) -> Callable[[str], int]:
    """Reads bytes as commands write them, ``10MB`` or ``10000000``, in powers of 1,000."""

    def size(text: str) -> int:
        found = _SIZE.fullmatch(text.strip())
        count = int(found[1]) * 1000 ** _POWERS[found[2].lower()] if found else -1
        if not least <= count <= most:
            raise click.BadParameter(f"{text!r} is not a size from {least:,} to {most:,} bytes; write 10000000 or 10MB")
        return count

    return size


def grace_option(does: str) -> Callable[[Command], Command]:
    """``--grace``; ``does`` is its help."""
    return click.option(
        "--grace", type=duration, default=f"{GRACE.days}d", show_default=True, metavar="TIME", help=does
    )
