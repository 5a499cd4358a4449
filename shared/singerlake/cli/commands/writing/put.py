"""``singerlake put``: keeps files without a tap."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from singerlake.cli.help import command, examples
from singerlake.cli.options import Names, result_options, threads_option, with_lake
from singerlake.cli.output import counted, name_of, progress, say, show, size
from singerlake.errors import SingerlakeError
from singerlake.lake import Lake
from singerlake.upkeep.put import PutResult


@examples(
    "singerlake put lake a.pdf b.pdf --tap office --stream scans",
    "singerlake put lake photos --recursive --tap office --stream photos",
)
@command("Keep files without a tap: a record for each, and its bytes.")
@partial(with_lake, absent=True, stores=True, names=Names(many="files"))
@click.option("--tap", metavar="TAP", required=True, help="The tap id under which the lake keeps the stream.")
@click.option("--stream", metavar="STREAM", required=True, help="The stream that gets the records.")
@click.option("--recursive", is_flag=True, help="Take folders, too: all files below them.")
@click.option("--spool-dir", metavar="FOLDER", help="Where copies of files above 4 MB lie until they are uploaded.")
@threads_option("Files put at once.")
@result_options
def put(lake: Lake, files: tuple[str, ...], tap: str, stream: str, **asked: Any) -> None:
    """Keep files of this machine: a record for each in a stream, with the file attached to it.

    A record has the file's name, bytes, sha256, media_type and modified, in the order in which the files are named. A
    file in a folder is called by its path below it. The same content is kept once, and has a record each time. Nothing
    is written if one of FILES is not there, is not a regular file, or has a name that is not UTF-8. Up to 10,000
    records are committed at once; what was committed before an error stays. LAKE is made if nothing is there.
    """
    try:
        with progress() as report:
            done = lake.stream(tap, stream).put(files, progress=report, **asked)
    except SingerlakeError as error:
        error.rename("spool_dir", "--spool-dir")
        error.rename("recursive", "--recursive")
        raise
    show(done, lambda done: say(f"{name_of(done)}: {_told(done)}"))


def _told(done: PutResult) -> str:
    if not done.records:
        return "nothing to put"
    known = done.records - done.new_files
    were = f"; {known:,} there already" if known else ""
    return f"{counted(done.records, 'file')} put, {size(done.bytes)}{were}"
