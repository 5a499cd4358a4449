"""``singerlake verify``: holds everything on storage against what the metadata says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from singerlake.cli.conditions import parse_where, undeclared_option
from singerlake.cli.engines import engine_options, reader
from singerlake.cli.journals import journal_option, left_out, part
from singerlake.cli.options import chosen_streams, json_option, quiet_option, stream_option, tap_option, with_lake
from singerlake.cli.output import counted, files, finding_json, progress, say, say_findings, say_json, shown, size
from singerlake.clock import IdSource
from singerlake.conditions import Condition
from singerlake.errors import LakeError, SettingError, SingerlakeError
from singerlake.format.metadata.root import RootMetadata
from singerlake.lake import Lake
from singerlake.upkeep.erase.declared import doubt
from singerlake.upkeep.erase.traces import find_traces
from singerlake.upkeep.expire.policy import odd_rules
from singerlake.upkeep.file_count import NONE, Tally
from singerlake.upkeep.root_copy import lost_root
from singerlake.upkeep.verify.findings import KINDS, Finding
from singerlake.upkeep.verify.journal import open_journal
from singerlake.upkeep.verify.sample import Sample, parse_sample
from singerlake.upkeep.verify.verify import (
    Verified,
    VerifyOptions,
    verify_catalogue,
    verify_identity,
    verify_metadata,
    verify_stream,
)


@click.command(short_help="Check every listed file's bytes, checksum, counts and schema.")
@partial(with_lake, damaged=True)
@tap_option
@stream_option
@json_option
@quiet_option
@click.option(
    "--ignore",
    multiple=True,
    metavar="KIND",
    type=click.Choice(KINDS),
    help="Leave findings of this kind out, such as unlisted; may be repeated.",
)
@engine_options
@click.option(
    "--sample",
    metavar="SHARE",
    help="Read, for example, 10% or 500 of each stream's files; check only presence and size of the others.",
)
@click.option(
    "--seed", metavar="TEXT", help="The seed of --sample: the same text draws the same files. Default: random."
)
@journal_option
@click.option(
    "--erased",
    metavar="CONDITION",
    help="Also look for records that 'singerlake erase --where CONDITION' means, in every object of the streams.",
)
@undeclared_option
@click.pass_context
def verify(
    ctx: click.Context,
    lake: Lake,
    tap: str | None,
    stream: str | None,
    as_json: bool,
    ignore: tuple[str, ...],
    threads: int,
    engine: str,
    sample: str | None,
    seed: str | None,
    journal: Path | None,
    erased: str | None,
    undeclared: bool,
) -> None:
    """Check every listed file's bytes, checksum, counts and schema, reading each file whole.

    Also reports files that no manifest lists, and metadata that cannot be read. Writes one line for each finding and
    exits with 1; notes need no action and do not count. Changes nothing in the lake.
    """
    drawn = _sample(sample, seed, lake.ids)
    condition = None if erased is None else parse_where(erased, "--erased")
    if undeclared and condition is None:
        raise SettingError("--undeclared is given without --erased", hint="give both")
    with ExitStack() as held:
        noted = held.enter_context(open_journal(journal, lake.storage.url)) if journal else None
        options = VerifyOptions(sample=drawn, journal=noted)
        reads = held.enter_context(reader(engine, lake, threads))
        pairs = chosen_streams(lake, tap, stream)
        if condition is not None and not undeclared:
            _check(condition, lake, pairs)
        findings = list(verify_metadata(lake.storage, tap))
        done: list[Verified] = []
        by_tap: dict[str, dict[str, Verified]] = {name: {} for name, _ in pairs}
        with progress() as start:
            for name, each in pairs:
                bar = start(f"{name}/{each}")
                checked = verify_stream(
                    lake.storage,
                    name,
                    each,
                    lake.stream(name, each).state,
                    options,
                    engine=reads,
                    progress=bar,
                )
                findings += checked.findings
                if condition is not None:
                    state = lake.stream(name, each).state
                    findings += find_traces(lake.storage, name, each, condition, reads, state)
                by_tap[name][each] = replace(checked, findings=())
                done.append(by_tap[name][each])
        metadata, missing = _root(lake)
        findings += odd_rules(metadata, by_tap, stream)
        for name, streams in by_tap.items():
            findings += verify_catalogue(lake.storage, name, streams)
            findings += verify_identity(metadata, name, streams)
            named = [each for each, checked in streams.items() if missing and checked.lake_id is not None]
            findings += [lost_root(name, each) for each in named[:1]]
    kept = [finding for finding in findings if finding.kind not in ignore]
    problems = sum(finding.problem for finding in kept)
    if as_json:
        say_json(_json(lake, done, kept, drawn))
    else:
        say_findings(kept)
        say(f"{_verdict(problems, kept)}: {_checked(done)}")
        for line in _left(done, drawn, journal):
            say(line)
    ctx.exit(1 if problems else 0)


def _check(condition: Condition, lake: Lake, pairs: list[tuple[str, str]]) -> None:
    """Raise what ``doubt`` gives, if the condition can hold in none of the streams. A stream whose state cannot be read
    is a finding of its own, and may hold anything."""
    first: SingerlakeError | None = None
    for tap, stream in pairs:
        try:
            state = lake.stream(tap, stream).state()
        except LakeError:
            return
        error = doubt(condition, state) if state is not None else None
        if error is None:
            return
        first = first or error
    if first is not None:
        raise first


def _root(lake: Lake) -> tuple[RootMetadata | None, bool]:
    """What root metadata or its copy says, and whether both are missing."""
    try:
        metadata = lake.root_metadata()
    except LakeError:
        # A finding of its own.
        return None, False
    return metadata, metadata is None


def _sample(text: str | None, seed: str | None, ids: IdSource) -> Sample | None:
    if text is None:
        if seed is not None:
            raise SettingError("--seed is given without --sample", hint="give both")
        return None
    return parse_sample(text, ids() if seed is None else seed)


def _checked(done: list[Verified]) -> str:
    listed = sum((Tally(each.files, each.bytes) for each in done), NONE)
    messages = sum(each.messages for each in done)
    attached = sum((each.attached for each in done), NONE)
    more = f", {files(attached, attached)}" if attached.files else ""
    return (
        f"{counted(len(done), 'stream')}, {counted(listed.files, 'file')}, {counted(messages, 'message')}, "
        f"{size(listed.bytes)}{more} checked"
    )


def _left(done: list[Verified], sample: Sample | None, journal: Path | None) -> Iterator[str]:
    """What was not read of what was checked, a line for each reason."""
    read = sum((each.read for each in done), NONE)
    noted = sum((each.noted for each in done), NONE)
    if sample:
        listed = sum((Tally(each.files, each.bytes) for each in done), NONE)
        drawn = part(read + noted, listed)
        yield f"  drawn by --seed {shown(sample.seed)}: {drawn}; of the others only presence and size"
    if journal:
        yield left_out(journal, noted, read)


def _json(lake: Lake, done: list[Verified], findings: list[Finding], sample: Sample | None) -> dict[str, Any]:
    return {
        "lake": lake.storage.url,
        "streams": len(done),
        "files": sum(each.files for each in done),
        "messages": sum(each.messages for each in done),
        "bytes": sum(each.bytes for each in done),
        "attached": asdict(sum((each.attached for each in done), NONE)),
        "read": asdict(sum((each.read for each in done), NONE)),
        "noted": asdict(sum((each.noted for each in done), NONE)),
        "seed": sample.seed if sample else None,
        "findings": [finding_json(finding) for finding in findings],
    }


def _verdict(problems: int, findings: list[Finding]) -> str:
    if problems:
        return counted(problems, "finding")
    return f"sound, {counted(len(findings), 'note')}" if findings else "sound"
