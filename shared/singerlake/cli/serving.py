"""What commands share that answer over HTTP until a signal ends them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import click

from singerlake.cli.exit_codes import ends_by_signal
from singerlake.cli.options import quiet_option
from singerlake.cli.output import lake_named, say
from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.tables.maintain.check import prometheus


def serving_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that ``serve`` takes, and --quiet."""
    options = (
        click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at."),
        click.option(
            "--port", type=click.IntRange(0, 65535), default=8181, show_default=True, help="The port; 0: a free one."
        ),
        click.option(
            "--token-file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Answer only who sends the text of this file, as a bearer token or as a password.",
        ),
        quiet_option,
    )
    return reduce(lambda made, option: option(made), reversed(options), function)


def serve(
    lake: Lake,
    what: str,
    shows: str,
    host: str,
    port: int,
    token_file: Path | None,
    site: Callable[[], Callable[[str], bytes | None]] | None = None,
) -> None:
    """Serve the catalog of a lake, and the files of its ``site`` beside it. ``what`` it is called, and what it
    ``shows`` to everybody without a token."""
    try:
        from singerlake.catalog.serve import is_own
        from singerlake.catalog.serve import serve as answer
    except ImportError as error:
        raise SettingError(
            "serving needs starlette and uvicorn", hint="run: pip install 'singerlake[serve]'"
        ) from error
    token = None if token_file is None else _token(token_file)
    files = None if site is None else site()
    if token is None and not is_own(host):
        click.echo(f"note: all that reach this address can read {shows}; --token-file asks for a token", err=True)
    ends_by_signal()

    def ready(url: str) -> None:
        say(f"{lake_named(lake.storage.url)}: {what} at {url}")
        sys.stdout.flush()

    answer(lake.storage, host, port, token, ready, files, lambda: prometheus(lake.check()))


def _token(file: Path) -> str:
    try:
        text = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError("the token file cannot be read", hint="give a text file", file=str(file)) from error
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise SettingError(
            "the token file does not hold a token",
            hint="write printable ASCII without spaces",
            file=str(file),
        )
    return text
