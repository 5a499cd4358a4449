"""What all commands share: the lake they are about, how to reach it, and JSON instead of text."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import click

from singerlake.cli.output import be_quiet, write_json
from singerlake.errors import LakeError, SettingError
from singerlake.format.metadata.retention import age_of
from singerlake.lake import Lake
from singerlake.settings import STORAGE_SETTINGS, STORE_SETTINGS, storage_settings, store_settings

PREFIX = "SINGERLAKE"
"""Of environment variables: ``SINGERLAKE_LAKE_ROOT``, ``SINGERLAKE_S3_ENDPOINT_URL``, ... as Meltano sets them."""

_SETTINGS = {**STORAGE_SETTINGS, **STORE_SETTINGS}

Command = TypeVar("Command", bound=Callable[..., Any])


def with_lake(
    command: Callable[..., Any], *, damaged: bool = False, stores: bool = False, words: Sequence[str] = ()
) -> Callable[..., Any]:
    """Give a command the argument LAKE and the settings of S3, and call it with the ``Lake`` they name, which is one.
    ``damaged``: also where its root metadata cannot be read, which is then the command's to report. ``stores``: the
    settings of manifest stores are options too; in the environment they are always looked for. ``words``: arguments
    that come after LAKE, or alone where LAKE is left out.

    Secrets are taken from the environment alone: a command line can be read by every process of the machine.
    """

    @functools.wraps(command)
    def opened(lake_root: Any, **arguments: Any) -> Any:
        if words:
            lake_root, named = _split(lake_root, words)
            arguments |= named
        # With gc's --batches neither of them goes, which gc says.
        of_no_tap = arguments.get("stream") is not None and arguments.get("tap", "") is None
        if of_no_tap and not arguments.get("batches"):
            raise click.UsageError("--stream needs --tap")
        if lake_root is None:
            raise click.UsageError(f"no lake is named; give LAKE, or set ${variable('lake_root')}")
        config = settings_in(arguments)
        lake = Lake.open(lake_root, storage_settings(config), store_settings(config))
        try:
            lake.require()
        except LakeError:
            if not damaged:
                raise
        return command(lake, **arguments)

    wrapped = with_settings(opened, stores=stores)
    if words:
        return click.argument("lake_root", metavar=" ".join(("[LAKE]", *words)).upper(), nargs=-1)(wrapped)
    return click.argument("lake_root", metavar="LAKE", required=False, envvar=variable("lake_root"))(wrapped)


def _split(given: Sequence[str], words: Sequence[str]) -> tuple[str | None, dict[str, str]]:
    """What was given as LAKE and ``words``, LAKE being the environment's where it was left out."""
    if not len(words) <= len(given) <= len(words) + 1:
        raise click.UsageError(f"give {' and '.join(words)}, behind LAKE where ${variable('lake_root')} is not set")
    root = given[0] if len(given) > len(words) else os.environ.get(variable("lake_root"))
    return root or None, dict(zip(words, given[-len(words) :], strict=True))


def with_settings(command: Callable[..., Any], *, stores: bool) -> Callable[..., Any]:
    """Give a command the settings that are no secrets as options; ``settings_in`` takes them out of its arguments.
    ``stores``: those of manifest stores, too."""
    for name, kind in reversed((_SETTINGS if stores else STORAGE_SETTINGS).items()):
        if not kind.get("secret"):
            command = _setting(name, kind)(command)
    return command


def settings_in(arguments: dict[str, Any]) -> dict[str, Any]:
    """The settings of a command's options, which are taken out of its arguments, and for all others those of the
    environment."""
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


def _setting(name: str, kind: dict[str, Any]) -> Callable[[Command], Command]:
    names = ["--" + name.replace("_", "-")]
    if name.startswith(("aws_", "s3_")):
        names.append("--" + name.partition("_")[2].replace("_", "-"))
    shape: dict[str, Any] = {"metavar": "TEXT"}
    if "boolean" in kind["type"]:
        shape = {"is_flag": True, "default": None}
    elif "integer" in kind["type"]:
        shape = {"type": _integer(kind), "metavar": "N"}
    return click.option(*names, name, envvar=variable(name), help=kind["description"], **shape)


tap_option = click.option("--tap", metavar="TAP", help="Only this tap.")
stream_option = click.option("--stream", metavar="STREAM", help="Only this stream; needs --tap.")
quiet_option = click.option(
    "--quiet",
    "-q",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=be_quiet,
    help="Print only problems; show no progress.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, callback=write_json, help="Write JSON to standard output, errors included."
)
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
