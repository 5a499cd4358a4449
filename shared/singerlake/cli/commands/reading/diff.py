"""``singerlake diff``: what changed between two schema versions of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from singerlake.cli.help import command, examples
from singerlake.cli.options import Names, one_stream_options, result_options, with_lake
from singerlake.cli.output import say, show, shown
from singerlake.lake import Lake
from singerlake.upkeep.reports.schema_diff import DiffResult, SchemaDiff


@examples("singerlake diff lake", "singerlake diff lake v1 v2 --stream users")
@command("Compare two schema versions of a stream: can readers of the first read the second?")
@partial(with_lake, names=Names(("first", "second"), optional=True))
@one_stream_options
@result_options
def diff(lake: Lake, first: str | None, second: str | None, tap: str | None, stream: str | None) -> int:
    """Compare two schema versions of a stream: FIRST and SECOND are labels (v1), hashes or their path segments.
    Without them they are the last two.

    Exits with 1 if the second is not compatible with the first: if a property is gone or holds values that it did not
    hold before, or if the keys changed.
    """
    difference = lake.one_stream(tap, stream).diff(first, second)
    show(difference, _say)
    return 0 if difference.compatible else 1


def _say(difference: DiffResult) -> None:
    for line in lines_of(difference):
        say(shown(line), problem=line.startswith(("!", "-")))
    say(shown(_summary(difference)), problem=not difference.compatible)


def lines_of(difference: DiffResult | SchemaDiff) -> Iterator[str]:
    """A line for each property that differs, and one for the keys."""
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


def _summary(difference: DiffResult) -> str:
    kinds = {"added": difference.added, "removed": difference.removed, "changed": difference.changed}
    said = ", ".join(f"{len(each)} {what}" for what, each in kinds.items() if each) or "no property differs"
    verdict = "compatible" if difference.compatible else "not compatible"
    labels = f"{difference.before.version} -> {difference.after.version}"
    return f"{difference.tap}/{difference.stream} {labels}: {verdict}: {said}"
