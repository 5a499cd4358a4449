"""Whether tables may still hold what was erased from their streams."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from singerlake.errors import LakeError
from singerlake.format.state.model import Manifest
from singerlake.humanize import counted
from singerlake.tables.state.commit import load, tables
from singerlake.tables.state.keys import state_key
from singerlake.tables.state.model import TableSource, TableState, source_of
from singerlake.upkeep.context import LakeContext
from singerlake.upkeep.result import Finding

_RUN = "run 'singerlake project run', or drop the table"


def tables_of_before(
    lake: LakeContext, pairs: Collection[tuple[str, str]] | None, may_hold: Callable[[Manifest], bool]
) -> Iterator[Finding]:
    """A finding for each table that was made before the last erasure of its stream, one of ``pairs`` (None: any), or
    from such a table; and for each that was made anew while files that it replaced are still stored. Tables of streams
    are left out that ``may_hold`` denies: none of their records was ever meant. Raises what storage raises."""

    def is_meant(source: TableSource) -> bool:
        if pairs is not None and (source.tap, source.stream) not in pairs:
            return False
        newest = _newest(lake, source)
        # Of a stream that was dropped or rebuilt nobody knows what its versions declared.
        return newest is None or newest.is_dropped or newest.lineage != source.lineage or may_hold(newest)

    states: dict[str, TableState] = {}
    for name in tables(lake.storage):
        try:
            found = load(lake.storage, name)
        except LakeError:
            yield Finding("erased", state_key(name), "cannot be read, so nobody can tell whether it holds such records")
            continue
        if found is not None:
            states[name] = found.state
    touched = {name for name, state in states.items() if any(each.erased and is_meant(each) for each in state.sources)}
    while more := {name for name, state in states.items() if _read(state) & touched} - touched:
        touched |= more
    before = {
        name: why for name, state in states.items() if (why := _made_before(lake, filter(is_meant, state.sources)))
    }
    left = states.keys() - before.keys()
    while older := {name: why for name in left if (why := _older(states[name], states, before, touched))}:
        left -= older.keys()
        before |= older
    for name, state in states.items():
        if name in before:
            yield Finding("erased", state_key(name), before[name])
        elif state.retired and name in touched:
            what = f"{counted(len(state.retired), 'file')} that the table replaced may hold such records"
            yield Finding("erased", state_key(name), f"{what} until 'singerlake project gc --delete' has deleted them")


def _newest(lake: LakeContext, source: TableSource) -> Manifest | None:
    """The state of the stream; None where there is none that can be read, which is a finding of its own."""
    try:
        return lake.stream(source.tap, source.stream).state()
    except LakeError:
        return None


def _made_before(lake: LakeContext, sources: Iterable[TableSource]) -> str:
    """Why a table of these may hold what its stream no longer does; empty where it cannot."""
    for source in sources:
        try:
            newest = lake.stream(source.tap, source.stream).state()
        except LakeError:
            # What cannot be read of a stream is a finding of its own.
            continue
        if newest is None or newest.is_dropped:
            return "the table was made before its stream was dropped; run 'singerlake project drop'"
        if newest.lineage != source.lineage:
            return f"the table was made before its stream was rebuilt; {_RUN}"
        if not source.knows_holes_of(source_of(newest)):
            return f"the table was made before records of its stream were erased; {_RUN}"
    return ""


def _older(
    state: TableState, states: Mapping[str, TableState], before: Collection[str], touched: Collection[str]
) -> str:
    """Why the table of a statement may hold what the tables that it read no longer do; empty where it cannot."""
    for made in state.made_from:
        read = states.get(made.table)
        if read is None:
            gone = f"the table was made from {made.table!r}, which is gone, so that nobody can tell what it holds"
            return f"{gone}; {_RUN}"
        # Where records are erased from its stream, a table is made anew, and so is one that a statement makes of it.
        if made.table in before or (made.table in touched and read.generation != made.generation):
            return f"the table was made from rows of {made.table!r} from before records were erased; {_RUN}"
    return ""


def _read(state: TableState) -> set[str]:
    return {made.table for made in state.made_from}
