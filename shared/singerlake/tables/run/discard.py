"""What a run has put on storage for a table and no state names: removed where the run fails or is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from singerlake.errors import SingerlakeError
from singerlake.storage.port import Storage
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import TableFile


class Unpublished:
    """What one attempt has made: ``made`` are new files of ``table``, ``scratch`` the keys of what its tasks handed to
    each other. What cannot be removed now is left to the collector."""

    storage: Storage
    made: list[TableFile]
    scratch: list[str]

    @property
    def table(self) -> str:
        """The table's name."""
        raise NotImplementedError

    def discard_scratch(self) -> None:
        """Remove what tasks handed to each other."""
        with suppress(SingerlakeError):
            self.storage.delete_all(self.scratch)
        self.scratch = []

    def discard(self) -> None:
        """Remove all that was made: nothing names it, and nothing will."""
        self.discard_scratch()
        prefix = table_prefix(self.table)
        with suppress(SingerlakeError):
            self.storage.delete_all([prefix + path for file in self.made for path in file.paths])
        self.made = []


@contextmanager
def discarded(*works: Unpublished) -> Iterator[None]:
    """Remove what was made where the block fails or is interrupted: no state names it."""
    try:
        yield
    except (Exception, KeyboardInterrupt):
        for work in works:
            work.discard()
        raise
