"""Logs and metadata of other formats, by which engines find a table's files: derived from its state after each write of
it, and brought up by the next run where one died between the two (sections 14.5 and 14.8 of the format).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from singerlake.clock import Clock
from singerlake.errors import SingerlakeError
from singerlake.storage.port import Entry, Storage
from singerlake.tables.declaration.model import Format, TableDeclaration
from singerlake.tables.delta import publish as delta
from singerlake.tables.delta.schema import check_columns as check_delta
from singerlake.tables.description import Description
from singerlake.tables.iceberg import publish as iceberg
from singerlake.tables.iceberg.schema import check_names, check_place
from singerlake.tables.rows.columns import TableColumns
from singerlake.tables.state.commit import require_conditions
from singerlake.tables.state.model import TableState


class Derived(Protocol):
    """What one format does; each function is that of the module."""

    NAME: str
    FORMAT: str

    def has_log(self, state: TableState) -> bool: ...

    def prefix_of(self, table: str) -> str: ...

    def described(self, storage: Storage, state: TableState) -> Description: ...

    def catch_up(self, storage: Storage, state: TableState, clock: Clock) -> None: ...

    def leave_old_behind(self, storage: Storage, table: str, before: datetime) -> None: ...

    def disagreements(self, storage: Storage, table: str) -> Iterator[str]: ...

    def kept(
        self, storage: Storage, state: TableState, objects: Sequence[Entry], *, now: datetime, grace: timedelta
    ) -> set[str]: ...


KINDS: tuple[Derived, ...] = (delta, iceberg)


def of_state(state: TableState) -> list[Derived]:
    """The formats that describe a table."""
    return [kind for kind in KINDS if kind.has_log(state)]


def catch_up(storage: Storage, state: TableState, clock: Clock) -> None:
    """Bring all to the table as it is, if they do not show ``state``. Raises ``CorruptObjectError``,
    ``TooManyConflictsError``, and what storage raises: what could not be brought up is at an earlier state, whole."""
    errors: list[SingerlakeError] = []
    for kind in of_state(state):
        try:
            kind.catch_up(storage, state, clock)
        except SingerlakeError as error:
            # The other one is brought up also where this one is damaged.
            errors.append(error)
    if errors:
        raise errors[0]


def kept(storage: Storage, state: TableState, objects: Sequence[Entry], *, now: datetime, grace: timedelta) -> set[str]:
    """Keys of a table's ``objects`` that have to stay for readers of any. Raises as each."""
    return {key for kind in KINDS for key in kind.kept(storage, state, objects, now=now, grace=grace)}


def leave_old_behind(storage: Storage, state: TableState, before: datetime) -> None:
    """Have all name no more what a collector may delete at a later time. Raises as each."""
    for kind in of_state(state):
        kind.leave_old_behind(storage, state.table, before)


def require_storage(storage: Storage, declaration: TableDeclaration) -> None:
    """Raise ``ConditionNotSupportedError`` where storage cannot keep the table as it is declared, ``SettingError``
    where engines would not find it there, and ``ConditionsUnprovenError``."""
    needs = delta.NAME if declaration.format is Format.DELTA else iceberg.NAME if declaration.iceberg else ""
    require_conditions(storage, log=needs)
    if declaration.iceberg:
        check_place(storage)


def check_columns(declaration: TableDeclaration, columns: TableColumns) -> None:
    """Raise ``SettingError`` where a format that is declared cannot have that name or these columns, or what writes it
    is not installed."""
    check_delta(declaration, columns)
    if declaration.iceberg:
        check_names(declaration, columns)
        iceberg.check_installed()
