"""Whether tables may still hold what was erased from their streams."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from singerlake.errors import LakeError
from singerlake.humanize import counted
from singerlake.tables.state.commit import load, tables
from singerlake.tables.state.keys import state_key
from singerlake.tables.state.model import TableSource, TableState, source_of
from singerlake.upkeep.context import LakeContext
from singerlake.upkeep.result import Finding


def tables_of_before(lake: LakeContext, pairs: Collection[tuple[str, str]] | None) -> Iterator[Finding]:
    """A finding for each table that was made before the last erasure of its stream, one of ``pairs`` (None: any), or
    from such a table; and a note for each that was made anew while files that it replaced are still stored. Raises what
    storage raises."""
    states: dict[str, TableState] = {}
    for name in tables(lake.storage):
        try:
            found = load(lake.storage, name)
        except LakeError:
            yield Finding("erased", state_key(name), "cannot be read, so nobody can tell whether it holds such records")
            continue
        if found is not None:
            states[name] = found.state
    before = {name: why for name, state in states.items() if (why := _made_before(lake, state, pairs))}
    while more := {
        name: why for name, state in states.items() if name not in before and (why := _older(state, before))
    }:
        before |= more
    for name, state in states.items():
        if name in before:
            yield Finding("erased", state_key(name), f"{before[name]}; run 'singerlake project run', or drop the table")
        elif state.retired and any(each.erased and _is_meant(each, pairs) for each in state.sources):
            what = f"{counted(len(state.retired), 'file')} that the table replaced may hold such records"
            yield Finding("erased", state_key(name), f"{what}; 'singerlake project gc' deletes them", problem=False)


def _made_before(lake: LakeContext, state: TableState, pairs: Collection[tuple[str, str]] | None) -> str:
    """Why the table may hold what its stream no longer does; empty where it cannot."""
    for source in state.sources:
        if not _is_meant(source, pairs):
            continue
        try:
            newest = lake.stream(source.tap, source.stream).state()
        except LakeError:
            # What cannot be read of a stream is a finding of its own.
            continue
        if newest is None or newest.lineage != source.lineage:
            return "the table was made before its stream was dropped or rebuilt"
        if not source.knows_holes_of(source_of(newest)):
            return "the table was made before records of its stream were erased"
    return ""


def _older(state: TableState, before: Collection[str]) -> str:
    found = next((made.table for made in state.made_from if made.table in before), None)
    return f"the table was made from rows of {found!r}" if found else ""


def _is_meant(source: TableSource, pairs: Collection[tuple[str, str]] | None) -> bool:
    return pairs is None or (source.tap, source.stream) in pairs
