"""Which tables there are, and how they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from singerlake.errors import SingerlakeError, expected_errors
from singerlake.glance import at_a_glance
from singerlake.tables.declaration.model import TableDeclaration
from singerlake.tables.declaration.streams import Declared, chosen, resolve
from singerlake.tables.maintain.status import BEGUN, standing_of
from singerlake.tables.state.commit import load, sources
from singerlake.tables.state.commit import tables as tables_there
from singerlake.tables.state.model import source_of
from singerlake.upkeep.context import LakeContext
from singerlake.work.parallel import THREADS, in_parallel


@at_a_glance
@dataclass(frozen=True, slots=True)
class ListedTable:
    """How one table stands; ``declared``: a declaration names it. ``behind`` counts messages of the stream that it does
    not hold yet, all of them where it was rebuilt since. ``checks``: how many there are, and of how many rows the last
    run said that one does not hold."""

    table: str
    declared: bool
    tap: str | None = None
    stream: str | None = None
    source: str | None = None
    keep: str | None = None
    format: str | None = None
    rows: int | None = None
    files: int | None = None
    bytes: int | None = None
    offset: int | None = None
    behind: int | None = None
    last_run: str | None = None
    checks: tuple[int, int] | None = None
    trouble: str | None = None


@at_a_glance
@dataclass(frozen=True, slots=True)
class ListTablesResult:
    """The tables that are declared, and behind them those that are there and that no declaration names."""

    lake: str
    tables: tuple[ListedTable, ...]


def list_tables(lake: LakeContext, declared: Sequence[Declared], wanted: Sequence[str]) -> ListTablesResult:
    """How the tables stand that are declared or there; only those that are ``wanted``, if any is. Raises
    ``UnknownNameError``."""
    streams = {tap: lake.existing_streams(tap) for tap in lake.chosen_taps(None)}
    there = tables_there(lake.storage)
    every, failed = resolve(declared, streams, sources(lake.storage))
    tables = every
    names = [each.declaration.name for each in tables] + there
    if wanted:
        others = [name for name in wanted if name not in there]
        tables, failed = chosen(tables, failed, others, there) if others else ([], [])
        names = [each.declaration.name for each in tables] + [name for name in there if name in wanted]
    declarations = {each.declaration.name: each.declaration for each in every}

    def one(name: str) -> ListedTable:
        try:
            with expected_errors(table=name):
                return _look(lake, name, declarations.get(name))
        except SingerlakeError as error:
            return ListedTable(name, name in declarations, trouble=f"{error.message}; {error.hint}")

    wrong = [
        ListedTable(each.declaration.name, True, trouble=f"{each.error.message}; {each.error.hint}") for each in failed
    ]
    found = in_parallel(one, dict.fromkeys(names), threads=THREADS)
    return ListTablesResult(lake.storage.url, (*wrong, *found))


def _look(lake: LakeContext, name: str, declared: TableDeclaration | None) -> ListedTable:
    """``declared``: what the table is declared to be; None where no declaration names it."""
    found = load(lake.storage, name)
    state = found.state if found is not None and found.state.is_published else None
    if state is None:
        if declared is None:
            return ListedTable(name, False, trouble=BEGUN)
        if declared.sql is not None:
            return ListedTable(name, True, source="sql")
        manifest = lake.stream(declared.tap, declared.stream).snapshot()
        source = f"{declared.tap}.{declared.stream}"
        behind = manifest.next_offset - manifest.floor
        return ListedTable(name, True, declared.tap, declared.stream, source, behind=behind)
    made_of = state.sources[0] if state.sources else None
    newest = lake.stream(made_of.tap, made_of.stream).state() if made_of is not None else None
    stands = standing_of(state, None if newest is None else source_of(newest))
    return ListedTable(
        table=name,
        declared=declared is not None,
        tap=made_of.tap if made_of is not None else None,
        stream=made_of.stream if made_of is not None else None,
        source=stands.source_text,
        keep=stands.declaration.get("keep") if made_of is not None else "sql",
        format=stands.declaration.get("format"),
        rows=stands.rows,
        files=stands.files,
        bytes=stands.bytes,
        offset=made_of.offset if made_of is not None else None,
        behind=stands.behind,
        last_run=stands.last_run.at if stands.last_run is not None else None,
        checks=(len(stands.checks), sum(stands.failing.values())),
    )
