"""What describes tables to other engines: listed, and brought to the tables without a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from singerlake.clock import Clock
from singerlake.errors import SingerlakeError, expected_errors
from singerlake.glance import at_a_glance
from singerlake.storage.port import Storage
from singerlake.tables.derived import of_state
from singerlake.tables.maintain.failure import TableFailure
from singerlake.tables.state.commit import load
from singerlake.work.parallel import THREADS, in_parallel


@at_a_glance
@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """What describes a table in ``format``, ``delta`` or ``iceberg``: its newest ``version`` at ``url``, the folder of
    a Delta table or the metadata of an Iceberg table; both None where there is none yet. ``current``: it shows the
    table as it is. ``written``: it does so only now."""

    table: str
    format: str
    version: int | None
    url: str | None
    current: bool
    written: bool = False


@at_a_glance
@dataclass(frozen=True, slots=True)
class CatalogResult:
    """What describes the tables of a lake, by name, and the tables that could not be looked at or described."""

    lake: str
    entries: tuple[CatalogEntry, ...]
    failed: tuple[TableFailure, ...]


def list_catalog(storage: Storage, names: Sequence[str]) -> CatalogResult:
    """What describes each table. One that cannot be read stops no other."""
    return _result(storage, list(in_parallel(partial(_entries, storage, None), names, threads=THREADS)))


def sync_catalog(storage: Storage, names: Sequence[str], clock: Clock) -> CatalogResult:
    """Bring what describes each table to it, where it does not show it. One that cannot be brought stops no other."""
    return _result(storage, [_entries(storage, clock, name) for name in names])


def _result(storage: Storage, found: Sequence[tuple[CatalogEntry, ...] | TableFailure]) -> CatalogResult:
    failed = tuple(each for each in found if isinstance(each, TableFailure))
    entries = tuple(entry for each in found if not isinstance(each, TableFailure) for entry in each)
    return CatalogResult(storage.url, entries, failed)


def _entries(storage: Storage, clock: Clock | None, name: str) -> tuple[CatalogEntry, ...] | TableFailure:
    """With a ``clock`` what is not current is brought up."""
    try:
        with expected_errors(table=name):
            found = load(storage, name)
            made = []
            for kind in of_state(found.state) if found is not None else ():
                assert found is not None
                before = now = kind.described(storage, found.state)
                if clock is not None:
                    kind.catch_up(storage, found.state, clock)
                    now = kind.described(storage, found.state)
                made.append(
                    CatalogEntry(
                        table=name,
                        format=kind.FORMAT,
                        version=now.version if now.is_there else None,
                        url=now.url if now.is_there else None,
                        current=now.is_current,
                        written=now.is_current and not before.is_current,
                    )
                )
            return tuple(made)
    except SingerlakeError as error:
        return TableFailure(name, error)
