"""``singerlake put``: keeps files without a tap."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from singerlake.cli.options import json_option, quiet_option, settings_in, variable, with_settings
from singerlake.cli.output import counted, progress, say, say_json, shown, size
from singerlake.errors import SingerlakeError
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.settings import storage_settings, store_settings
from singerlake.upkeep.put import PutResult
from singerlake.work.parallel import THREADS


@click.command(short_help="Keep files without a tap: a record for each, and its bytes.")
@partial(with_settings, stores=True)
@click.argument("given", metavar="[LAKE] FILES...", nargs=-1)
@click.option("--tap", metavar="TAP", required=True, help="The tap id under which the lake keeps the stream.")
@click.option("--stream", metavar="STREAM", required=True, help="The stream that gets the records.")
@click.option("--recursive", is_flag=True, help="Take folders, too: all files below them.")
@click.option("--spool-dir", metavar="FOLDER", help="Where copies of files above 4 MB lie until they are uploaded.")
@click.option("--threads", type=click.IntRange(1, 64), default=THREADS, show_default=True, help="Files put at once.")
@json_option
@quiet_option
def put(
    given: tuple[str, ...],
    tap: str,
    stream: str,
    recursive: bool,
    spool_dir: str | None,
    threads: int,
    as_json: bool,
    **settings: Any,
) -> None:
    """Keep files of this machine: a record for each in a stream, with the file attached to it.

    A record has the file's name, bytes, sha256, media_type and modified, in the order in which the files are named. A
    file in a folder is called by its path below it. The same content is kept once, and has a record each time. Nothing
    is written if one of FILES is not there, is no regular file, or has a name that is not UTF-8. Up to 10,000 records
    are committed at once; what was committed before an error stays. LAKE is made if nothing is there. Where
    $SINGERLAKE_LAKE_ROOT is set, LAKE can be left out.
    """
    root, files = _lake_and_files(given)
    config = settings_in(settings)
    lake = Lake.open(root, storage_settings(config), store_settings(config))
    try:
        with progress() as report:
            done = lake.stream(tap, stream).put(
                files, recursive=recursive, spool_dir=spool_dir, threads=threads, progress=report
            )
    except SingerlakeError as error:
        error.rename("spool_dir", "--spool-dir")
        error.rename("recursive", "--recursive")
        raise
    if as_json:
        say_json(done)
    else:
        say(_told(done))


def _told(done: PutResult) -> str:
    """What the run did, on one line."""
    name = f"{shown(done.tap)}/{shown(done.stream)}"
    if not done.records:
        return f"{name}: nothing to put"
    known = done.records - done.new_files
    were = f"; {known:,} there already" if known else ""
    return f"{name}: {counted(done.records, 'file')} put, {size(done.bytes)}{were}"


def _lake_and_files(given: Sequence[str]) -> tuple[str, Sequence[str]]:
    """LAKE and FILES. With the variable set, the first argument is LAKE only where no file can be meant: a URL, or a
    folder that is a lake. That one has a folder ``raw`` does not make it one: cameras make such folders, too."""
    root = os.environ.get(variable("lake_root"))
    if root and given and not ("://" in given[0] or os.path.isfile(os.path.join(given[0], layout.root_metadata_key()))):
        return root, given
    if len(given) < 2:
        raise click.UsageError(f"give FILES, behind LAKE where ${variable('lake_root')} is not set")
    return given[0], given[1:]
