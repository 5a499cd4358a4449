"""``singerlake diff``: what changed between two schema versions of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import click

from singerlake.cli.options import json_option, stream_option, tap_option, with_lake
from singerlake.cli.output import counted, say, say_json, shown
from singerlake.errors import SettingError
from singerlake.format.state import selection
from singerlake.format.state.model import Manifest
from singerlake.lake import Lake
from singerlake.upkeep.reports.schema_diff import SchemaDiff, compare


@click.command(short_help="Compare two schema versions of a stream: can readers of the first read the second?")
@partial(with_lake, words=("first", "second"))
@tap_option
@stream_option
@json_option
@click.pass_context
def diff(
    ctx: click.Context, lake: Lake, first: str, second: str, tap: str | None, stream: str | None, as_json: bool
) -> None:
    """Compare two schema versions of a stream: FIRST and SECOND are labels (v1), hashes or their path segments.

    Exits with 1 if the second is not compatible with the first: if a property is gone or holds values that it did not
    hold before, or if the keys changed. --tap and --stream may be left out if the lake has only one stream.
    """
    pairs = lake.chosen(tap, stream)
    if len(pairs) != 1:
        raise SettingError(
            f"diff compares versions of one stream, and {counted(len(pairs), 'stream')} match",
            hint="give --tap and --stream",
        )
    manifest = lake.stream(*pairs[0]).snapshot()
    before, after = (selection.resolve_version(manifest, text) for text in (first, second))
    difference = compare(*(selection.schema_of(manifest, version) for version in (before, after)))
    if as_json:
        say_json(_json(lake, manifest, before, after, difference))
    else:
        for line in _lines(difference):
            say(shown(line))
        say(shown(_summary(manifest, before, after, difference)))
    ctx.exit(0 if difference.compatible else 1)


def _lines(difference: SchemaDiff) -> Iterator[str]:
    every = [*difference.added, *difference.removed, *(change.before for change in difference.changed)]
    width = max((len(each.path) for each in every), default=0)
    for each in difference.added:
        yield f"+ {each.path:{width}}  {each.full_type}"
    for each in difference.removed:
        yield f"- {each.path:{width}}  {each.full_type}"
    for change in difference.changed:
        mark = "~" if change.compatible else "!"
        types = " -> ".join(dict.fromkeys((change.before.full_type, change.after.full_type)))
        yield f"{mark} {change.before.path:{width}}  {types}: {', '.join(change.how)}"
    for pair in difference.renamed:
        yield f"? {pair.before} -> {pair.after}: looks renamed"
    if difference.keys is not None:
        before, after = (", ".join(keys) or "none" for keys in difference.keys)
        yield f"! keys: {before} -> {after}"


def _summary(manifest: Manifest, before: str, after: str, difference: SchemaDiff) -> str:
    counts = [
        (len(difference.added), "added"),
        (len(difference.removed), "removed"),
        (len(difference.changed), "changed"),
    ]
    said = ", ".join(f"{count} {what}" for count, what in counts if count) or "no property differs"
    verdict = "compatible" if difference.compatible else "not compatible"
    labels = f"{manifest.versions[before]} -> {manifest.versions[after]}"
    return f"{manifest.tap}/{manifest.stream} {labels}: {verdict}: {said}"


def _json(lake: Lake, manifest: Manifest, before: str, after: str, difference: SchemaDiff) -> dict[str, Any]:
    return {
        "lake": lake.storage.url,
        "tap": manifest.tap,
        "stream": manifest.stream,
        "before": {"version": manifest.versions[before], "hash": before},
        "after": {"version": manifest.versions[after], "hash": after},
        "compatible": difference.compatible,
        **asdict(difference),
    }
