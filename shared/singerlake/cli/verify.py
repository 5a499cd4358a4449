"""``singerlake verify``: holds everything on storage against what the metadata says."""

from __future__ import annotations

from functools import partial

import click

from singerlake.cli.options import chosen_streams, json_option, stream_option, tap_option, with_lake
from singerlake.cli.output import counted, finding_json, progress, say, say_findings, say_json, size
from singerlake.lake import Lake
from singerlake.maintenance.findings import KINDS, Finding
from singerlake.maintenance.rebuild import THREADS
from singerlake.maintenance.verify import verify_metadata, verify_stream


@click.command(short_help="Check every listed file's bytes, checksum, counts and schema.")
@partial(with_lake, damaged=True)
@tap_option
@stream_option
@json_option
@click.option(
    "--ignore",
    multiple=True,
    metavar="KIND",
    type=click.Choice(KINDS),
    help="Leave findings of this kind out, such as unlisted; may be repeated.",
)
@click.option("--threads", type=click.IntRange(1, 64), default=THREADS, show_default=True, help="Files read at once.")
@click.pass_context
def verify(
    ctx: click.Context,
    lake: Lake,
    tap: str | None,
    stream: str | None,
    as_json: bool,
    ignore: tuple[str, ...],
    threads: int,
) -> None:
    """Check every listed file's bytes, checksum, counts and schema, reading each file whole.

    Reports files that no manifest lists and metadata that cannot be read, too. Writes one line for each finding and
    exits with 1; notes need nothing done and do not count. Changes nothing.
    """
    pairs = chosen_streams(lake, tap, stream)
    findings = list(verify_metadata(lake.storage, tap))
    files = messages = stored = 0
    with progress() as start:
        for name, each in pairs:
            bar = start(f"{name}/{each}")
            checked = verify_stream(
                lake.storage,
                name,
                each,
                lake.stream(name, each).state,
                threads=threads,
                sized=bar.sized,
                progress=bar.advance,
            )
            findings += checked.findings
            files, messages, stored = files + checked.files, messages + checked.messages, stored + checked.bytes
    kept = [finding for finding in findings if finding.kind not in ignore]
    problems = sum(finding.problem for finding in kept)
    if as_json:
        say_json(
            {
                "lake": lake.storage.url,
                "streams": len(pairs),
                "files": files,
                "messages": messages,
                "bytes": stored,
                "findings": [finding_json(finding) for finding in kept],
            }
        )
    else:
        say_findings(kept)
        read = (
            f"{counted(len(pairs), 'stream')}, {counted(files, 'file')}, {counted(messages, 'message')}, {size(stored)}"
        )
        say(f"{_verdict(problems, kept)}: {read} checked")
    ctx.exit(1 if problems else 0)


def _verdict(problems: int, findings: list[Finding]) -> str:
    if problems:
        return counted(problems, "finding")
    return f"sound, {counted(len(findings), 'note')}" if findings else "sound"
