"""``singerlake catalog serve``: the Iceberg REST catalog of a lake."""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path

import click

from singerlake.cli.exit_codes import ends_by_signal
from singerlake.cli.help import command, examples
from singerlake.cli.options import quiet_option, with_lake
from singerlake.cli.output import lake_named, say
from singerlake.errors import SettingError
from singerlake.lake import Lake


@examples("singerlake catalog serve lake", "singerlake catalog serve lake --host 0.0.0.0 --token-file token")
@command("Serve the lake's Iceberg tables as a REST catalog, read-only.")
@with_lake
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=8181, show_default=True, help="The port; 0: a free one.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Answer only who sends the text of this file as a bearer token.",
)
@quiet_option
def serve(lake: Lake, host: str, port: int, token_file: Path | None) -> None:
    """Serve the lake's Iceberg tables as a REST catalog, read-only, until a signal ends it.

    The tables are those that say 'also: iceberg', in the namespace 'published'. The catalog keeps nothing, so any
    number of processes may serve one lake. Engines read the files themselves, with their own credentials. It speaks
    HTTP: put a proxy with TLS before it where others reach it.
    """
    try:
        from singerlake.catalog.serve import serve as answer
    except ImportError as error:
        raise SettingError(
            "a catalog needs starlette and uvicorn", hint="run: pip install 'singerlake[serve]'"
        ) from error
    token = None if token_file is None else _token(token_file)
    if token is None and not _is_own(host):
        click.echo("note: all that reach this address can read schemas; --token-file asks for a token", err=True)
    ends_by_signal()

    def ready(url: str) -> None:
        say(f"{lake_named(lake.storage.url)}: Iceberg REST catalog at {url}")
        sys.stdout.flush()

    answer(lake.storage, host, port, token, ready)


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


def _is_own(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
