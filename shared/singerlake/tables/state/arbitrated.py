"""States of tables on storage that ignores conditions: a database says which one is the newest (section 14.7 of the
format).

The code of tables reads, replaces and drops a state by ``get``, ``put`` and ``delete`` of one object, the last two on
the condition that nobody came first. Here the database decides these three. All other requests are storage's own.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol, cast

import msgspec

from singerlake.clock import IdSource
from singerlake.errors import AccessDeniedError, CorruptObjectError, SingerlakeError
from singerlake.format.decoders import prepare_decoders
from singerlake.storage.port import Refused, Storage, Stored, Written
from singerlake.tables.state.keys import kept_state_key, state_key, table_of_state

DROPPED = "dropped-"
"""How the mark of a table begins that is not there any more."""
UNMARKED = ""
"""The ETag of a state that a database knows nothing of."""
_MARK = re.compile(r"(?:dropped-)?[0-9a-z]{1,64}")


class TableMarks(Protocol):
    """A text for each table of a lake, in a database. Both methods raise what the database raises."""

    def read(self, table: str) -> str | None:
        """The table's mark now; None where it has none."""
        ...

    def swap(self, table: str, before: str | None, after: str) -> bool:
        """Make it ``after``, a text that no mark ever was, where it is ``before`` (None: where there is none). False
        where it is another one. Raises ``UnknownOutcomeError``."""
        ...


class _Run(msgspec.Struct):
    id: str


class _Ids(msgspec.Struct):
    """The writes that a state knows of."""

    id: str
    runs: tuple[_Run, ...] = ()


class ArbitratedStorage:
    """A storage whose states of tables are arbitrated by ``marks``. ``arbitrated`` gives it as a ``Storage``."""

    def __init__(self, storage: Storage, marks: TableMarks, ids: IdSource) -> None:
        self._storage = storage
        self._marks = marks
        self._ids = ids

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def get(self, key: str) -> Stored | None:
        """As the port says. Of a state of a table it is the newest one, which readers are shown from then on; its ETag
        is the mark."""
        table = table_of_state(key)
        if table is None:
            return self._storage.get(key)
        while True:
            mark, shown = self._mark(table), self._storage.get(key)
            if mark is None:
                return shown and replace(shown, etag=UNMARKED)
            if shown is not None and _knows(shown.body, mark):
                return replace(shown, etag=mark)
            mark, kept = self._standing(table)
            if mark is None:
                continue
            if kept is not None:
                self._show(table, mark, kept.body)
                return replace(kept, etag=mark)
            if not mark.startswith(DROPPED):
                # The database was restored from a backup, or what the mark names was lost.
                return shown and replace(shown, etag=mark)
            if shown is not None:
                self._hide(table)
            return None

    def put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        """As the port says. A state of a table is kept under its own id, then marked, and then shown to readers."""
        table = table_of_state(key)
        if table is None or not (if_absent or if_match is not None):
            return self._storage.put(key, body, if_absent=if_absent, if_match=if_match)
        before = self._mark(table) if if_absent else if_match or None
        if if_absent and self.get(key) is not None:
            return Refused()
        own = msgspec.json.decode(body, type=_Ids).id
        self._storage.put(kept_state_key(table, own), body)
        if not self._marks.swap(table, before, own):
            # If it took effect all the same, a later state took its place since, which knows of it.
            self._forget(table, own)
            return Refused()
        self._show(table, own, body)
        if before is not None and not before.startswith(DROPPED):
            self._forget(table, before)
        return Written(own)

    def delete(self, key: str, *, if_match: str | None = None) -> bool:
        """As the port says. A state of a table is marked as dropped first."""
        table = table_of_state(key)
        if table is None or if_match is None:
            return self._storage.delete(key, if_match=if_match)
        if not self._marks.swap(table, if_match or None, DROPPED + self._ids()):
            return False
        self._storage.delete(key)
        self._look_again(table)
        return True

    def _show(self, table: str, own: str, body: bytes) -> None:
        """Give readers a state, or the one that is the newest by then: whoever writes last has looked after that."""
        self._storage.put(state_key(table), body)
        while self._mark(table) != own:
            mark, kept = self._standing(table)
            if kept is None or mark is None:
                if mark is not None and mark.startswith(DROPPED):
                    self._hide(table)
                return
            own = mark
            self._storage.put(state_key(table), kept.body)

    def _hide(self, table: str) -> None:
        """Take from readers what a drop that ended early, or a writer that it overtook, left to them."""
        with suppress(AccessDeniedError):
            self._storage.delete(state_key(table))
            self._look_again(table)

    def _look_again(self, table: str) -> None:
        """Show the table to readers if it was made again before its state was deleted."""
        mark, kept = self._standing(table)
        if mark is not None and kept is not None:
            self._show(table, mark, kept.body)

    def _standing(self, table: str) -> tuple[str | None, Stored | None]:
        """The mark, and the state that it names, where that is kept."""
        mark = self._mark(table)
        while mark is not None and not mark.startswith(DROPPED):
            kept = self._storage.get(kept_state_key(table, mark))
            now = mark if kept is not None else self._mark(table)
            if now == mark:
                return mark, kept
            mark = now
        return mark, None

    def _mark(self, table: str) -> str | None:
        mark = self._marks.read(table)
        if mark is not None and not _MARK.fullmatch(mark):
            raise CorruptObjectError(
                "the database has a mark of a table that no writer made",
                hint="restore the database; nothing was changed",
                table=table,
            )
        return mark

    def _forget(self, table: str, own: str) -> None:
        """Remove a state that no mark names. What cannot be removed now is left to the collector."""
        with suppress(SingerlakeError):
            self._storage.delete(kept_state_key(table, own))


def arbitrated(storage: Storage, marks: TableMarks, ids: IdSource) -> Storage:
    """``storage``, on which several may write tables at once though it ignores conditions."""
    return cast("Storage", ArbitratedStorage(storage, marks, ids))


def _knows(body: bytes, mark: str) -> bool:
    """Whether the state is the one of that mark, or came after it."""
    try:
        ids = msgspec.json.decode(body, type=_Ids)
    except msgspec.DecodeError:
        return False
    return mark == ids.id or any(run.id == mark for run in ids.runs)


prepare_decoders(_Run, _Ids)
